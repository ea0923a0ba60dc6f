//! What is reported of the fibers of a process: groups of equal backtraces.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Serialize, Serializer};
use uthread::root::{self, Awaited, WaitsFor};

use crate::descriptors;
use crate::memory::Memory;
use crate::model::{Frame, State};
use crate::modules::{Backtrace, Cache, Modules};
use crate::origins::Origins;
use crate::reader::{Fiber, Reader};
use crate::snapshot::Copied;

/// Maximum number of ids, names and places that stand beside a group.
const EXAMPLES_MAX: usize = 5;

/// The fibers of a process at one time.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The id of the process.
    pub pid: i32,
    /// `true` if it has left a core file, of which these are the fibers.
    pub is_core: bool,
    /// The time for which it was stopped, in milliseconds; `None` if it was not, and of a core file.
    pub stopped_ms: Option<f64>,
    /// Number of threads of its workers, one number a runtime.
    pub workers: Vec<usize>,
    /// The fibers that have the same backtrace and state, those that wait for longest first.
    pub groups: Vec<Group>,
    /// Why fibers are missing, if some are.
    pub problems: Vec<String>,
}

/// Fibers with the same backtrace and state.
#[derive(Debug, Serialize)]
pub struct Group {
    /// What they do.
    pub state: State,
    /// Where they are, the innermost function first.
    pub frames: Vec<Frame>,
    /// `true` if functions are missing at the end.
    pub is_cut: bool,
    /// The fibers, those that wait for longest first, and then by id.
    pub fibers: Vec<Member>,
}

/// A fiber of a [`Group`].
#[derive(Debug, Serialize)]
pub struct Member {
    /// Its id, as `uthread::current().id()` shows it.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: Option<String>,
    /// The id of the fiber in whose scope it was spawned, and which waits there for its end. `None`
    /// if it was spawned otherwise, or if a thread has made the scope.
    pub scope_of: Option<u64>,
    /// The index of its runtime in [`Report::workers`].
    pub runtime: usize,
    /// The index of its worker in the runtime.
    pub worker: u32,
    /// The number of the descriptor that it waits for: of a socket, pipe or file on which its
    /// operation is. `None` if it waits for no operation, or if that is on none.
    pub descriptor: Option<i32>,
    /// What the descriptor refers to: a path, a pipe, or the addresses of a socket, such as
    /// `tcp 127.0.0.1:80 (listening)` or `tcp 127.0.0.1:80 -> 127.0.0.1:54321`. `None` in a core
    /// file, and if it is closed meanwhile.
    pub target: Option<String>,
    /// The fiber that it waits for, if that is known; in JSON with the `kind` `lock` or `end`.
    #[serde(serialize_with = "with_kind")]
    pub waits_for: Option<WaitsFor>,
    /// The id of its thread, if it is dedicated.
    pub thread: Option<i32>,
    /// Number of bytes of its stack in use.
    pub stack_bytes: u64,
    /// The least time for which it has been suspended, at most 10 ms and a sixth too short; in JSON
    /// as `suspended_ms`, in milliseconds. `None` if it runs, or may have run until just now.
    #[serde(rename = "suspended_ms", serialize_with = "in_ms")]
    pub suspended_for: Option<Duration>,
}

impl Report {
    /// Unwinds the stacks and groups the fibers.
    pub(crate) fn new(pid: i32, copied: Copied, memory: &dyn Memory, modules: &Modules) -> Report {
        let mut reader = Reader::new(memory, modules);
        let mut cache = Cache::default();
        let mut groups: HashMap<(State, Backtrace), Vec<Member>> = HashMap::new();
        let mut referred = copied.referred;
        let is_running = copied.is_running;
        let fibers = copied.fibers.into_iter();
        let fibers = fibers.map(|copy| reader.read(copy, is_running));
        let fibers: Vec<_> = fibers.collect();
        let by_bits = fibers
            .iter()
            .map(|fiber| (Awaited::bits_of(fiber.address), fiber.id));
        let by_bits: HashMap<_, _> = by_bits.collect();
        for mut fiber in fibers {
            let thread = fiber.become_dedicated(&mut referred);
            let waits_for = fiber.waits_for(&by_bits);
            let backtrace = match fiber.registers {
                Some(registers) => modules.unwind(registers, &fiber.stack, &mut cache),
                None => Backtrace {
                    is_cut: !matches!(fiber.state, State::New | State::Moving),
                    ..Backtrace::default()
                },
            };
            let group = groups.entry((fiber.state, backtrace)).or_default();
            group.push(Member {
                waits_for,
                thread,
                ..Member::of(fiber)
            });
        }
        // Two calls in one line are the same. Without lines, only the same call is.
        let mut by_frames: HashMap<_, Vec<Member>> = HashMap::new();
        for ((state, backtrace), fibers) in groups {
            let (frames, reaches_base) = frames(&backtrace, modules);
            let is_cut = backtrace.is_cut && !reaches_base;
            let has_lines = frames.iter().all(|frame: &Frame| frame.line.is_some());
            let call = (!has_lines).then_some(backtrace);
            let group = by_frames.entry((state, frames, is_cut, call));
            group.or_default().extend(fibers);
        }
        let groups = by_frames.into_iter();
        let groups = groups.map(|((state, frames, is_cut, _), mut fibers)| {
            let longest_first = |fiber: &Member| (Reverse(fiber.suspended_for), fiber.id);
            fibers.sort_unstable_by_key(longest_first);
            Group {
                state,
                frames,
                is_cut,
                fibers,
            }
        });
        let mut groups: Vec<_> = groups.collect();
        groups.sort_by_key(|group| {
            let first = &group.fibers[0];
            let longest_first = Reverse(first.suspended_for);
            (longest_first, Reverse(group.fibers.len()), first.id)
        });
        Report {
            pid,
            is_core: false,
            stopped_ms: None,
            workers: copied.workers.iter().map(|runtime| runtime.1).collect(),
            groups,
            problems: copied.problems,
        }
    }

    pub(crate) fn set_stopped(&mut self, (time, moving): (Duration, usize)) {
        self.stopped_ms = Some(time.as_secs_f64() * 1e3);
        if moving > 0 {
            let problem =
                format!("{moving} threads did not stop: what they ran may have changed meanwhile");
            self.problems.push(problem);
        }
    }

    /// Finds out what the descriptors refer to.
    pub(crate) fn find_targets(&mut self) {
        let fibers = || self.groups.iter().flat_map(|group| &group.fibers);
        let numbers = fibers().filter_map(|fiber| fiber.descriptor).collect();
        let targets = descriptors::targets(self.pid, &numbers);
        for fiber in self.groups.iter_mut().flat_map(|group| &mut group.fibers) {
            let target = fiber.descriptor.and_then(|number| targets.get(&number));
            fiber.target = target.cloned();
        }
    }

    /// Leaves only the fibers whose name contains this text.
    pub fn keep_named(&mut self, text: &str) {
        let is_kept = |fiber: &Member| {
            fiber
                .name
                .as_deref()
                .is_some_and(|name| name.contains(text))
        };
        for group in &mut self.groups {
            group.fibers.retain(is_kept);
        }
        self.groups.retain(|group| !group.fibers.is_empty());
    }

    /// Leaves only the fibers that were spawned at this place, as [`Member::spawned_at`] has it.
    pub fn keep_spawned_at(&mut self, place: &str) {
        let is_kept = |fiber: &Member| fiber.spawned_at.as_deref() == Some(place);
        for group in &mut self.groups {
            group.fibers.retain(is_kept);
        }
        self.groups.retain(|group| !group.fibers.is_empty());
    }

    /// Leaves only the fibers that have been suspended for at least this long.
    pub fn keep_older_than(&mut self, time: Duration) {
        let is_kept = |fiber: &Member| fiber.suspended_for.is_some_and(|known| known >= time);
        for group in &mut self.groups {
            group.fibers.retain(is_kept);
        }
        self.groups.retain(|group| !group.fibers.is_empty());
    }

    /// Leaves only the fibers that are in a function whose name contains this text, and those that
    /// wait for a descriptor whose [target](Member::target) does.
    pub fn keep_waiting_on(&mut self, text: &str) {
        let is_target = |fiber: &Member| {
            let target = fiber.target.as_deref();
            target.is_some_and(|target| target.contains(text))
        };
        for group in &mut self.groups {
            let mut frames = group.frames.iter();
            if !frames.any(|frame| frame.function.contains(text)) {
                group.fibers.retain(is_target);
            }
        }
        self.groups.retain(|group| !group.fibers.is_empty());
    }

    /// Returns fibers of which each waits for the next one, and the last one for the first one: they
    /// wait for ever. Empty if there are none that are known to.
    #[must_use]
    pub fn cycle(&self) -> Vec<(u64, WaitsFor)> {
        let fibers = self.groups.iter().flat_map(|group| &group.fibers);
        let waiting = fibers.filter_map(|fiber| Some((fiber.id, fiber.waits_for?)));
        root::cycle(waiting)
    }

    /// Returns the number of fibers.
    #[must_use]
    pub fn fibers(&self) -> usize {
        self.groups.iter().map(|group| group.fibers.len()).sum()
    }
}

/// Returns the functions of a backtrace that are of interest, from the one of the library that the
/// program has called to the one that the fiber runs; and `true` if the base of the stack is known.
fn frames(backtrace: &Backtrace, modules: &Modules) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    for address in &backtrace.addresses {
        modules.name(*address, &mut frames);
    }
    let origins = Origins::of(&frames);
    let base = frames.iter().position(|frame| origins.is_base(frame));
    frames.truncate(base.unwrap_or(frames.len()));
    while frames.len() > 1 && frames.last().is_some_and(|frame| origins.is_outer(frame)) {
        frames.pop();
    }
    let inner = frames.iter().take_while(|frame| origins.is_inner(frame));
    let inner = inner
        .enumerate()
        .filter(|(_, frame)| origins.is_of_library(frame));
    let called = inner.last().map_or(0, |(index, _)| index);
    frames.drain(..called);
    frames.iter_mut().for_each(|frame| origins.qualify(frame));
    (frames, base.is_some())
}

impl Member {
    fn of(fiber: Fiber) -> Member {
        Member {
            id: fiber.id,
            name: fiber.identity.name,
            spawned_at: fiber.spawn_site.map(|site| site.to_string()),
            scope_of: fiber.identity.scope_of,
            runtime: fiber.runtime,
            worker: fiber.worker,
            descriptor: fiber.descriptor,
            target: None,
            waits_for: None,
            thread: None,
            stack_bytes: fiber.stack_bytes,
            suspended_for: fiber.suspended_for,
        }
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let workers: usize = self.workers.iter().sum();
        let fibers = count(self.fibers(), "fiber");
        let workers = count(workers, "worker");
        match self.stopped_ms {
            Some(time) => writeln!(
                out,
                "process {}: {fibers} on {workers}, stopped for {time:.1} ms",
                self.pid
            )?,
            None if self.is_core => {
                writeln!(out, "core of process {}: {fibers} on {workers}", self.pid)?;
            }
            None => writeln!(
                out,
                "process {}: {fibers} on {workers}, not stopped",
                self.pid
            )?,
        }
        for (index, (fiber, waits_for)) in self.cycle().iter().enumerate() {
            let start = if index == 0 { "cycle:" } else { "   and" };
            writeln!(out, "{start} fiber {fiber} waits for {waits_for}")?;
        }
        for group in &self.groups {
            write!(out, "\n{group}")?;
        }
        for problem in &self.problems {
            write!(out, "\nincomplete: {problem}\n")?;
        }
        Ok(())
    }
}

impl Display for Group {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {}", count(self.fibers.len(), "fiber"), self.state)?;
        let times = || self.fibers.iter().map(|fiber| fiber.suspended_for);
        match (times().min().flatten(), times().max().flatten()) {
            (_, None) => writeln!(out, ":"),
            (_, Some(longest)) if self.fibers.len() == 1 => writeln!(out, " for {longest:.1?}:"),
            (None, Some(longest)) => writeln!(out, " for up to {longest:.1?}:"),
            (Some(least), Some(longest)) => {
                let (least, longest) = (format!("{least:.1?}"), format!("{longest:.1?}"));
                if least == longest {
                    writeln!(out, " for {longest}:")
                } else {
                    writeln!(out, " for {least} to {longest}:")
                }
            }
        }?;
        self.examples(out, "id", |fiber| Some(fiber.id.to_string()))?;
        self.examples(out, "name", |fiber| fiber.name.clone())?;
        self.examples(out, "spawned at", |fiber| fiber.spawned_at.clone())?;
        self.examples(out, "in the scope of fiber", |fiber| {
            Some(fiber.scope_of?.to_string())
        })?;
        self.examples(out, "waiting for", |fiber| {
            Some(fiber.waits_for?.to_string())
        })?;
        self.examples(out, "thread", |fiber| Some(fiber.thread?.to_string()))?;
        self.descriptors(out)?;
        for frame in &self.frames {
            write!(out, "    {}", frame.function)?;
            if let Some(file) = &frame.file {
                write!(out, "\n        at {file}")?;
                if let Some(line) = frame.line {
                    write!(out, ":{line}")?;
                }
            }
            writeln!(out)?;
        }
        if self.is_cut {
            writeln!(out, "    (the rest of the stack cannot be unwound)")?;
        }
        Ok(())
    }
}

impl Group {
    /// Writes the descriptors that its fibers wait for: a line for each of some of them, or one for
    /// all if there are only numbers.
    fn descriptors(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut seen = HashSet::new();
        let known = self.fibers.iter().filter_map(|fiber| {
            let number = fiber.descriptor.filter(|number| seen.insert(*number))?;
            Some((number, fiber.target.as_deref()))
        });
        let different: Vec<_> = known.collect();
        if different.iter().all(|(_, target)| target.is_none()) {
            let number = |fiber: &Member| Some(fiber.descriptor?.to_string());
            return self.examples(out, "waiting on fd", number);
        }
        for (number, target) in different.iter().take(EXAMPLES_MAX) {
            let target = target.unwrap_or("closed meanwhile");
            writeln!(out, "  waiting on fd {number}: {target}")?;
        }
        match different.len().saturating_sub(EXAMPLES_MAX) {
            0 => Ok(()),
            more => writeln!(out, "  waiting on {more} more"),
        }
    }

    /// Writes a line with some of the different values that its fibers have.
    fn examples(
        &self,
        out: &mut Formatter<'_>,
        title: &str,
        value: impl Fn(&Member) -> Option<String>,
    ) -> fmt::Result {
        let mut seen = HashSet::new();
        let values = self.fibers.iter().filter_map(value);
        let different: Vec<_> = values.filter(|value| seen.insert(value.clone())).collect();
        let shown = &different[..different.len().min(EXAMPLES_MAX)];
        match different.len() - shown.len() {
            _ if shown.is_empty() => Ok(()),
            0 => writeln!(out, "  {title} {}", shown.join(", ")),
            more => writeln!(out, "  {title} {} and {more} more", shown.join(", ")),
        }
    }
}

pub(crate) fn in_ms<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64() * 1e3)
        .serialize(serializer)
}

fn with_kind<S: Serializer>(
    waits_for: &Option<WaitsFor>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json {
        kind: &'static str,
        fiber: u64,
    }
    let json = waits_for.and_then(|waits_for| {
        let (kind, fiber) = match waits_for {
            WaitsFor::Lock(holder) => ("lock", holder),
            WaitsFor::End(joined) => ("end", joined),
            _ => return None,
        };
        Some(Json { kind, fiber })
    });
    json.serialize(serializer)
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

//! What the workers of a process have done, and its form for viewers of traces.
//!
//! The form is the JSON of Chrome's Trace Event Format, which Perfetto and the Firefox profiler
//! open: a track for each worker, with a slice for each time that a fiber runs, and arrows from a
//! fiber to those that it wakes or spawns.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use uthread::root::{EventKind, Leave};

/// What is added to the id of the process for the tracks of fibers.
const FIBERS: i64 = 1 << 32;

/// What the workers of a process have done for some time.
#[derive(Debug)]
pub struct Trace {
    /// The id of the process.
    pub pid: i32,
    /// When the trace began, by `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The workers.
    pub workers: Vec<TracedWorker>,
    /// The places where fibers were spawned, by what events have for it.
    pub places: HashMap<u64, String>,
    /// The names of fibers, by id, of those that have one and have not ended.
    pub names: HashMap<u64, String>,
}

/// What a worker has done.
#[derive(Debug)]
pub struct TracedWorker {
    /// A number that tells runtimes apart.
    pub runtime: u64,
    /// Its index in its runtime.
    pub index: u64,
    /// What it has done, by the times of the ends.
    pub events: Vec<Event>,
    /// Number of events that were overwritten before they were read.
    pub lost: u64,
}

/// An event of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What has happened.
    pub kind: EventKind,
    /// Why a fiber has stopped to run.
    pub leave: Option<Leave>,
    /// When it began, by `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The id of the fiber, or 0.
    pub fiber: u64,
    /// The other fiber or the number that the [kind](EventKind) describes, or 0.
    pub other: u64,
    /// The key of the place where the fiber was spawned in [`Trace::places`], or 0.
    pub place: u64,
}

/// An arrow between two fibers.
struct Arrow {
    name: &'static str,
    at_ns: u64,
    /// The index of the worker on which it begins.
    worker: usize,
    to: u64,
}

/// When fibers run, by id: the begin and the index of the worker, in the order of the begins.
type Runs = HashMap<u64, Vec<(u64, usize)>>;

impl Trace {
    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.workers.iter().map(|worker| worker.events.len()).sum()
    }

    /// Returns the number of events that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.workers.iter().map(|worker| worker.lost).sum()
    }

    /// Writes the trace as JSON in Chrome's Trace Event Format, with a track for each worker, and
    /// one for each fiber if `has_fibers`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_json(&self, out: &mut dyn Write, has_fibers: bool) -> io::Result<()> {
        let mut json = Json { out, count: 0 };
        json.begin()?;
        self.write_titles(&mut json)?;
        let mut runs = Runs::new();
        let mut arrows = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            for event in &worker.events {
                json.add(&self.slice(index, event))?;
                arrows.extend(arrow(index, event));
                if is_run(event.kind) {
                    let runs = runs.entry(event.fiber).or_default();
                    runs.push((event.begin_ns, index));
                }
            }
        }
        runs.values_mut().for_each(|runs| runs.sort_unstable());
        for (number, arrow) in arrows.iter().enumerate() {
            if let Some(to) = first_run(&runs, arrow.to, arrow.at_ns) {
                self.write_arrow(&mut json, number, arrow, to)?;
            }
        }
        if has_fibers {
            self.write_fibers(&mut json)?;
        }
        json.end()
    }

    fn write_titles(&self, json: &mut Json<'_>) -> io::Result<()> {
        let title = |pid: i64, name: String| json!({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}});
        json.add(&title(
            self.pid.into(),
            format!("workers of process {}", self.pid),
        ))?;
        let runtimes: Vec<_> = self.workers.iter().map(|worker| worker.runtime).collect();
        for (index, worker) in self.workers.iter().enumerate() {
            let first = runtimes
                .iter()
                .position(|runtime| *runtime == worker.runtime);
            let earlier = &runtimes[..first.unwrap_or(0)];
            let number = earlier.chunk_by(|one, next| one == next).count();
            let is_only = runtimes.iter().all(|runtime| *runtime == runtimes[0]);
            let name = if is_only {
                format!("worker {}", worker.index)
            } else {
                format!("runtime {number} worker {}", worker.index)
            };
            let name = json!({"name": "thread_name", "ph": "M", "pid": self.pid, "tid": index, "args": {"name": name}});
            json.add(&name)?;
            if worker.lost > 0 {
                let lost = format!("{} events are lost", worker.lost);
                let mark = json!({"name": lost, "ph": "i", "s": "t", "ts": 0, "pid": self.pid, "tid": index});
                json.add(&mark)?;
            }
        }
        Ok(())
    }

    /// Returns an event of the track of a worker.
    fn slice(&self, worker: usize, event: &Event) -> Value {
        let (name, category, mut args) = match event.kind {
            EventKind::Run => (self.label(event), "run", json!({"then": leave(event)})),
            EventKind::Detach => (
                self.label(event),
                "run",
                json!({"then": "keeps the thread"}),
            ),
            EventKind::Ready if event.other == 0 => ("ready".to_owned(), "ready", json!({})),
            EventKind::Ready => (
                "ready".to_owned(),
                "ready",
                json!({"woken by": event.other}),
            ),
            EventKind::Wake => ("wake".to_owned(), "ready", json!({"woken": event.other})),
            EventKind::Spawn => ("spawn".to_owned(), "spawn", json!({"by": event.other})),
            EventKind::Sleep => (
                "sleep".to_owned(),
                "idle",
                json!({"submitted": event.other}),
            ),
            EventKind::Submit => (
                "submit".to_owned(),
                "driver",
                json!({"submitted": event.other}),
            ),
            EventKind::Steal => ("steal".to_owned(), "worker", json!({})),
            EventKind::Move => ("comes from another worker".to_owned(), "worker", json!({})),
            EventKind::Return => ("returns from its thread".to_owned(), "worker", json!({})),
            _ => ("?".to_owned(), "worker", json!({})),
        };
        if event.fiber != 0 {
            args["fiber"] = event.fiber.into();
        }
        if let Some(place) = self.places.get(&event.place) {
            args["spawned at"] = place.as_str().into();
        }
        let mut slice = json!({
            "name": name, "cat": category, "pid": self.pid, "tid": worker,
            "ts": self.microseconds(event.begin_ns), "args": args,
        });
        if event.kind == EventKind::Sleep || event.kind == EventKind::Submit || is_run(event.kind) {
            slice["ph"] = "X".into();
            slice["dur"] = json!((event.end_ns - event.begin_ns) as f64 / 1e3);
        } else {
            slice["ph"] = "i".into();
            slice["s"] = "t".into();
        }
        slice
    }

    fn write_arrow(
        &self,
        json: &mut Json<'_>,
        number: usize,
        arrow: &Arrow,
        (begin_ns, worker): (u64, usize),
    ) -> io::Result<()> {
        let end = |phase: &str, worker: usize, at_ns: u64| {
            json!({
                "name": arrow.name, "cat": arrow.name, "ph": phase, "id": number,
                "pid": self.pid, "tid": worker, "ts": self.microseconds(at_ns), "bp": "e",
            })
        };
        json.add(&end("s", arrow.worker, arrow.at_ns))?;
        json.add(&end("f", worker, begin_ns))
    }

    /// Writes a track for each fiber: when it runs, and what it waits for in between.
    fn write_fibers(&self, json: &mut Json<'_>) -> io::Result<()> {
        let pid = i64::from(self.pid) + FIBERS;
        let name = format!("fibers of process {}", self.pid);
        json.add(&json!({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}))?;
        let mut fibers: HashMap<u64, Vec<&Event>> = HashMap::new();
        for event in self.workers.iter().flat_map(|worker| &worker.events) {
            if is_run(event.kind) || event.kind == EventKind::Ready {
                fibers.entry(event.fiber).or_default().push(event);
            }
        }
        let mut fibers: Vec<_> = fibers.into_iter().collect();
        fibers.sort_unstable_by_key(|(id, _)| *id);
        for (id, mut events) in fibers {
            events.sort_unstable_by_key(|event| (event.begin_ns, is_run(event.kind)));
            let run = events.iter().find(|event| is_run(event.kind));
            let label = run.map_or_else(|| "fiber".to_owned(), |run| self.label(run));
            let args = json!({"name": format!("{label} #{id}")});
            json.add(
                &json!({"name": "thread_name", "ph": "M", "pid": pid, "tid": id, "args": args}),
            )?;
            let mut state = "ready";
            let mut since = None;
            for event in events {
                let mut add = |name: &str, begin: u64, end: u64| {
                    json.add(&json!({
                        "name": name, "cat": "fiber", "ph": "X", "pid": pid, "tid": id,
                        "ts": self.microseconds(begin),
                        "dur": end.saturating_sub(begin) as f64 / 1e3,
                    }))
                };
                if let Some(since) = since {
                    add(state, since, event.begin_ns)?;
                }
                if is_run(event.kind) {
                    add("run", event.begin_ns, event.end_ns)?;
                }
                since = (event.leave != Some(Leave::End)).then_some(event.end_ns);
                state = match event.kind {
                    EventKind::Ready => "ready",
                    EventKind::Detach => "run on its own thread",
                    _ => waiting(event.leave),
                };
            }
        }
        Ok(())
    }

    /// Returns the name of a fiber, or where it was spawned.
    fn label(&self, event: &Event) -> String {
        let name = self.names.get(&event.fiber);
        let label = name.or_else(|| self.places.get(&event.place));
        label.map_or_else(|| format!("fiber {}", event.fiber), String::clone)
    }

    /// Returns a time since the begin of the trace.
    fn microseconds(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.begin_ns) as f64 / 1e3
    }
}

fn is_run(kind: EventKind) -> bool {
    matches!(kind, EventKind::Run | EventKind::Detach)
}

/// Returns the arrow that an event begins.
fn arrow(worker: usize, event: &Event) -> Option<Arrow> {
    let (name, to) = match event.kind {
        EventKind::Ready if event.other != 0 => ("wake", event.fiber),
        EventKind::Wake => ("wake", event.other),
        EventKind::Spawn if event.other != 0 => ("spawn", event.fiber),
        _ => return None,
    };
    Some(Arrow {
        name,
        at_ns: event.begin_ns,
        worker,
        to,
    })
}

/// Returns the first run of a fiber from this time on.
fn first_run(runs: &Runs, fiber: u64, from_ns: u64) -> Option<(u64, usize)> {
    let runs = runs.get(&fiber)?;
    let index = runs.partition_point(|run| run.0 < from_ns);
    runs.get(index).copied()
}

/// Describes why a fiber has stopped to run.
fn leave(event: &Event) -> &'static str {
    match event.leave {
        Some(Leave::Yield) => "yields",
        Some(Leave::Spent) => "has used up its turn",
        Some(Leave::Park) => "parks",
        Some(Leave::Operation) => "waits for an operation",
        Some(Leave::End) => "ends",
        Some(Leave::Abandon) => "is abandoned",
        _ => "?",
    }
}

/// Returns the state of a fiber after it has run.
fn waiting(leave: Option<Leave>) -> &'static str {
    match leave {
        Some(Leave::Park) => "parked",
        Some(Leave::Operation) => "operation",
        _ => "ready",
    }
}

/// Writes events one by one.
struct Json<'a> {
    out: &'a mut dyn Write,
    count: u64,
}

impl Json<'_> {
    fn begin(&mut self) -> io::Result<()> {
        write!(
            self.out,
            "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": ["
        )
    }

    fn add(&mut self, event: &Value) -> io::Result<()> {
        let comma = if self.count > 0 { "," } else { "" };
        self.count += 1;
        write!(self.out, "{comma}\n{event}")
    }

    fn end(&mut self) -> io::Result<()> {
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }
}

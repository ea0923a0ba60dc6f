//! What a list of fibers tells of each.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::panic::Location;
use std::ptr;
use std::time::Duration;

use super::{Children, Control, FiberRef};
use crate::root::{Awaited, Reason, WaitsFor};

/// A started fiber, in the list of [`runtime::fibers`](crate::runtime::fibers()), whose example it
/// has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FiberInfo {
    /// Its id, as its thread handle shows it.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// Where it was spawned.
    pub spawn_site: &'static Location<'static>,
    /// The id of the fiber in whose [scope](crate::thread::scope) it was spawned, and which waits
    /// there for its end. `None` if it was spawned otherwise, or if a thread has made the scope.
    pub scope_of: Option<u64>,
    /// The index of its worker.
    pub worker: usize,
    /// What it does.
    pub state: FiberState,
    /// The number of the descriptor that it waits for, if it waits for an
    /// [operation](FiberState::Operation) on one: a socket, pipe or file. Meanwhile the fiber keeps
    /// it open, so that the number is that of the same file until the fiber runs.
    pub descriptor: Option<RawFd>,
    /// The fiber that it waits for, if that is known.
    pub waits_for: Option<WaitsFor>,
    /// The least time for which it has been suspended, which is at most 10 ms and a sixth too short.
    /// Zero of a fiber that runs, and where no monitor runs, which a lean runtime has only for
    /// stalls or delays.
    pub suspended_for: Duration,
}

/// What a fiber does; see the example of [`runtime::fibers`](crate::runtime::fibers()).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FiberState {
    /// It waits for its turn.
    Ready,
    /// It waits for another fiber, a thread or a time.
    Parked,
    /// It waits for an operation of the kernel.
    Operation,
    /// It keeps a thread, without its worker: it computes, or is blocked by a call or a lock that
    /// does not suspend it.
    Running,
    /// It has a thread of its own, as it was spawned as a
    /// [dedicated](crate::thread::Builder::dedicated) fiber.
    Dedicated,
}

impl FiberInfo {
    /// Describes a fiber in this state. `awaited` is what it waits for, if that is known; the holder
    /// of a lock is found later.
    fn of(
        reference: &FiberRef,
        (state, awaited): (FiberState, Option<Awaited>),
        name_of: impl Fn(u64) -> Option<Box<str>>,
        suspended_for: impl Fn(&Control) -> Duration,
    ) -> FiberInfo {
        let fiber = reference.control();
        let scope_of = reference.scope().and_then(Children::parent_id);
        let id = fiber.id().get();
        let state = match awaited {
            Some(Awaited::Thread(_)) => FiberState::Dedicated,
            _ => state,
        };
        FiberInfo {
            id,
            name: match state {
                FiberState::Running => name_of(id),
                _ => fiber.name().map(Box::from),
            },
            spawn_site: fiber.spawn_site(),
            scope_of: scope_of.map(NonZeroU64::get),
            worker: fiber.home.get() as usize,
            state,
            descriptor: match state {
                FiberState::Operation => fiber.awaited_fd(),
                _ => None,
            },
            waits_for: match awaited {
                Some(Awaited::End(joined)) => Some(WaitsFor::End(joined)),
                _ => None,
            },
            suspended_for: match state {
                FiberState::Running | FiberState::Dedicated => Duration::ZERO,
                _ => suspended_for(fiber),
            },
        }
    }
}

impl FiberState {
    /// Returns the state of a fiber. Called by its worker, between two fibers.
    fn of(fiber: &Control) -> FiberState {
        // In this order: what runs without its worker changes the rest meanwhile.
        if fiber.runs_alone() {
            return FiberState::Running;
        }
        match fiber.reason.get() {
            Reason::Submitted => FiberState::Operation,
            Reason::Parked if fiber.token.is_parked() => FiberState::Parked,
            _ => FiberState::Ready,
        }
    }
}

impl fmt::Display for FiberInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "fiber {}", self.id)?;
        if let Some(name) = &self.name {
            write!(formatter, " \"{name}\"")?;
        }
        write!(formatter, ", {}", self.state)?;
        if let Some(fd) = self.descriptor {
            write!(formatter, " on fd {fd}")?;
        }
        if !self.suspended_for.is_zero() {
            write!(formatter, " for {:.1?}", self.suspended_for)?;
        }
        let (worker, site) = (self.worker, self.spawn_site);
        write!(formatter, " on worker {worker}, spawned at {site}")?;
        if let Some(parent) = self.scope_of {
            write!(formatter, " in the scope of fiber {parent}")?;
        }
        match self.waits_for {
            Some(waits_for) => write!(formatter, ", waits for {waits_for}"),
            None => Ok(()),
        }
    }
}

/// A list of fibers that grows.
#[derive(Default)]
pub(crate) struct Listed {
    fibers: Vec<FiberInfo>,
    /// The address of each.
    addresses: Vec<u64>,
    /// The index of each that waits for a lock, and bits of the holder's address.
    holders: Vec<(usize, u32)>,
}

impl Listed {
    /// Adds a suspended fiber of the calling worker, or one that runs without it. Such a fiber may add
    /// to its cold state, so that `name_of` has to know its name.
    pub(crate) fn add(
        &mut self,
        reference: &FiberRef,
        name_of: impl Fn(u64) -> Option<Box<str>>,
        suspended_for: impl Fn(&Control) -> Duration,
    ) {
        let fiber = reference.control();
        let state = FiberState::of(fiber);
        let awaited = match state {
            FiberState::Parked => fiber.awaited(),
            _ => None,
        };
        if let Some((Awaited::Lock(_), lock)) = awaited
            && let Some(holder) = Awaited::holder_bits(lock)
        {
            self.holders.push((self.fibers.len(), holder));
        }
        let state = (state, awaited.map(|(awaited, _)| awaited));
        let info = FiberInfo::of(reference, state, name_of, suspended_for);
        self.addresses.push(ptr::from_ref(fiber).addr() as u64);
        self.fibers.push(info);
    }

    /// Returns the fibers. A holder of a lock that is none of them is not known.
    pub(crate) fn finish(mut self) -> Vec<FiberInfo> {
        if self.holders.is_empty() {
            return self.fibers;
        }
        let bits = self.addresses.into_iter().map(Awaited::bits_of);
        let ids = self.fibers.iter().map(|fiber| fiber.id);
        let ids: HashMap<_, _> = bits.zip(ids).collect();
        for (index, holder) in self.holders {
            let holder = ids.get(&holder).copied();
            self.fibers[index].waits_for = holder.map(WaitsFor::Lock);
        }
        self.fibers
    }
}

impl fmt::Display for FiberState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FiberState::Ready => "ready",
            FiberState::Parked => "parked",
            FiberState::Operation => "operation",
            FiberState::Running => "keeps a thread",
            FiberState::Dedicated => "has a thread",
        })
    }
}

/// Maximum number of groups, and of fibers of each, that are printed.
const GROUPS_MAX: usize = 16;
const FIBERS_MAX: usize = 8;

/// Prints fibers by spawn site and state, a line for each group, the smallest group first.
pub(crate) struct Grouped<'a>(pub(crate) &'a [FiberInfo]);

impl fmt::Display for Grouped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |fiber: &FiberInfo| (fiber.spawn_site, fiber.state);
        let mut fibers = Vec::from_iter(self.0);
        fibers.sort_unstable_by_key(|fiber| (group(fiber), fiber.id));
        let mut groups: Vec<&[&FiberInfo]> = Vec::new();
        for fibers in fibers.chunk_by(|one, other| group(one) == group(other)) {
            let place = groups.partition_point(|smaller| smaller.len() <= fibers.len());
            groups.insert(place, fibers);
        }
        for fibers in groups.iter().take(GROUPS_MAX) {
            let (site, state) = group(fibers[0]);
            let (count, plural) = (fibers.len(), if fibers.len() == 1 { "" } else { "s" });
            write!(formatter, "    {count} fiber{plural}, {state}")?;
            let longest = fibers.iter().map(|fiber| fiber.suspended_for).max();
            if let Some(longest) = longest.filter(|longest| !longest.is_zero()) {
                let up_to = if count == 1 { "" } else { "up to " };
                write!(formatter, " for {up_to}{longest:.1?}")?;
            }
            write!(formatter, ", spawned at {site}:")?;
            for (index, fiber) in fibers.iter().take(FIBERS_MAX).enumerate() {
                let comma = if index > 0 { "," } else { "" };
                write!(formatter, "{comma} {}", fiber.id)?;
                if let Some(name) = &fiber.name {
                    write!(formatter, " \"{name}\"")?;
                }
                if let Some(fd) = fiber.descriptor {
                    write!(formatter, " (fd {fd})")?;
                }
                if let Some(waits_for) = fiber.waits_for {
                    write!(formatter, " (waits for {waits_for})")?;
                }
            }
            let rest = if count > FIBERS_MAX { ", .." } else { "" };
            writeln!(formatter, "{rest}")?;
        }
        if groups.len() > GROUPS_MAX {
            let rest: usize = groups[GROUPS_MAX..].iter().map(|fibers| fibers.len()).sum();
            let sites = groups.len() - GROUPS_MAX;
            writeln!(formatter, "    {rest} fibers of {sites} other groups")?;
        }
        if groups.is_empty() {
            return Ok(());
        }
        let process = std::process::id();
        writeln!(
            formatter,
            "    `uthread dump {process}` shows what each waits in"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn groups_are_short() {
        let (one, many) = (here(), here());
        let fiber = |id, spawn_site| FiberInfo {
            id,
            name: (id == 64).then(|| "main".into()),
            spawn_site,
            scope_of: None,
            worker: 0,
            state: if id == 70 {
                FiberState::Running
            } else {
                FiberState::Parked
            },
            descriptor: [64, 71].contains(&id).then_some(id as RawFd - 60),
            waits_for: (id == 72).then_some(WaitsFor::Lock(64)),
            suspended_for: Duration::from_millis(if id == 71 { 1500 } else { 0 }),
        };
        let mut fibers = vec![fiber(64, one)];
        fibers.extend((70..90).map(|id| fiber(id, many)));
        let process = std::process::id();
        assert_eq!(
            Grouped(&fibers).to_string(),
            format!(
                "    1 fiber, parked, spawned at {one}: 64 \"main\" (fd 4)\n    \
                 1 fiber, keeps a thread, spawned at {many}: 70\n    \
                 19 fibers, parked for up to 1.5s, spawned at {many}: 71 (fd 11), 72 (waits for a lock of fiber 64), 73, 74, 75, 76, 77, 78, ..\n    \
                 `uthread dump {process}` shows what each waits in\n"
            )
        );
    }
}

//! What a list of fibers tells of each.

use std::fmt;
use std::panic::Location;

use super::Control;
use crate::root::Reason;

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
    /// The index of its worker.
    pub worker: usize,
    /// What it does.
    pub state: FiberState,
}

/// What a fiber does. The names are those that `uthread dump` prints; see the example of
/// [`runtime::fibers`](crate::runtime::fibers()).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FiberState {
    /// It waits for its turn.
    Ready,
    /// It waits for another fiber, a thread or a time.
    Parked,
    /// It waits for an operation of the kernel.
    Operation,
    /// It keeps a thread of its own: it computes, or is blocked by a call or a lock that does not
    /// suspend it.
    Alone,
}

impl FiberInfo {
    /// Describes a suspended fiber of the calling worker, or one that runs without it. Such a fiber
    /// may add to its cold state, so that `name_of` has to know its name.
    pub(crate) fn of(fiber: &Control, name_of: impl Fn(u64) -> Option<Box<str>>) -> FiberInfo {
        let (id, state) = (fiber.id().get(), FiberState::of(fiber));
        FiberInfo {
            id,
            name: match state {
                FiberState::Alone => name_of(id),
                _ => fiber.name().map(Box::from),
            },
            spawn_site: fiber.spawn_site(),
            worker: fiber.home.get() as usize,
            state,
        }
    }
}

impl FiberState {
    /// Returns the state of a fiber. Called by its worker, between two fibers.
    fn of(fiber: &Control) -> FiberState {
        // In this order: what runs without its worker changes the rest meanwhile.
        if fiber.runs_alone() {
            return FiberState::Alone;
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
        let (state, worker, site) = (self.state, self.worker, self.spawn_site);
        write!(formatter, ", {state} on worker {worker}, spawned at {site}")
    }
}

impl fmt::Display for FiberState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FiberState::Ready => "ready",
            FiberState::Parked => "parked",
            FiberState::Operation => "operation",
            FiberState::Alone => "alone",
        })
    }
}

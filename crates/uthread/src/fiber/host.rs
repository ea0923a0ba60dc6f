//! Hosts: the fibers of each computer in a simulated world. A fiber belongs to the host of the one that
//! has spawned it.

use std::collections::BTreeMap;
use std::mem;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Control, FiberRef, cancel, end_wait};
use crate::atomic::lock;

/// The number of the local value that names the host. Those of keys start from one.
const KEY: usize = 0;

pub(crate) struct Host {
    number: u32,
    /// Those that have not ended, by their ids.
    fibers: Mutex<BTreeMap<NonZeroU64, FiberRef>>,
    /// `true` once they were cancelled.
    is_ending: AtomicBool,
    /// `true` once their clock is not that of the timers.
    drifts: AtomicBool,
    /// `true` while they are not resumed.
    is_paused: AtomicBool,
    /// `true` once they are not resumed any more.
    is_halted: AtomicBool,
}

/// Whether a host lets its fibers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Paused,
    Halted,
}

/// A local value of each fiber of a host.
struct Member {
    host: Arc<Host>,
    fiber: NonZeroU64,
}

impl Drop for Member {
    fn drop(&mut self) {
        let fiber = lock(&self.host.fibers).remove(&self.fiber);
        drop(fiber);
    }
}

impl Host {
    pub(crate) fn new(number: u32) -> Host {
        Host {
            number,
            fibers: Mutex::default(),
            is_ending: AtomicBool::new(false),
            drifts: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            is_halted: AtomicBool::new(false),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Makes the host that of a fiber, which calls this or has not started. All are on one worker.
    pub(crate) fn admit(self: &Arc<Host>, fiber: &FiberRef) {
        let member = Member {
            host: Arc::clone(self),
            fiber: fiber.control().id(),
        };
        lock(&self.fibers).insert(member.fiber, fiber.clone());
        // Relaxed: the only worker stores.
        if self.drifts.load(Ordering::Relaxed) {
            fiber.control().limits.set_drifts();
        }
        fiber.control().locals_or_new().set(KEY, Rc::new(member));
    }

    /// Cancels the fibers.
    pub(crate) fn cancel(&self) {
        // Relaxed: the only worker runs the caller.
        self.is_ending.store(true, Ordering::Relaxed);
        let fibers: Vec<_> = lock(&self.fibers).values().cloned().collect();
        fibers.iter().for_each(cancel);
    }

    /// Records that the clock of the fibers is not that of the timers.
    pub(crate) fn set_drifts(&self) {
        // Relaxed: the only worker runs the caller.
        self.drifts.store(true, Ordering::Relaxed);
        let fibers = lock(&self.fibers);
        fibers
            .values()
            .for_each(|fiber| fiber.control().limits.set_drifts());
    }

    /// Returns `true` if a fiber, which may have ended, is one of the host's.
    pub(crate) fn has(&self, fiber: &Control) -> bool {
        lock(&self.fibers).contains_key(&fiber.id())
    }

    /// Sets whether the fibers are not resumed for now.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        // Relaxed: the only worker runs the caller.
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Stops the fibers where they are, forever.
    pub(crate) fn halt(&self) {
        // Relaxed: the only worker runs the caller.
        self.is_halted.store(true, Ordering::Relaxed);
        let fibers = mem::take(&mut *lock(&self.fibers));
        // They wait for nothing any more, not even in a shield.
        fibers.values().for_each(end_wait);
    }

    /// Returns `true` if no fiber is left.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.fibers).is_empty()
    }
}

/// Returns the host of a fiber, which calls this.
pub(crate) fn of(fiber: &Control) -> Option<Arc<Host>> {
    member(fiber).map(|member| Arc::clone(&member.host))
}

fn member(fiber: &Control) -> Option<Rc<Member>> {
    fiber.locals()?.get(KEY).ok()?
}

/// Returns `true` if the host of a fiber, which calls this, ends: its panics are of no interest.
pub(crate) fn is_ending(fiber: &Control) -> bool {
    member(fiber).is_some_and(|member| member.host.is_ending.load(Ordering::Relaxed))
}

/// Returns `true` if a fiber, which has left its stack, is not to be resumed any more.
pub(crate) fn is_halted(fiber: &Control) -> bool {
    state(fiber) == State::Halted
}

/// Returns whether the host of a fiber, which has left its stack, lets it run.
pub(crate) fn state(fiber: &Control) -> State {
    match member(fiber) {
        // Relaxed: the only worker stores.
        Some(member) if member.host.is_halted.load(Ordering::Relaxed) => State::Halted,
        Some(member) if member.host.is_paused() => State::Paused,
        Some(_) | None => State::Running,
    }
}

/// Removes a fiber from its host that has not started, and will not.
pub(crate) fn withdraw(fiber: &Control) {
    if let Some(locals) = fiber.locals() {
        locals.close();
    }
}

//! Runners with a thread control block, beyond those that the workers keep: to create a block takes a thread, and
//! to end it another one.

use std::mem;
use std::sync::Mutex;

use crate::atomic::lock;
use crate::fiber::Runner;
use crate::stack::Stack;

/// Maximum number of runners, 16 MiB in all.
const RUNNERS_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Runners(Mutex<Vec<Runner>>);

impl Runners {
    pub(super) fn take(&self) -> Option<Runner> {
        lock(&self.0).pop()
    }

    /// Takes runners whose fibers have ended. Returns the stacks of those for which there is no room.
    pub(super) fn give(&self, runners: impl IntoIterator<Item = Runner>) -> Vec<Stack> {
        let mut surplus = Vec::from_iter(runners);
        let mut kept = lock(&self.0);
        let room = RUNNERS_MAX.saturating_sub(kept.len()).min(surplus.len());
        kept.extend(surplus.drain(..room));
        drop(kept);
        end(surplus)
    }

    /// Returns the stacks of all runners. Called by the last worker at its end.
    pub(super) fn end_all(&self) -> Vec<Stack> {
        end(mem::take(&mut *lock(&self.0)))
    }
}

/// Ends runners that run no fiber.
#[allow(unsafe_code, reason = "ending coroutines")]
fn end(runners: Vec<Runner>) -> Vec<Stack> {
    // SAFETY: they run no fibers, and are in no list any more.
    let stacks = runners
        .into_iter()
        .map(|runner| unsafe { runner.into_stack() });
    stacks.collect()
}

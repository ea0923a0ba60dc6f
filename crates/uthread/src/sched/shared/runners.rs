//! Runners with a thread control block, beyond those that the workers keep: to make a block takes
//! some microseconds and, without a [template](crate::tls::block), a thread.

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
    pub(in crate::sched) fn take(&self) -> Option<Runner> {
        lock(&self.0).pop()
    }

    /// Takes runners whose fibers have ended. Returns the stacks of those for which there is no
    /// room.
    pub(in crate::sched) fn give(&self, runners: impl IntoIterator<Item = Runner>) -> Vec<Stack> {
        let mut surplus = Vec::from_iter(runners);
        let mut kept = lock(&self.0);
        let room = RUNNERS_MAX.saturating_sub(kept.len()).min(surplus.len());
        kept.extend(surplus.drain(..room));
        drop(kept);
        surplus.into_iter().filter_map(end).collect()
    }

    /// Returns the stacks of all runners. Called by the last worker at its end.
    pub(in crate::sched) fn end_all(&self) -> Vec<Stack> {
        let all = mem::take(&mut *lock(&self.0));
        all.into_iter().filter_map(end).collect()
    }
}

/// Ends a runner that runs no fiber, and that its caller has removed from where it was kept.
/// Returns its stack, unless that has to stay as it is: the pool then counts it as lent for ever.
#[allow(unsafe_code, reason = "ending a coroutine")]
pub(in crate::sched) fn end(runner: Runner) -> Option<Stack> {
    // SAFETY: the runner runs no fiber, and is in no list any more.
    unsafe { runner.into_stack() }
}

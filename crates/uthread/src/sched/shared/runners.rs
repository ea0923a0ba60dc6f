//! Runners with a thread control block, beyond those that the workers keep: to make a block takes
//! some microseconds and, without a [template](crate::tls::block), a thread.

use std::mem;
use std::sync::Mutex;

use crate::atomic::lock;
use crate::fiber::Runner;
use crate::stack::Stack;
use crate::stack::pool::Pool;

/// Maximum number of runners with ordinary stacks, 16 MiB in all.
const RUNNERS_MAX: usize = 1024;

/// Maximum number of runners with larger stacks, 10 MiB in all.
const LARGER_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Runners {
    ordinary: Mutex<Vec<Runner>>,
    /// Of several sizes, the newest last.
    larger: Mutex<Vec<Runner>>,
}

impl Runners {
    pub(in crate::sched) fn take(&self) -> Option<Runner> {
        lock(&self.ordinary).pop()
    }

    /// Takes a runner with a larger stack of this size, guard included.
    pub(in crate::sched) fn take_larger(&self, size: usize) -> Option<Runner> {
        let mut larger = lock(&self.larger);
        let newest = larger
            .iter()
            .rposition(|runner| runner.extent().size() == size)?;
        Some(larger.remove(newest))
    }

    /// Takes a runner with a larger stack whose fiber has ended. Returns the oldest if there are
    /// too many.
    pub(in crate::sched) fn give_larger(&self, runner: Runner) -> Option<Runner> {
        let mut larger = lock(&self.larger);
        larger.push(runner);
        (larger.len() > LARGER_MAX).then(|| larger.remove(0))
    }

    /// Takes runners whose fibers have ended. Returns the stacks of those for which there is no
    /// room.
    pub(in crate::sched) fn give(&self, runners: impl IntoIterator<Item = Runner>) -> Vec<Stack> {
        let mut surplus = Vec::from_iter(runners);
        let mut kept = lock(&self.ordinary);
        let room = RUNNERS_MAX.saturating_sub(kept.len()).min(surplus.len());
        kept.extend(surplus.drain(..room));
        drop(kept);
        surplus.into_iter().filter_map(end).collect()
    }

    /// Ends all runners, and gives their stacks to the pool. Called by the last worker at its end.
    pub(in crate::sched) fn end_all(&self, stacks: &Pool) {
        let kept = [&self.ordinary, &self.larger];
        let [ordinary, larger] = kept.map(|kept| mem::take(&mut *lock(kept)));
        stacks.give(ordinary.into_iter().filter_map(end));
        let larger = larger.into_iter().filter_map(end);
        larger.for_each(|stack| stacks.give_larger(stack));
    }
}

/// Ends a runner that runs no fiber, and that its caller has removed from where it was kept.
/// Returns its stack, unless that has to stay as it is: the pool then counts it as lent for ever.
#[allow(unsafe_code, reason = "ending a coroutine")]
pub(in crate::sched) fn end(runner: Runner) -> Option<Stack> {
    // SAFETY: the runner runs no fiber, and is in no list any more.
    unsafe { runner.into_stack() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn runner(pool: &Pool, bytes: usize) -> Runner {
        Runner::new(pool.take_larger(bytes).unwrap())
    }

    #[test]
    fn a_larger_runner_is_taken_by_its_size_and_the_oldest_has_to_end() {
        let pool = Pool::new(0);
        let runners = Runners::default();
        let size = |bytes| pool.larger_size(bytes).unwrap();
        let limit = |runner: Runner| runner.unused_stack().start;
        let [oldest, other, newest] = [MIB, 2 * MIB, MIB].map(|bytes| runner(&pool, bytes));
        for runner in [oldest, other, newest] {
            assert!(runners.give_larger(runner).is_none());
        }
        assert!(runners.take_larger(size(4 * MIB)).is_none());
        let taken = runners.take_larger(size(MIB)).unwrap();
        assert_eq!(limit(taken), limit(newest));
        for _ in 2..LARGER_MAX {
            assert!(runners.give_larger(runner(&pool, MIB)).is_none());
        }
        let surplus = runners.give_larger(taken).unwrap();
        assert_eq!(limit(surplus), limit(oldest));
        pool.give_larger(end(surplus).unwrap());
        runners.end_all(&pool);
        assert!(runners.take_larger(size(MIB)).is_none());
    }
}

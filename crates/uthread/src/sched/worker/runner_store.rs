//! The runners of one worker: those that it keeps for its next fibers, and where it takes others
//! from and gives them to.
//!
//! ```text
//!   take        hot runners; else those of all workers; else a new one on a stack of the pool
//!   give back   hot runners, the oldest of which make room
//!               one with a larger stack and a block is kept for all workers
//!               another with a larger stack, or one whose block is used up, ends, and its stack
//!               goes back
//! ```

use std::io;
use std::sync::Arc;

use super::hot_runners::{HotRunners, Room};
use crate::fiber::{Reserved, Runner};
use crate::sched::shared::shortage::{Refused, Returned};
use crate::sched::shared::{Shared, runners};
use crate::stack::Stack;
use crate::stack::sizes::BATCH_STACKS;

pub(super) struct RunnerStore {
    hot: HotRunners,
    shared: Arc<Shared>,
}

impl RunnerStore {
    pub(super) fn new(shared: Arc<Shared>) -> RunnerStore {
        RunnerStore {
            hot: HotRunners::default(),
            shared,
        }
    }

    /// Takes a runner that needs no preparation, if there is one.
    pub(super) fn take_hot(&self) -> Option<Runner> {
        self.hot.pop()
    }

    /// Returns the place for one more runner with a stack of the pool, if there is room.
    pub(super) fn room(&self) -> Option<Room<'_>> {
        self.hot.room()
    }

    /// Takes a runner with a stack of the usual size.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for a stack, or for a block on it.
    pub(super) fn take(&self) -> io::Result<Runner> {
        if let Some(runner) = self.hot.pop() {
            return Ok(runner);
        }
        if let Some(runners) = &self.shared.runners {
            return match runners.take() {
                Some(runner) => Ok(runner),
                None => self.take_with_block(),
            };
        }
        let mut stacks = Vec::with_capacity(BATCH_STACKS);
        self.shared.stacks.take(&mut stacks)?;
        let mut runners = stacks.into_iter().map(Runner::new);
        let first = runners.next().expect("the pool adds one at least");
        runners.for_each(|runner| self.hot.push(runner));
        Ok(first)
    }

    /// Takes a stack from the pool, and creates a block of thread-local storage on it.
    fn take_with_block(&self) -> io::Result<Runner> {
        let mut stacks = Vec::with_capacity(BATCH_STACKS);
        let pool = &self.shared.stacks;
        pool.take(&mut stacks)?;
        let stack = stacks.pop().expect("the pool adds one at least");
        pool.give(stacks);
        self.on(stack)
    }

    /// Returns the runner of a fiber that needs a larger stack.
    ///
    /// # Errors
    ///
    /// The errors of [`on`](RunnerStore::on).
    pub(super) fn on_reserved(&self, reserved: Reserved) -> io::Result<Runner> {
        match reserved {
            Reserved::Stack(stack) => self.on(stack),
            Reserved::Runner(runner) => Ok(runner),
        }
    }

    /// Creates a runner on a stack that is not of the reserve, with a block of thread-local storage
    /// if fibers have their own.
    ///
    /// # Errors
    ///
    /// Any error that `pthread_create(3)` reports for a block. The stack has then gone back.
    fn on(&self, stack: Stack) -> io::Result<Runner> {
        if self.has_blocks() {
            Runner::with_thread_locals(stack).map_err(|(stack, error)| {
                if self.shared.stacks.is_ordinary(stack.extent()) {
                    self.shared.stacks.give([stack]);
                } else {
                    self.shared.stacks.give_larger(stack);
                }
                error
            })
        } else {
            Ok(Runner::new(stack))
        }
    }

    /// Creates a runner for a fiber that only drops its captures. If there is no memory for a
    /// block, it has none.
    pub(super) fn on_reserve(&self, stack: Stack) -> Runner {
        if self.has_blocks() {
            Runner::with_thread_locals(stack).unwrap_or_else(|(stack, _)| Runner::new(stack))
        } else {
            Runner::new(stack)
        }
    }

    /// Returns `true` if fibers have thread-local storage of their own.
    fn has_blocks(&self) -> bool {
        self.shared.runners.is_some()
    }

    /// Takes back a runner that has ended its fiber. If a fiber waits for its stack to end on,
    /// returns both.
    #[must_use = "the fiber has to end"]
    pub(super) fn give_back(&self, runner: Runner) -> Option<(Refused, Runner)> {
        if runner.is_used_up() || !self.shared.stacks.is_ordinary(runner.extent()) {
            return self.end(runner);
        }
        if self.hot.room().is_none() {
            self.give(self.hot.take_oldest(BATCH_STACKS));
        }
        self.hot.push(runner);
        None
    }

    /// Keeps a runner with a larger stack and a block for the next fiber that needs it. Returns
    /// another one, or the same, if that has to end.
    #[allow(unsafe_code, reason = "giving memory back")]
    fn keep_larger(&self, runner: Runner) -> Option<Runner> {
        let Some(kept) = &self.shared.runners else {
            return Some(runner);
        };
        let (stacks, extent) = (&self.shared.stacks, runner.extent());
        // While one of the reserve is lent, any of its size may be that one.
        let is_lent = || stacks.is_reserve(extent) && self.shared.shortage.has_lent();
        if runner.is_used_up() || stacks.is_ordinary(extent) || is_lent() {
            return Some(runner);
        }
        // SAFETY: the runner runs no fiber, and its own frames are above.
        unsafe { stacks.trim(&[runner.unused_stack()]) };
        kept.give_larger(runner)
    }

    /// Ends a runner with a larger stack, or whose block must not be used again, unless it is kept.
    #[cold]
    fn end(&self, runner: Runner) -> Option<(Refused, Runner)> {
        let runner = self.keep_larger(runner)?;
        let stack = runners::end(runner)?;
        let stacks = &self.shared.stacks;
        if stacks.is_ordinary(stack.extent()) {
            stacks.give([stack]);
            return None;
        }
        let is_reserve = stacks.is_reserve(stack.extent());
        match self.shared.shortage.give(stack, is_reserve) {
            Returned::Retained => None,
            Returned::NotNeeded(stack) => {
                stacks.give_larger(stack);
                None
            }
            Returned::For(refused, stack) => Some((refused, self.on_reserve(stack))),
        }
    }

    /// Gives all runners away, as the worker ends.
    pub(super) fn give_all(&self) {
        self.give(self.hot.take_all());
    }

    /// Gives runners to all workers or, if those need none, their stacks to the pool.
    fn give(&self, runners: Vec<Runner>) {
        if let Some(kept) = &self.shared.runners {
            return self.shared.stacks.give(kept.give(runners));
        }
        let stacks = runners.into_iter().filter_map(runners::end);
        self.shared.stacks.give(stacks);
    }
}

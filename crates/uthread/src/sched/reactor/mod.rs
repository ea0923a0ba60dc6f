//! The reactor of one worker: its operations in flight, its timers, its completions, and every
//! fiber that it has started.
//!
//! | module | contents |
//! | --- | --- |
//! | [`operations`] | its operations in flight |
//! | [`timers`] | the timer wheel |
//! | [`tables`] | growth of tables that may have a million entries |
//! | [`driver_cell`] | the driver of a worker |
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

pub(crate) mod driver_cell;
pub(crate) mod operations;
mod tables;
pub(crate) mod timers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::driver_cell::DriverCell;
use self::operations::{CompletionSink, Operations, Woken};
use self::timers::Timers;
use crate::driver::{Completion, Token};
use crate::fiber::{Control, FiberRef, Started, end_park, host};
use crate::op::Awaited;

/// Maximum number of completions collected at once: several batches of fibers, so that a flood of
/// completions delays neither fibers nor timers.
const COLLECTED_MAX: usize = 256;

pub(crate) struct Reactor {
    /// Completions that are being handed out; otherwise empty.
    arrived: Vec<(Token, Completion)>,
    operations: Operations,
    timers: Timers<Expiry>,
    /// Operations past their deadline, to be cancelled by the worker whose driver has them.
    late: Vec<Token>,
    /// Every fiber that started here, or has moved here, and has not ended. Each knows its
    /// [index](Control::live_index), which changes when another one ends. 4 billion would exhaust
    /// memory.
    live: Vec<FiberRef>,
}

/// The action of a timer.
enum Expiry {
    /// Ends a park. A counted reference: the fiber may have continued, and ended, when its timer
    /// expires.
    Wake(FiberRef),
    TimeOut(Token),
}

impl Reactor {
    /// Creates a reactor whose timers count from `origin`.
    pub(crate) fn new(origin: Instant) -> Reactor {
        Reactor {
            arrived: Vec::new(),
            operations: Operations::default(),
            timers: Timers::new(origin),
            late: Vec::new(),
            live: Vec::new(),
        }
    }

    /// Returns `true` if the list of fibers need not grow for the next one.
    pub(crate) fn has_room(&self) -> bool {
        self.live.len() < self.live.capacity()
    }

    /// Keeps a fiber until it is [discharged](Reactor::discharge).
    #[inline(always)]
    pub(crate) fn admit(&mut self, fiber: FiberRef) {
        fiber.control().live_index.set(self.live.len() as u32);
        tables::make_room(&mut self.live);
        self.live.push(fiber);
    }

    /// Removes a fiber that has ended, or moves to another worker.
    pub(crate) fn discharge(&mut self, fiber: Started) -> FiberRef {
        let index = fiber.control().live_index.get();
        let ended = self.live.swap_remove(index as usize);
        if let Some(moved) = self.live.get(index as usize) {
            moved.control().live_index.set(index);
        }
        ended
    }

    pub(crate) fn fibers(&self) -> &[FiberRef] {
        &self.live
    }

    /// Returns the list of fibers, for a debugger.
    pub(in crate::sched) fn list(&self) -> &Vec<FiberRef> {
        &self.live
    }

    /// Returns the token of the operation that is begun next.
    #[inline]
    pub(crate) fn next_token(&self) -> Token {
        self.operations.next_token()
    }

    /// Adds an operation by the [next token](Reactor::next_token), for which `fiber` waits until
    /// the deadline, if there is one.
    pub(crate) fn begin(&mut self, fiber: Started, awaited: Awaited, deadline: Option<Instant>) {
        let token = self.operations.next_token();
        let timer = deadline.map(|at| self.timers.insert(at, Expiry::TimeOut(token)));
        self.operations.insert(fiber, awaited, timer);
    }

    /// Adds an operation by the [next token](Reactor::next_token) whose completions go to `sink`.
    pub(in crate::sched) fn begin_with_sink(
        &mut self,
        sink: Arc<dyn CompletionSink>,
        awaited: Awaited,
    ) {
        self.operations.insert_with_sink(sink, awaited);
    }

    /// Marks an operation for cancellation by its worker, unless it has ended.
    pub(crate) fn end(&mut self, token: Token) {
        if self.operations.time_out(token) {
            self.late.push(token);
        }
    }

    /// Wakes the fiber at the deadline, unless that is cancelled.
    pub(crate) fn wake_at(&mut self, deadline: Instant, fiber: FiberRef) -> timers::Key {
        self.timers.insert(deadline, Expiry::Wake(fiber))
    }

    /// Cancels a wake-up.
    pub(crate) fn forget_wake(&mut self, timer: timers::Key) {
        self.timers.cancel(timer);
    }

    /// Hands out the fibers that wait for operations which the driver has completed, with `true` if
    /// they resume first, and returns the number of completed operations. Fibers whose parks have
    /// ended go to `unparked`, as they may have moved to other workers.
    pub(crate) fn collect(
        &mut self,
        driver: &DriverCell,
        mut resumed: impl FnMut(Started, bool),
        mut unparked: impl FnMut(Started, bool),
    ) -> u64 {
        let arrived = &mut self.arrived;
        driver.lock().reap(COLLECTED_MAX, &mut |token, completion| {
            arrived.push((token, completion))
        });
        // All prefetches first, so that the cache misses of thousands of fibers overlap.
        for (token, _) in &*arrived {
            self.operations.prefetch(*token);
        }
        let (mut count, overlap) = (0, arrived.len() > 1);
        for (token, completion) in arrived.drain(..) {
            count += u64::from(!completion.more);
            let completed = self.operations.complete(token, completion);
            if let Some(timer) = completed.timer {
                self.timers.cancel(timer);
            }
            if completed.is_full {
                self.late.push(token);
            }
            match completed.woken {
                Woken::Resumed(fiber) => {
                    // Of a single fiber, nothing would overlap.
                    if overlap {
                        fiber.prefetch_pages();
                    }
                    resumed(fiber, completed.resumes_first);
                }
                Woken::Unparked(fiber) => {
                    if let Some((_, fiber)) = end_park(&fiber) {
                        unparked(fiber, completed.resumes_first);
                    }
                }
                Woken::Nobody => {}
            }
        }
        count
    }

    /// Returns `true` if a timer is pending.
    pub(crate) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Hands out fibers whose parks end now, like [`collect`](Reactor::collect). Operations past
    /// their deadline become late.
    pub(crate) fn expire(&mut self, now: Instant, mut unparked: impl FnMut(Started)) {
        let (operations, late) = (&mut self.operations, &mut self.late);
        self.timers.expire(now, |expiry| match expiry {
            Expiry::Wake(fiber) => {
                if let Some((_, fiber)) = end_park(&fiber) {
                    unparked(fiber);
                }
            }
            Expiry::TimeOut(token) => {
                if operations.time_out(token) {
                    late.push(token);
                }
            }
        });
    }

    /// Changes when timers expire of those fibers for which `is_one` returns `true`: `change` gets the time from
    /// `now` on until then, and returns the new one.
    #[cold]
    pub(in crate::sched) fn change_timers(
        &mut self,
        now: Instant,
        is_one: impl Fn(&Control) -> bool,
        change: impl Fn(Duration) -> Duration,
    ) {
        let operations = &self.operations;
        self.timers.change(now, |expiry, left| {
            let is_changed = match expiry {
                Expiry::Wake(fiber) => is_one(fiber.control()),
                Expiry::TimeOut(token) => operations.waiting(*token).is_some_and(&is_one),
            };
            is_changed.then(|| change(left))
        });
    }

    /// Returns `true` if an operation is late.
    pub(crate) fn is_any_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Takes an operation that is late.
    pub(crate) fn take_late(&mut self) -> Option<Token> {
        self.late.pop()
    }

    /// Returns `true` if an operation has not ended.
    pub(crate) fn has(&mut self, token: Token) -> bool {
        self.operations.has(token)
    }

    /// Returns the time of the next timer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Marks the operations of the chosen fibers as late.
    pub(crate) fn cancel_of(&mut self, chosen: impl Fn(&Control) -> bool) {
        self.late.extend(self.operations.tokens_of(chosen));
    }

    /// Returns `true` if the fiber waits for an operation here and may not wait any more.
    pub(crate) fn may_interrupt(&mut self, fiber: &Control) -> bool {
        // In this order: a running fiber may change its limits.
        self.operations.token_of(fiber).is_some()
            && (fiber.limits.is_cancelled(false) || host::is_halted(fiber))
    }

    /// Marks the operation of a fiber as late, if it has one here and may not wait any more.
    pub(crate) fn interrupt(&mut self, fiber: &Control) {
        if self.may_interrupt(fiber)
            && let Some(token) = self.operations.token_of(fiber)
        {
            self.late.push(token);
        }
    }

    /// Returns `true` if no fiber and no operation is left.
    pub(crate) fn is_deserted(&self) -> bool {
        self.live.is_empty() && self.operations.is_empty()
    }

    /// Returns `true` if no operation is in flight and no timer pending.
    pub(crate) fn has_nothing_to_come(&self) -> bool {
        self.operations.is_empty() && self.timers.is_empty()
    }

    /// Checks that the worker, which may have ended, has neither operations nor timers.
    #[cfg(test)]
    pub(crate) fn assert_nothing_waits(&self, has_ended: bool) {
        assert!(self.operations.is_empty(), "an operation is left");
        // A fiber that has moved does not reach a worker that has ended.
        assert!(has_ended || self.timers.is_empty(), "a timer is left");
    }
}

//! The calls of the running fiber on its worker.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::io::Io;
use super::queues::Queues;
use super::{current, panics};
use crate::driver::{Driver, FLUSH_TIME_MAX, Start, Token};
use crate::fiber::{Pause, Started};
use crate::op::{CallResult, Operation};
use crate::priorities::Priority;
use crate::sched::budget;
use crate::sched::reactor::operations::{CompletionSink, OperationId};
use crate::sched::shared::Mail;

impl Io {
    /// Starts a call of the running fiber that ends after `timeout`.
    ///
    /// # Safety
    ///
    /// If the call is pending, the fiber suspends next. The operation and the memory it borrows
    /// stay alive and untouched until its completion was reaped.
    #[allow(
        unsafe_code,
        reason = "an operation that its caller keeps in place until it has ended"
    )]
    pub(in crate::sched) unsafe fn start_call(
        &self,
        queues: &Queues,
        fiber: Started,
        operation: &mut Operation<'_>,
        timeout: Option<Duration>,
        limits: CallLimits,
    ) -> Call {
        let control = fiber.control();
        // Before the check whether it may wait: a canceller goes the other way round.
        control.limits.last_worker.set(queues.index as u32);
        let (deadline, priority) = match limits {
            CallLimits::Unchecked if !control.limits.is_empty() => return Call::Limited,
            CallLimits::Unchecked => (None, Priority::Normal),
            CallLimits::Checked { deadline } => (deadline, control.limits.priority()),
        };
        loop {
            let mut reactor = self.reactor.borrow_mut();
            let mut driver = self.driver.lock();
            // SAFETY: the caller keeps the operation in place until it has ended.
            match unsafe { start(&mut **driver, operation, reactor.next_token(), priority) } {
                Start::Done(result) => {
                    drop((driver, reactor));
                    queues.remote.counters.completions.add(1);
                    if self.is_flush_due(queues) {
                        self.flush_within_turn(queues);
                    }
                    return Call::Done(fiber, result);
                }
                Start::Pending(awaited) => {
                    let own = timeout.and_then(|timeout| driver.timer_after(timeout));
                    let deadline = own.into_iter().chain(deadline).min();
                    let flush_within = driver.flush_within();
                    reactor.begin(fiber, awaited, deadline);
                    drop((driver, reactor));
                    if let Some(time) = flush_within {
                        self.flush_within(queues, time);
                    } else {
                        self.count_awaited(queues);
                    }
                    return Call::Pending(fiber);
                }
                Start::Full => {}
            }
            drop((driver, reactor));
            self.make_room(queues);
        }
    }

    /// Flushes while a fiber runs. The fiber continues: otherwise one that computes between calls
    /// would wait for all others again. Only where fibers are ordered, the batch ends instead, as
    /// the flush may make a more urgent one ready. Beside fibers that use up their turns, the batch
    /// ends after this turn anyway.
    #[cold]
    fn flush_within_turn(&self, queues: &Queues) {
        if queues.ready.is_ordered() {
            budget::use_up();
        } else if !queues.ready.has_spent() {
            // Hundreds of operations take the kernel a millisecond, for which the fiber is not to
            // blame.
            let running = &queues.remote.counters.running;
            let fiber = running.get();
            running.set(0);
            self.flush(queues);
            running.set(fiber);
        }
    }
}

/// Starts an operation as one of this priority.
///
/// # Safety
///
/// The contract of [`Driver::start`].
#[allow(
    unsafe_code,
    reason = "an operation that its caller keeps in place until it has ended"
)]
unsafe fn start(
    driver: &mut dyn Driver,
    operation: &mut Operation<'_>,
    token: Token,
    priority: Priority,
) -> Start {
    if priority != Priority::Normal {
        driver.set_priority(priority);
    }
    // SAFETY: the caller keeps the operation in place until it has ended.
    let start = unsafe { driver.start(operation, token) };
    if priority != Priority::Normal {
        driver.set_priority(Priority::Normal);
    }
    start
}

/// The limits of a fiber, as far as its call has checked them.
#[derive(Clone, Copy)]
pub(in crate::sched) enum CallLimits {
    /// The call starts only if the fiber has none.
    Unchecked,
    /// The fiber may wait until its deadline, if it has one.
    Checked { deadline: Option<Instant> },
}

/// The outcome of starting a fiber's call.
pub(in crate::sched) enum Call {
    /// The operation has completed with this result of its system call.
    Done(Started, CallResult),
    /// The fiber has to suspend until the completion.
    Pending(Started),
    /// The operation has not started: the fiber's limits decide whether, and how long, it may wait.
    Limited,
}

/// Operations for which no fiber is suspended.
impl Io {
    /// Begins one for the running fiber, whose completions go to `sink`: one that only waits for
    /// events, or completes many times.
    ///
    /// # Safety
    ///
    /// All that the operation borrows, and itself, stays alive and untouched until its completion
    /// was reaped.
    #[allow(
        unsafe_code,
        reason = "an operation that its caller keeps in place until it has ended"
    )]
    pub(in crate::sched) unsafe fn begin(
        &self,
        queues: &Queues,
        fiber: Started,
        operation: &mut Operation<'_>,
        sink: Arc<dyn CompletionSink>,
    ) -> OperationId {
        // SAFETY: the caller's contract.
        unsafe { self.try_begin(queues, fiber, operation, sink) }
            .unwrap_or_else(|_| unreachable!("the operation has to wait"))
    }

    /// Begins any operation for the running fiber. One that does not have to wait has a result, and
    /// no completion.
    ///
    /// # Safety
    ///
    /// The contract of [`begin`](Io::begin).
    ///
    /// # Errors
    ///
    /// The result is in place of an error.
    #[allow(
        unsafe_code,
        reason = "an operation that its caller keeps in place until it has ended"
    )]
    pub(in crate::sched) unsafe fn try_begin(
        &self,
        queues: &Queues,
        fiber: Started,
        operation: &mut Operation<'_>,
        sink: Arc<dyn CompletionSink>,
    ) -> Result<OperationId, CallResult> {
        let priority = fiber.control().limits.priority();
        loop {
            let mut reactor = self.reactor.borrow_mut();
            let token = reactor.next_token();
            let mut driver = self.driver.lock();
            // SAFETY: the caller keeps the operation in place until it has ended.
            match unsafe { start(&mut **driver, operation, token, priority) } {
                Start::Pending(awaited) => {
                    reactor.begin_with_sink(sink, awaited);
                    drop((driver, reactor));
                    self.flush_within(queues, FLUSH_TIME_MAX);
                    let worker = queues.index;
                    return Ok(OperationId { worker, token });
                }
                Start::Done(result) => {
                    queues.remote.counters.completions.add(1);
                    return Err(result);
                }
                Start::Full => {}
            }
            drop((driver, reactor));
            self.make_room(queues);
        }
    }

    /// Starts a multishot operation for the running fiber. Returns `None` if the driver has no such
    /// operations, or if the runtime is shut down.
    #[allow(
        unsafe_code,
        reason = "the operation lives as long as the driver needs it"
    )]
    pub(in crate::sched) fn begin_many(
        &self,
        queues: &Queues,
        fiber: Started,
        operation: &mut Operation<'_>,
        sink: Arc<dyn CompletionSink>,
    ) -> Option<OperationId> {
        debug_assert!(matches!(operation, Operation::Multishot(_)));
        if queues.shared.is_shut_down() || !self.with_driver(|driver| driver.ring().is_some()) {
            return None;
        }
        // SAFETY: nothing accesses the operation before the driver has submitted it, which is
        // awaited below.
        let id = unsafe { self.begin(queues, fiber, operation, sink) };
        self.flush(queues);
        while !self.driver.lock().is_flushed() {
            self.flush(queues);
            self.poll(queues);
        }
        Some(id)
    }

    /// Requests the end of an operation, unless it has ended.
    pub(in crate::sched) fn end(
        &self,
        queues: &Queues,
        OperationId { worker, token }: OperationId,
    ) {
        if worker == queues.index {
            self.reactor.borrow_mut().end(token);
            self.cancel_late(queues);
        } else {
            queues.shared.remote(worker).mail(Mail::End(token));
        }
    }
}

/// Waits for a wake-up of the calling fiber, at most until the deadline. May return spuriously.
pub(in crate::sched) fn park_deadline(running: Started, deadline: Instant) {
    let Some((worker, timer)) = current::with_fiber(|worker| {
        let timer = worker
            .io
            .reactor
            .borrow_mut()
            .wake_at(deadline, running.reference());
        (worker.queues.index, timer)
    }) else {
        return;
    };
    suspend(running, Pause::Parked);
    current::with_fiber(|here| {
        if here.queues.index == worker {
            here.io.reactor.borrow_mut().forget_wake(timer);
        } else {
            // If it expires before, the caller's next park returns spuriously.
            let before = here.queues.shared.remote(worker);
            before.mail(Mail::ForgetWake(timer));
        }
    });
}

/// Switches from the running fiber, which is the caller, to its worker's loop until the fiber is
/// resumed. No reference to the worker lives across the switch, as the fiber may continue on
/// another one. Inlined as far up as possible: the CPU mispredicts returns if calls and returns do
/// not pair up across a switch.
#[inline(always)]
#[allow(unsafe_code, reason = "leaving the fiber's stack")]
pub(in crate::sched) fn suspend(running: Started, pause: Pause) {
    debug_assert_eq!(current::running(), Some(running));
    let control = running.control();
    let Some(record) = control.record() else {
        if thread::panicking() {
            panics::record_suspension(running);
        }
        // SAFETY: the caller is the running fiber.
        return unsafe { control.suspend(pause) };
    };
    let outer = record.claim.begin_call();
    if record.claim.worker().is_none() {
        // SAFETY: the caller is the running fiber.
        unsafe { control.await_worker(record) };
    }
    // SAFETY: the caller is the running fiber.
    unsafe { control.suspend(pause) };
    record.claim.end_call(outer);
}

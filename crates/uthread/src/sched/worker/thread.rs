//! The threads of workers. Usually a thread runs one worker to its end. Where fibers have
//! thread-local storage of their own, a worker can be [taken](super::super::shared::handover) from
//! its thread, which then waits for another one.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AbortOnUnwind, Worker, current};
use crate::driver::native::blocked::{Blocked, Task};
use crate::fiber::{Kept, Started};
use crate::sched::shared::debugger;
use crate::sched::shared::handover::Moved;
use crate::sched::shared::{Mail, Shared};

/// How long a fiber with virtual time blocks its thread until it counts as one that waits for another
/// fiber: longer than a disk or a lock of the kernel takes, or a thread waits for a CPU on a busy computer.
const WAIT_FOR_FIBERS: Duration = Duration::from_secs(1);

/// Runs a worker, as the main function of the thread on which it was created; then others that are
/// handed over.
#[allow(unsafe_code, reason = "a worker that changes its thread")]
pub(crate) fn run(worker: Worker) {
    let shared = Arc::clone(&worker.queues.shared);
    let worker = NonNull::from(Box::leak(Box::new(worker)));
    // SAFETY: the worker was created here, and does not run yet.
    unsafe { worker.as_ref() }.show_to_debugger();
    let kept = Kept::default();
    // SAFETY: the worker was created here.
    unsafe { run_worker(&shared, worker, &kept) };
    run_others(&shared, &kept);
}

/// Runs the workers that are handed over, as the main function of a spare thread.
pub(crate) fn run_spare(shared: &Shared) {
    run_others(shared, &Kept::default());
}

#[allow(unsafe_code, reason = "a worker that changes its thread")]
fn run_others(shared: &Shared, kept: &Kept) {
    if !shared.spares.may_be() {
        return;
    }
    while let Some(moved) = shared.spares.wait() {
        // SAFETY: the worker was leaked by `run`, and this thread alone has it.
        unsafe { run_worker(shared, moved.into_raw().cast(), kept) };
    }
}

/// Runs a worker until it ends, or is taken from this thread.
///
/// # Safety
///
/// It is on the heap, and no other thread runs it.
#[allow(unsafe_code, reason = "a worker that changes its thread")]
unsafe fn run_worker(shared: &Shared, worker: NonNull<Worker>, kept: &Kept) {
    let bomb = AbortOnUnwind;
    // SAFETY: by the caller's contract. After it was taken, nothing accesses it.
    let alone = unsafe { worker.as_ref() }.run(kept);
    match alone {
        None => {
            // SAFETY: it has ended, and only this thread has it.
            let worker = unsafe { Box::from_raw(worker.as_ptr()) };
            debugger::remove(worker.io.reactor.borrow_mut().list());
        }
        Some(fiber) => {
            kept.end();
            shared.spares.add_thread();
            let home = fiber.control().home.get() as usize;
            shared.remote(home).mail(Mail::Alone(fiber));
        }
    }
    std::mem::forget(bomb);
}

impl Worker {
    fn show_to_debugger(&self) {
        let (runtime, _) = self.identify();
        debugger::add(
            self.io.reactor.borrow_mut().list(),
            runtime,
            &self.queues.remote,
        );
    }

    /// Runs fibers until the runtime is shut down and nothing is left. Returns the fiber that this
    /// thread ran when the worker was taken: nothing of the worker may be accessed then.
    #[allow(unsafe_code, reason = "lengths without their lifetime")]
    fn run(&self, kept: &Kept) -> Option<Started> {
        self.queues.remote.task.store(Some(Task::current()));
        // SAFETY: `leave` ends it, or the caller.
        unsafe { self.fibers.begin(kept) };
        // SAFETY: `leave` takes them back.
        unsafe { self.queues.remote.ready.lend(self.queues.ready.lengths()) };
        if let Some(tls) = &self.tls {
            tls.bind();
            let handover = &self.queues.remote.handover;
            handover.bind(NonNull::from(self).cast(), tls.own());
        }
        if self.queues.is_traced() {
            self.queues.trace_detach();
        }
        self.queues.remote.counters.running.set(0);
        let alone = current::enter(self, || self.run_to_end());
        if alone.is_none() {
            self.leave();
        }
        alone
    }

    /// Gives this worker to a spare thread, as its fiber, which is the caller, is about to block
    /// its thread. Returns `false` if there is none.
    pub(in crate::sched) fn hand_off(&self, fiber: Started) -> bool {
        let shared = Arc::clone(&self.queues.shared);
        let remote = Arc::clone(&self.queues.remote);
        let Some(record) = fiber.control().record() else {
            return false;
        };
        if !shared.spares.reserve() {
            return false;
        }
        self.io.flush(&self.queues);
        let moved = remote.handover.give(record);
        shared.hand_over(moved)
    }
}

impl Shared {
    /// Lets other threads run the fibers that wait for a worker that has not switched for this time.
    /// `cpu_time` is the CPU time of its thread when that was first seen. Called by the monitor.
    pub(in crate::sched) fn relieve(
        &self,
        index: usize,
        duration: Duration,
        cpu_time: Option<Duration>,
    ) {
        let remote = self.remote(index);
        if remote.has_handed() {
            self.wake_one();
        }
        let is_blocked = || {
            remote
                .task
                .load()
                .is_some_and(|task| task.blocked().is_some())
        };
        if remote.clock.is_some() && (duration < WAIT_FOR_FIBERS || !is_blocked()) {
            // How long a fiber computes, or a disk takes, must not decide which one runs next.
            return;
        }
        let others_wait =
            || self.others_wait_for(remote) || self.has_stealable_work() || remote.has_to_list();
        if self.spares.may_be() && others_wait() && !remote.waits_for_cpu(cpu_time) {
            self.take_over(index);
        }
    }

    /// Lets another thread go on with a worker whose fiber waits for a lock that does not suspend it.
    /// Called by the monitor, seldom.
    pub(in crate::sched) fn relieve_if_locked(&self, index: usize) {
        let task = self.remote(index).task.load();
        let is_locked = task.is_some_and(|task| task.blocked() == Some(Blocked::Futex));
        if self.spares.may_be() && is_locked {
            self.take_over(index);
        }
    }

    /// Takes a worker from its thread, and hands it to a spare one.
    fn take_over(&self, index: usize) {
        let mut is_reserved = false;
        let reserve = || {
            is_reserved = self.spares.reserve();
            is_reserved
        };
        let moved = self.remote(index).handover.take(reserve);
        if is_reserved {
            self.hand_over(moved);
        }
    }

    /// Hands a worker over to the reserved thread, if it was taken. Returns `true` if it was.
    fn hand_over(&self, moved: Option<Moved>) -> bool {
        let is_moved = moved.is_some();
        if is_moved {
            // What its fiber does may wake others. Relaxed: as for other such fibers.
            self.outside.fetch_add(1, Ordering::Relaxed);
        }
        self.spares.hand(moved);
        is_moved
    }
}

//! Replacing a worker whose fiber blocks its thread: which worker becomes active, away and benched ([`spares`](super::spares)).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::reactor::Reactor;
use super::shared::{Mail, Remote, Shared, StartSpare};
use super::spares::{Roster, SPARES_MAX, State};
use crate::fiber::{FiberRef, Scheduler};

/// CPU time without a switch after which a fiber computes for long.
const COMPUTED: Duration = Duration::from_micros(300);

/// Workers that become active, away and benched.
impl Shared {
    /// Starts the first spare worker, benched, if there are to be any. The others are started likewise.
    ///
    /// # Errors
    ///
    /// The error of `start`.
    pub(crate) fn start_spares(&self, start: StartSpare) -> io::Result<()> {
        if !self.has_spares() {
            return Ok(());
        }
        let _ = self.spares.start.set(start);
        let mut roster = self.spares.roster();
        let index = self.start_spare(&mut roster, State::Benched)?;
        roster.benched.push(index);
        Ok(())
    }

    /// Takes the threads of the spare workers, to join them. None starts afterwards, as the runtime is shut down.
    pub(crate) fn take_spare_threads(&self) -> Vec<thread::JoinHandle<()>> {
        std::mem::take(&mut self.spares.roster().threads)
    }

    /// Makes a benched or a new worker active in place of this one, whose fiber blocks its thread. Returns `false` if there is
    /// none, or if the worker is away already.
    pub(super) fn replace(&self, index: usize) -> bool {
        if !self.has_spares() {
            return false;
        }
        let mut roster = self.spares.roster();
        let worker = self.remote(index);
        if self.is_shut_down() || !worker.duty.is(State::Active) {
            return false;
        }
        let replacement = match roster.benched.pop() {
            Some(benched) => benched,
            None => match self.start_spare(&mut roster, State::Active) {
                Ok(started) => started,
                Err(error) => {
                    roster.report(&error);
                    return false;
                }
            },
        };
        worker.duty.set(State::Away);
        roster.away += 1;
        self.set_away(true);
        drop(roster);
        let replacement = self.remote(replacement);
        replacement.duty.set(State::Active);
        replacement.wake();
        true
    }

    /// Lets others go on with what waits for a worker that has not switched for long, since it had used so much CPU time. Called by
    /// the monitor.
    pub(super) fn relieve(&self, index: usize, now: Instant, cpu_time: Option<Duration>) {
        let worker = self.remote(index);
        if self.has_spares() {
            self.serve(worker, now);
        }
        let has_work = worker.has_handed()
            || self.is_migrating() && worker.has_something_waiting(now)
            || self.has_spares() && self.has_stealable_work();
        if has_work
            && !self.wake_one()
            && self.idle.are_all_busy()
            && worker.does_not_wait_for_a_cpu(cpu_time)
        {
            self.replace(index);
        }
    }

    /// Does for a worker what it does not get to: submits and cancels its operations, collects completions, and expires timers.
    fn serve(&self, worker: &Remote, now: Instant) {
        let Some((reactor, driver)) = worker.reactor.get().zip(worker.driver.get()) else {
            return;
        };
        let Ok(mut reactor) = reactor.try_lock() else {
            return;
        };
        let mut ready = Vec::new();
        let served = driver.try_with(|driver| {
            if worker.is_submitting() {
                return 0;
            }
            while let Some(fiber) = worker.take_interrupt(&mut reactor) {
                reactor.interrupt(fiber.control());
            }
            let served = reactor.serve(now, |fiber, _| ready.push(fiber));
            let mut needs_flush = driver.needs_flush();
            while let Some(token) = reactor.take_late() {
                if reactor.has(token) {
                    driver.cancel(token);
                    needs_flush = true;
                }
            }
            if needs_flush {
                driver.flush();
            }
            served
        });
        let served = served.unwrap_or(0);
        let is_deserted = reactor.is_deserted();
        drop(reactor);
        worker.counters.relieved.add(served);
        ready.into_iter().for_each(|fiber| self.enqueue(fiber));
        if served > 0 && is_deserted && self.is_shut_down() {
            // Other workers may have stayed only because of this reactor.
            self.wake_all();
        }
    }

    /// Returns `true` if spare workers go on for those whose fibers block them.
    pub(in crate::sched) fn has_spares(&self) -> bool {
        self.spares.may_be()
    }

    /// Returns `true` if there are or may be several workers.
    pub(super) fn has_other_workers(&self) -> bool {
        self.remotes.len() > 1 || self.has_spares()
    }

    /// Starts a benched worker if all are in use, so that the next one that is needed need not start first.
    pub(super) fn keep_one_benched(&self) {
        if !self.has_spares() {
            return;
        }
        let mut roster = self.spares.roster();
        if roster.away == 0 || !roster.benched.is_empty() || self.is_shut_down() {
            return;
        }
        // It is tried again when a worker has to be replaced.
        if let Ok(index) = self.start_spare(&mut roster, State::Benched) {
            roster.benched.push(index);
        }
    }

    /// Gives a worker whose loop goes on a place among the active ones, if it was away. Returns `true` if it is benched instead.
    pub(super) fn settle(&self, index: usize) -> bool {
        let worker = self.remote(index);
        if !worker.duty.is_away() {
            return false;
        }
        let mut roster = self.spares.roster();
        roster.away -= 1;
        self.set_away(roster.away > 0);
        let is_benched = roster.free == 0;
        if is_benched {
            worker.duty.set(State::Benched);
            roster.benched.push(index);
        } else {
            roster.free -= 1;
            worker.duty.set(State::Active);
        }
        is_benched
    }

    /// Frees the place of a spare worker that could not start.
    pub(crate) fn give_up_spare(&self, index: usize, error: &io::Error) {
        let mut roster = self.spares.roster();
        roster.report(error);
        match roster.benched.iter().position(|benched| *benched == index) {
            Some(position) => drop(roster.benched.swap_remove(position)),
            None => roster.free += 1,
        }
        drop(roster);
        self.remote(index).set_waker(None);
        self.record_worker_end();
    }

    /// Counts a worker that has ended. Returns `true` if it is the last one.
    pub(super) fn count_worker_end(&self) -> bool {
        // No spare worker starts meanwhile.
        let _roster = self.spares.roster();
        // AcqRel: the last worker sees the fibers that the others have kept.
        self.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.workers()
    }

    fn start_spare(&self, roster: &mut Roster, state: State) -> io::Result<usize> {
        let (remote, ends) = Remote::new(&self.idle, self.mode, false);
        remote.duty.set(state);
        let (Some(added), Some(start)) = (self.spares.add(remote), self.spares.start.get()) else {
            let what = format!("all {SPARES_MAX} spare workers of the runtime are in use");
            return Err(io::Error::other(what));
        };
        let index = self.remotes.len() + added;
        match start(index, ends) {
            Ok(thread) => roster.threads.push(thread),
            Err(error) => {
                self.remote(index).set_waker(None);
                // Not the last one, as the runtime goes on.
                self.ended.fetch_add(1, Ordering::AcqRel);
                return Err(error);
            }
        }
        Ok(index)
    }
}

impl Remote {
    /// Records that the fiber which has run has left its stack. From then on, others may submit its operation.
    #[inline(always)]
    pub(super) fn record_left(&self) {
        // Release pairs with the acquire in `is_submitting`.
        self.is_submitting.store(false, Ordering::Release);
    }

    /// Returns `true` if the running fiber may have begun an operation. Called under the lock of the driver.
    fn is_submitting(&self) -> bool {
        self.is_submitting.load(Ordering::Acquire)
    }

    /// Takes a request to end the wait of a fiber that waits for an operation of this worker. Others may be for the running fiber,
    /// which begins its operation after the worker was asked to cancel it.
    fn take_interrupt(&self, reactor: &mut Reactor) -> Option<FiberRef> {
        if !self.inbox.has_mail() {
            return None;
        }
        let mail = self.inbox.take_one(|mail| match mail {
            Mail::Interrupt(fiber) => reactor.may_interrupt(fiber.control()),
            _ => false,
        });
        match mail {
            Some(Mail::Interrupt(fiber)) => Some(fiber),
            _ => None,
        }
    }

    /// Returns the time for which the worker's thread has used a CPU, once it runs.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.task.get()?.cpu_time()
    }

    /// Returns `true` if the thread is blocked, or has computed since it had used this time. Otherwise it has no CPU, and another
    /// worker would have none either.
    fn does_not_wait_for_a_cpu(&self, before: Option<Duration>) -> bool {
        let used = before.and_then(|before| self.cpu_time()?.checked_sub(before));
        used.is_some_and(|used| used >= COMPUTED)
            || self.task.get().is_some_and(|task| task.blocked().is_some())
    }
}

//! Replacing a worker whose fiber blocks its thread: which worker becomes active, away and benched
//! ([`spares`](super::spares)).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::spares::{Roster, SPARES_MAX, State};
use super::{Mail, Remote, Shared, StartSpare};
use crate::fiber::{FiberRef, Scheduler};
use crate::sched::reactor::Reactor;

/// CPU time without a switch after which a fiber computes for long.
const COMPUTED: Duration = Duration::from_micros(300);

/// Workers that become active, away and benched.
impl Shared {
    /// Starts the first spare worker, benched, if there are to be any. The others are started
    /// likewise.
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
        let (index, thread) = self.try_to_start(State::Benched)?;
        roster.threads.push(thread);
        roster.benched.push(index);
        Ok(())
    }

    /// Takes the threads of the spare workers, to join them. Others start until all workers have
    /// ended.
    pub(crate) fn take_spare_threads(&self) -> Vec<thread::JoinHandle<()>> {
        std::mem::take(&mut self.spares.roster().threads)
    }

    /// Makes a benched or a new worker active in place of this one, whose fiber blocks its thread.
    /// Returns `false` if there is none, or if the worker is away already.
    pub(in crate::sched) fn replace(&self, index: usize) -> bool {
        if !self.has_spares() {
            return false;
        }
        let mut roster = self.spares.roster();
        let worker = self.remote(index);
        if !worker.duty.is(State::Active) || !self.activate_one(&mut roster) {
            return false;
        }
        worker.duty.set(State::Away);
        roster.away += 1;
        self.set_away(true);
        true
    }

    /// Makes a benched or a new worker active. Returns `false` if there is none.
    fn activate_one(&self, roster: &mut Roster) -> bool {
        if self.is_shut_down() {
            // Benched workers do not sit out any more.
            roster.benched.clear();
        }
        match roster.benched.pop() {
            Some(benched) => {
                let benched = self.remote(benched);
                benched.duty.set(State::Active);
                benched.wake();
                true
            }
            None => self.start_spare(roster, State::Active).is_some(),
        }
    }

    /// Lets others go on with what waits for a worker that has not switched for long, since it had
    /// used so much CPU time. Called by the monitor.
    pub(in crate::sched) fn relieve(&self, index: usize, now: Instant, cpu_time: Option<Duration>) {
        let worker = self.remote(index);
        if self.has_spares() {
            self.serve(worker, now);
        }
        let has_work = worker.has_handed()
            || self.is_migrating() && worker.has_something_waiting(now)
            || self.has_spares() && self.has_stealable_work();
        if has_work && !self.wake_one() && self.idle.all_busy() && !worker.waits_for_cpu(cpu_time) {
            self.replace(index);
        }
    }

    /// Does for a worker what it does not get to: submits and cancels its operations, collects
    /// completions, and expires timers.
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
            let mut needs_flush = driver.flush_within().is_some();
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
        if served > 0 && is_deserted {
            self.record_deserted();
        }
    }

    /// Returns `true` if spare workers go on for those whose fibers block them.
    pub(in crate::sched) fn has_spares(&self) -> bool {
        self.spares.may_be()
    }

    /// Returns `true` if there are or may be several workers.
    pub(in crate::sched) fn has_other_workers(&self) -> bool {
        self.remotes.len() > 1 || self.has_spares()
    }

    /// Fills the places of spare workers that could not start, and starts a benched worker if all
    /// are in use, so that the next one that is needed need not start first. Called by the monitor.
    pub(in crate::sched) fn fill_places(&self) {
        if !self.has_spares() {
            return;
        }
        let mut roster = self.spares.roster();
        while roster.free > 0 && self.activate_one(&mut roster) {
            roster.free -= 1;
        }
        if roster.away > 0
            && roster.benched.is_empty()
            && !self.is_shut_down()
            && let Some(index) = self.start_spare(&mut roster, State::Benched)
        {
            roster.benched.push(index);
        }
    }

    /// Gives a worker that was away a free place among the active ones. Returns `true` if there is
    /// none, so that it is benched.
    pub(in crate::sched) fn settle(&self, index: usize) -> bool {
        let worker = self.remote(index);
        debug_assert!(worker.duty.is_away(), "only the worker itself ends this");
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

    /// Records that a spare worker has started.
    pub(crate) fn confirm_spare(&self) {
        self.spares.roster().delay = Duration::ZERO;
    }

    /// Frees the place of a spare worker that could not start.
    pub(crate) fn give_up_spare(&self, index: usize, error: &io::Error) {
        let mut roster = self.spares.roster();
        roster.record_failure(error);
        match roster.benched.iter().position(|benched| *benched == index) {
            Some(position) => drop(roster.benched.swap_remove(position)),
            None => roster.free += 1,
        }
        drop(roster);
        self.remote(index).set_waker(None);
        self.record_worker_end();
    }

    /// Counts a worker that has ended. Returns `true` if it is the last one.
    pub(in crate::sched) fn count_worker_end(&self) -> bool {
        // No spare worker starts meanwhile.
        let _roster = self.spares.roster();
        // AcqRel: the last worker sees the fibers that the others have kept.
        self.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.workers()
    }

    /// Starts a spare worker, and returns its index, unless one could not start shortly before.
    fn start_spare(&self, roster: &mut Roster, state: State) -> Option<usize> {
        let is_delayed = roster.retry_at.is_some_and(|at| Instant::now() < at);
        if is_delayed || self.ended.load(Ordering::Acquire) == self.workers() {
            return None;
        }
        let started = self.try_to_start(state);
        let started = started.map_err(|error| roster.record_failure(&error));
        let (index, thread) = started.ok()?;
        roster.threads.push(thread);
        Some(index)
    }

    fn try_to_start(&self, state: State) -> io::Result<(usize, thread::JoinHandle<()>)> {
        let (remote, ends) = Remote::new(&self.idle, &self.abandonment, self.mode, false);
        remote.duty.set(state);
        let (Some(added), Some(start)) = (self.spares.add(remote), self.spares.start.get()) else {
            let what = format!("all {SPARES_MAX} spare workers of the runtime are in use");
            return Err(io::Error::other(what));
        };
        let index = self.remotes.len() + added;
        let thread = start(index, ends).inspect_err(|_| {
            self.remote(index).set_waker(None);
            // Not the last one, as another one is stuck.
            self.ended.fetch_add(1, Ordering::AcqRel);
        })?;
        Ok((index, thread))
    }
}

impl Remote {
    /// Records that the fiber which has run has left its stack. From then on, others may submit its
    /// operation.
    pub(in crate::sched) fn record_left(&self) {
        // Release pairs with the acquire in `is_submitting`.
        self.is_submitting.store(false, Ordering::Release);
    }

    /// Returns `true` if the running fiber may have begun an operation. Called under the lock of
    /// the driver.
    fn is_submitting(&self) -> bool {
        self.is_submitting.load(Ordering::Acquire)
    }

    /// Takes a request to end the wait of a fiber that waits for an operation of this worker.
    /// Others may be for the running fiber, which begins its operation after the worker was asked
    /// to cancel it.
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
    pub(in crate::sched) fn cpu_time(&self) -> Option<Duration> {
        self.task.get()?.cpu_time()
    }

    /// Returns `true` if the thread has no CPU, so that another worker would have none either: it
    /// is not blocked, and has not computed since it had used this time.
    fn waits_for_cpu(&self, before: Option<Duration>) -> bool {
        let used = before.and_then(|before| self.cpu_time()?.checked_sub(before));
        used.is_none_or(|used| used < COMPUTED)
            && self.task.get().is_none_or(|task| task.blocked().is_none())
    }
}

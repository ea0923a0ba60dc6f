//! The driver and the reactor of one worker: submitting, polling, and making fibers ready whose
//! waits have ended.
//!
//! ```text
//!   a fiber's call    -> driver, and the table of the reactor      [`calls`](super::calls)
//!   between batches   -> flush, collect completions, expire timers
//!   without work      -> wait in the driver
//! ```

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::alerts::Alerts;
use super::poll_schedule::PollSchedule;
use super::queues::Queues;
use crate::driver::{Driver, FLUSH_TIME_MAX, Token};
use crate::fiber::Control;
use crate::root::EventKind;
use crate::sched::reactor::Reactor;
use crate::sched::reactor::driver_cell::DriverCell;

pub(crate) struct Io {
    pub(super) driver: DriverCell,
    /// Its operations, timers and fibers. Borrowed before the driver.
    pub(super) reactor: RefCell<Reactor>,
    schedule: PollSchedule,
}

impl Io {
    /// Creates the part of the calling thread's worker, on which the driver was created.
    pub(super) fn new(driver: Box<dyn Driver>) -> Io {
        let reactor = RefCell::new(Reactor::new(driver.now()));
        Io {
            driver: DriverCell::new(driver),
            reactor,
            schedule: PollSchedule::default(),
        }
    }

    pub(super) fn description(&self) -> String {
        self.driver.lock().description()
    }

    /// Calls `action` with the driver.
    pub(in crate::sched) fn with_driver<R>(&self, action: impl FnOnce(&mut dyn Driver) -> R) -> R {
        action(&mut **self.driver.lock())
    }

    /// Returns the current time of the driver's clock.
    pub(in crate::sched) fn now(&self) -> Instant {
        self.driver.lock().now()
    }

    /// Returns the current time by which timers expire, also if the caller's clock is another one.
    fn timer_time(&self) -> Instant {
        self.driver.lock().timer_time()
    }

    /// Changes the times until the timers of some fibers expire.
    pub(in crate::sched) fn change_timers(
        &self,
        is_one: impl Fn(&Control) -> bool,
        change: impl Fn(Duration) -> Duration,
    ) {
        let now = self.timer_time();
        let mut reactor = self.reactor.borrow_mut();
        reactor.change_timers(now, is_one, change);
    }

    /// Returns `true` if it is time to submit, or to poll for events.
    #[inline]
    pub(super) fn is_flush_due(&self, queues: &Queues) -> bool {
        queues.alerts.has(Alerts::BATCH_END) && self.schedule.is_due(queues, &self.driver)
    }

    /// Submits the driver's operations without sleeping.
    pub(super) fn flush(&self, queues: &Queues) {
        if self.schedule.mark_flushed(queues) && queues.is_traced() {
            return self.flush_traced(queues);
        }
        self.driver.lock().flush();
    }

    #[cold]
    fn flush_traced(&self, queues: &Queues) {
        let begin = Instant::now();
        let mut driver = self.driver.lock();
        driver.flush();
        let submissions = driver.counts().submissions;
        queues.trace_driver(EventKind::Submit, begin, submissions);
    }

    /// Ends the batch after this time at the latest, as the driver has operations to submit.
    pub(super) fn flush_within(&self, queues: &Queues, time: Duration) {
        self.schedule.flush_within(queues, time, || self.now());
    }

    /// Records that a fiber waits for an event that the driver has to poll for.
    pub(super) fn count_awaited(&self, queues: &Queues) {
        self.schedule.count_awaited(queues, || self.now());
    }

    /// Ends the batch after this time at the latest, unless it has an end.
    pub(super) fn look_within(&self, queues: &Queues, time: Duration) {
        self.schedule.look_within(queues, time, || self.now());
    }

    /// Ends the batch after the running fiber.
    pub(super) fn end_batch(&self, queues: &Queues) {
        self.schedule.end_batch(queues, self.now());
    }

    /// Makes fibers ready whose operations have completed or whose timers have expired, and
    /// publishes the driver's counts: the last iteration before a sleep leaves them complete.
    pub(super) fn poll(&self, queues: &Queues) {
        let mut reactor = self.reactor.borrow_mut();
        let count = reactor.collect(
            &self.driver,
            |fiber, first| queues.make_ready_as(fiber, first),
            |fiber, first| queues.make_unparked_ready(fiber, first),
        );
        if reactor.has_timers() {
            reactor.expire(self.timer_time(), |fiber| {
                queues.make_unparked_ready(fiber, false)
            });
        }
        let is_any_late = reactor.is_any_late();
        drop(reactor);
        queues.remote.counters.completions.add(count);
        if is_any_late {
            self.cancel_late(queues);
        }
        let counts = self.driver.lock().counts();
        queues.remote.counters.set_driver(counts);
    }

    /// Requests the end of late operations.
    pub(super) fn cancel_late(&self, queues: &Queues) {
        while let Some(token) = self.take_late() {
            let mut reactor = self.reactor.borrow_mut();
            if reactor.has(token) {
                self.driver.lock().cancel(token);
                self.flush_within(queues, FLUSH_TIME_MAX);
            }
        }
    }

    fn take_late(&self) -> Option<Token> {
        self.reactor.borrow_mut().take_late()
    }

    /// Makes the calls of all fibers check from now on whether they may wait.
    pub(super) fn cancel_fibers(&self) {
        for fiber in self.reactor.borrow().fibers() {
            fiber.control().limits.cancel();
        }
    }

    /// Makes room in a driver that is full.
    #[cold]
    pub(super) fn make_room(&self, queues: &Queues) {
        self.flush(queues);
        self.poll(queues);
    }

    /// Submits operations and sleeps until an event or for this time. Returns the time that has
    /// passed.
    pub(super) fn wait(&self, queues: &Queues, timeout: Option<Duration>) -> Duration {
        let is_alerted = self.schedule.mark_flushed(queues);
        let mut driver = self.driver.lock();
        let begin = driver.now();
        driver.wait(timeout);
        if is_alerted && queues.is_traced() {
            queues.trace_driver(EventKind::Sleep, begin, driver.counts().submissions);
        }
        driver.now().saturating_duration_since(begin)
    }
}

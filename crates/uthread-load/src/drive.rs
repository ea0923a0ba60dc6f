//! One run of one worker, as the fibers of its connections see it: the connections they reopen, and
//! what they count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uthread::sync::Mutex;
use uthread::{sleep, yield_now};

use crate::clock::Clock;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::link::Link;
use crate::pacer::LOOK_EVERY;
use crate::tally::Tally;
use crate::task::{Slot, Task};
use crate::usage::Usage;

/// Pause of a connection after a failure: fast failures must not dominate the load.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that a stopped run waits for responses: a person is waiting.
const STOPPED_WAIT_MAX: Duration = Duration::from_millis(500);
/// Interval at which to check for the last response.
const END_LOOK_EVERY: Duration = Duration::from_millis(5);

/// The state of a run. Only this worker uses the counters, so `Relaxed` is enough.
pub(crate) struct Drive<'a> {
    pub(crate) task: &'a Task,
    pub(crate) clock: &'a Clock,
    pub(crate) timeout: Duration,
    pub(crate) exchange: &'a Exchange,
    pub(crate) tally: Mutex<Tally>,
    /// Messages that have fallen due, in an open loop.
    due: AtomicU64,
    /// Messages whose outcome is known.
    settled: AtomicU64,
    /// Fibers of connections that have ended.
    ended: AtomicU64,
    /// Time without a settled message, if the worker spins.
    idle_ns: AtomicU64,
    /// Set when the run is over, and nobody waits for responses any more.
    is_ending: AtomicBool,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(task: &'a Task, clock: &'a Clock) -> Drive<'a> {
        Drive {
            task,
            clock,
            timeout: task.timeout,
            exchange: &task.exchange,
            tally: Mutex::new(Tally::default()),
            due: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Sleeps until the run is over; returns the usage in the measured time.
    pub(crate) fn watch(&self) -> Usage {
        self.sleep_until(Some(self.clock.begin));
        let before = self.usage();
        self.sleep_until(None);
        self.usage() - before
    }

    fn usage(&self) -> Usage {
        let usage = Usage::of_thread();
        if !self.task.spins {
            return usage;
        }
        let idle = Duration::from_nanos(self.idle_ns.load(Ordering::Relaxed));
        Usage {
            cpu: self.clock.start.elapsed().saturating_sub(idle),
            ..usage
        }
    }

    /// Sleeps until `time` or the end of the run.
    fn sleep_until(&self, time: Option<Instant>) {
        loop {
            let now = Instant::now();
            let end = self.clock.end.time();
            let until = time.map_or(end, |time| time.min(end));
            if now >= until {
                return;
            }
            // A stop moves the end.
            sleep((until - now).min(LOOK_EVERY));
        }
    }

    /// Waits for the last messages. Each fiber knows its own; this is for messages that nothing
    /// else would end.
    pub(crate) fn await_last(&self, is_done: impl Fn() -> bool) {
        let end = self.clock.end.time();
        while !is_done() {
            let wait_max = if self.clock.end.is_stopped() {
                STOPPED_WAIT_MAX
            } else {
                self.timeout + STOPPED_WAIT_MAX
            };
            if end.elapsed() >= wait_max {
                break;
            }
            sleep(END_LOOK_EVERY);
        }
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Keeps the worker from sleeping, and measures how much of that time was idle.
    pub(crate) fn spin(&self) {
        let mut settled = 0;
        let mut before = Instant::now();
        while !self.clock.is_over(before) {
            yield_now();
            let now = Instant::now();
            let progress = self.settled.load(Ordering::Relaxed) + self.due.load(Ordering::Relaxed);
            if progress == settled {
                let idle = now.duration_since(before).as_nanos() as u64;
                add(&self.idle_ns, idle);
            }
            (settled, before) = (progress, now);
        }
    }

    /// Returns the connection, after opening it if it is down. After a failure, pauses and returns
    /// `None`.
    pub(crate) fn link(&self, slot: &mut Slot) -> Option<Link> {
        if let Some(link) = slot.link.take() {
            return Some(link);
        }
        let opened = {
            let _permit = self.task.opening.acquire().expect("nobody closes it");
            if self.clock.is_over(Instant::now()) {
                return None;
            }
            self.task.open(slot.index)
        };
        opened.map_err(|failure| self.note_broken(failure, 0)).ok()
    }

    /// Counts a response; returns true if it arrived in the measured time.
    pub(crate) fn count(&self, due: Instant, now: Instant) -> bool {
        add(&self.settled, 1);
        self.tally.lock().unwrap().count(self.clock, due, now)
    }

    pub(crate) fn count_sent(&self, due: Instant) {
        let now = Instant::now();
        self.tally.lock().unwrap().count_sent(self.clock, due, now);
    }

    pub(crate) fn fail(&self, failure: Failure) {
        self.tally.lock().unwrap().fail(failure);
    }

    pub(crate) fn note_due(&self) {
        add(&self.due, 1);
    }

    /// Counts a message that could not be sent.
    pub(crate) fn note_unsent(&self, failure: Failure) {
        add(&self.settled, 1);
        self.fail(failure);
    }

    /// Counts a connection that the server closed as announced; unanswered messages were sent in
    /// vain.
    pub(crate) fn note_closing(&self, unanswered: usize) {
        self.tally.lock().unwrap().reconnects += 1;
        self.note_unfinished(unanswered);
    }

    /// Counts a lost connection and its messages in flight, and pauses.
    pub(crate) fn note_broken(&self, failure: Failure, unanswered: usize) {
        self.note_unfinished(unanswered);
        // At the end, cancelled fibers see an error that is not the server's.
        if !uthread::thread::is_cancelled() {
            self.fail(failure);
            let now = Instant::now();
            let rest = self.clock.end.time().saturating_duration_since(now);
            sleep(rest.min(PAUSE));
        }
    }

    pub(crate) fn note_unfinished(&self, unanswered: usize) {
        add(&self.settled, unanswered as u64);
        self.tally.lock().unwrap().unanswered += unanswered as u64;
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Counts the fiber of a connection that has ended.
    pub(crate) fn note_ended(&self) {
        add(&self.ended, 1);
    }

    /// Returns the number of fibers of connections that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Returns `true` if the outcome of every message that has fallen due is known.
    pub(crate) fn has_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed) >= self.due.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

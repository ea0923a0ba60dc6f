//! One worker: a runtime with one thread and a share of the connections, with one or two fibers per connection.
//!
//! Workers share nothing while they run: each has its own tally, and none steals from or wakes another.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uthread::sync::{Mutex, Semaphore};
use uthread::thread::{Cancelled, ScopedJoinHandle};
use uthread::{scope, sleep, yield_now};

use crate::clock::{Clock, End};
use crate::closed;
use crate::exchange::Exchange;
use crate::failure::{Failure, Kind};
use crate::link::Link;
use crate::open::{self, Line};
use crate::pacer::{LOOK_EVERY, Pacer};
use crate::plan::Pattern;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::usage::Usage;

/// Pause of a connection after a failure: fast failures must not dominate the load.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that a stopped run waits for responses: a person is waiting.
const STOPPED_WAIT_MAX: Duration = Duration::from_millis(500);
/// Interval at which to check for the last response.
const END_LOOK_EVERY: Duration = Duration::from_millis(5);
/// The kernel may delay a sleep by 50 us to save power, longer than a request takes; request the minimum.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Data shared by all workers.
pub(crate) struct Task {
    pub(crate) address: SocketAddr,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) timeout: Duration,
    pub(crate) pattern: Pattern,
    pub(crate) workers: usize,
    pub(crate) spins: bool,
    pub(crate) end: End,
    /// Bounds the connections in the process of opening. A listener drops connections that do not fit its queue, and
    /// the client retries only after a second.
    pub(crate) opening: Semaphore,
    /// Set if a first message was not answered. The run then opens the remaining connections, so that a silent server
    /// is waited for only once.
    pub(crate) is_silent: AtomicBool,
}

impl Task {
    fn open(&self, index: u64) -> Result<Link, Failure> {
        let in_flight_bytes = match self.pattern {
            Pattern::Closed { depth } => depth.get() * self.exchange.message_bytes(),
            // Bounds the wait for a server that has stopped reading.
            Pattern::Open { .. } => usize::MAX,
        };
        Link::open(
            self.address,
            &self.exchange,
            index,
            in_flight_bytes,
            self.timeout,
        )
    }
}

/// One connection of a worker.
pub(crate) struct Slot {
    pub(crate) index: u64,
    /// `None` before it is open, and after a failure.
    pub(crate) link: Option<Link>,
    /// True if it was open, and answered once, before the first run.
    pub(crate) is_greeted: bool,
    /// Responses in the measured time.
    pub(crate) served: u64,
}

/// Results of a worker's run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// Responses in the measured time, per connection.
    pub(crate) served: Vec<u64>,
    pub(crate) usage: Usage,
}

impl Slot {
    fn new(index: u64) -> Slot {
        Slot {
            index,
            link: None,
            is_greeted: false,
            served: 0,
        }
    }
}

/// Opens the connections with these indices, and waits for a response on each; counts failures.
pub(crate) fn connect(task: &Task, indices: impl Iterator<Item = u64>) -> (Vec<Slot>, Tally) {
    let tally = Mutex::new(Tally::default());
    let mut slots: Vec<Slot> = indices.map(Slot::new).collect();
    scope(|scope| {
        for slot in &mut slots {
            let tally = &tally;
            scope.spawn(move || {
                if let Err(failure) = greet(task, slot) {
                    tally.lock().unwrap().fail(failure);
                }
            });
        }
    });
    (slots, tally.into_inner().unwrap())
}

/// Opens a connection, unless that is no longer worth a try.
fn greet(task: &Task, slot: &mut Slot) -> Result<(), Failure> {
    let _permit = task.opening.acquire();
    if task.is_silent.load(Ordering::Relaxed) || task.end.is_stopped() {
        return Ok(());
    }
    let greeted = task
        .open(slot.index)
        .and_then(|link| link.greet(task.timeout));
    if let Err(failure) = &greeted
        && failure.kind == Kind::TimedOut
    {
        task.is_silent.store(true, Ordering::Relaxed);
    }
    slot.link = greeted?;
    slot.is_greeted = true;
    Ok(())
}

/// Loads the server over these connections, which remain for the next run.
pub(crate) fn run(
    task: &Task,
    worker: usize,
    slots: &mut [Slot],
    clock: &Clock,
) -> io::Result<Outcome> {
    rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS))?;
    let pacer = Pacer::new(task.spins)?;
    let drive = Drive {
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
    };
    slots.iter_mut().for_each(|slot| slot.served = 0);
    let usage = match task.pattern {
        Pattern::Closed { depth } => drive.run_closed(slots, depth.get()),
        Pattern::Open { per_second } => {
            let share = per_second.get() as f64 / task.workers as f64;
            drive.run_open(slots, &pacer, Schedule::new(clock.start, share, worker))
        }
    };
    Ok(Outcome {
        tally: drive.tally.into_inner().unwrap(),
        served: slots.iter().map(|slot| slot.served).collect(),
        usage,
    })
}

/// One run of one worker, as its fibers see it. Only this worker uses the counters, so `Relaxed` is enough.
pub(crate) struct Drive<'a> {
    task: &'a Task,
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

impl Drive<'_> {
    fn run_closed(&self, slots: &mut [Slot], depth: usize) -> Usage {
        let all = slots.len() as u64;
        scope(|scope| {
            let start = |slot| {
                scope.spawn(move || {
                    closed::run(self, slot, depth);
                    add(&self.ended, 1);
                })
            };
            let fibers: Vec<_> = slots.iter_mut().map(start).collect();
            self.task.spins.then(|| scope.spawn(|| self.spin()));
            let usage = self.watch();
            self.await_last(|| self.ended.load(Ordering::Relaxed) == all);
            end_all(fibers);
            usage
        })
    }

    fn run_open(&self, slots: &mut [Slot], pacer: &Pacer, schedule: Schedule) -> Usage {
        let lines: Vec<Mutex<Line>> = slots
            .iter_mut()
            .map(|slot| Mutex::new(Line::of(slot)))
            .collect();
        scope(|scope| {
            let start = |(slot, line)| scope.spawn(move || open::receive(self, slot, line));
            let fibers: Vec<_> = slots.iter_mut().zip(&lines).map(start).collect();
            self.task.spins.then(|| scope.spawn(|| self.spin()));
            let lines = lines.as_slice();
            let pacing = scope.spawn(move || open::pace(scope, self, pacer, schedule, lines));
            let usage = self.watch();
            self.await_last(|| {
                let settled = self.settled.load(Ordering::Relaxed);
                // Messages that fell due just before the end may be sent after it.
                pacing.is_finished() && settled >= self.due.load(Ordering::Relaxed)
            });
            end_all(fibers);
            usage
        })
    }

    /// Sleeps until the run is over; returns the usage in the measured time.
    fn watch(&self) -> Usage {
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

    /// Waits for the last messages. Each fiber knows its own; this is for messages that nothing else would end.
    fn await_last(&self, is_done: impl Fn() -> bool) {
        let end = self.clock.end.time();
        while !is_done() {
            let wait_max = match self.clock.end.is_stopped() {
                true => STOPPED_WAIT_MAX,
                false => self.timeout + STOPPED_WAIT_MAX,
            };
            if end.elapsed() >= wait_max {
                break;
            }
            sleep(END_LOOK_EVERY);
        }
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Never lets the worker sleep, and measures how much of that time was idle.
    fn spin(&self) {
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

    /// Returns the connection, after opening it if it is down. After a failure, pauses and returns `None`.
    pub(crate) fn link(&self, slot: &mut Slot) -> Option<Link> {
        if let Some(link) = slot.link.take() {
            return Some(link);
        }
        let opened = {
            let _permit = self.task.opening.acquire();
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

    /// Counts a connection that the server closed as announced; unanswered messages were sent in vain.
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
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Cancels fibers that still wait.
fn end_all(fibers: Vec<ScopedJoinHandle<'_, ()>>) {
    fibers.iter().for_each(ScopedJoinHandle::cancel);
    for fiber in fibers {
        match fiber.join() {
            // The fiber was cancelled in a call without an error value.
            Err(payload) if !payload.is::<Cancelled>() => resume_unwind(payload),
            _ => {}
        }
    }
}

//! The monitor: one thread of the runtime that notices fibers which monopolize their worker.
//!
//! A fiber that computes for long, or blocks outside of the runtime, delays all other fibers of its
//! worker. Nothing can interrupt it from outside, but the monitor can report it, and wake another
//! worker to take over the new fibers that were handed to its worker. Where fibers have thread-local
//! storage of their own, it [takes the worker](super::shared::handover) from the fiber.
//!
//! The monitor samples the workers periodically, and stops while every worker sleeps. It also asks
//! the workers to [trim](trims) the stacks of fibers that wait for long, sends them [probes] of the
//! scheduling delay, and reports a [deadlock] of all fibers.

#[cfg(feature = "backtrace")]
mod backtrace;
pub(in crate::sched) mod deadlock;
pub(crate) mod hooks;
mod observation;
mod probes;
mod trims;

use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "backtrace")]
pub use self::backtrace::StallBacktrace;
use self::deadlock::Deadlocks;
use self::observation::Observation;
use self::probes::Probes;
use self::trims::Trims;
use super::shared::{Mail, Shared, debugger};
use crate::driver::native::blocked::Blocked;
use crate::driver::native::standard_error;

/// A stall is noticed at most a quarter of the threshold late.
const SAMPLES_PER_THRESHOLD: u32 = 4;
/// A sample costs some microseconds: at this interval sampling takes a percent of a CPU.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// A spare thread goes on with a worker that is stuck after one to two of these: within a
/// millisecond.
const INTERVAL_WITH_SPARES: Duration = Duration::from_micros(500);

/// The longest one. Where ready fibers wait for longer than the shortest, samples are as far apart as
/// they wait: each preempts the thread of a busy worker, and at the shortest they take 5 % of its CPU.
const INTERVAL_WITH_SPARES_MAX: Duration = Duration::from_millis(4);

/// Time after which a worker is taken from the only fiber that it has, if that waits for a lock: to
/// sleep, so that a deadlock is found.
const ALONE_TIME: Duration = Duration::from_secs(1);

/// Fibers that are handed to a worker that is stuck wait for two samples until another one is woken
/// to take them over.
const INTERVAL_MAX: Duration = Duration::from_millis(25);

/// Where only unstarted fibers wait, all workers must be monopolized for this many times the
/// threshold until that counts as a stall: a batch of long computations is none.
const UNSTARTED_THRESHOLDS: u32 = 10;

/// Samples without an awake worker before the monitor stops. The next worker to wake up then has to
/// notify the monitor, which must not happen with every request of a server that has little to do.
const IDLE_SAMPLES_MAX: u32 = 10;

/// Pause of a monitor that has panicked, so that one that always does prints a line per second.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The default report prints at most one line per interval.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// A fiber that monopolizes its worker while others wait for it; see the example of
/// [`Builder::on_stall`].
///
/// [`Builder::on_stall`]: crate::runtime::Builder::on_stall
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The worker: the number in the name of the thread that it has started on.
    pub worker: usize,
    /// The fiber's id, as its thread handle shows it.
    pub fiber: u64,
    /// The fiber's name, if it has one.
    pub name: Option<Box<str>>,
    /// Where it was spawned.
    pub spawn_site: &'static Location<'static>,
    /// The least time for which it has run without a call that suspends it.
    pub duration: Duration,
    /// The reason why it has not suspended.
    pub cause: StallCause,
    /// The name of the system call in which it is blocked, such as `read`. `None` if it runs, or if
    /// the kernel does not reveal the call.
    pub system_call: Option<&'static str>,
    /// The calls that have led to this system call. `None` if the fiber runs or has continued
    /// meanwhile, or if the kernel does not reveal the place. Available with the feature
    /// `backtrace`.
    #[cfg(feature = "backtrace")]
    pub backtrace: Option<StallBacktrace>,
    /// `true` if fibers have thread-local storage of their own.
    has_own_tls: bool,
}

/// The reason why a fiber monopolizes its worker.
///
/// ```
/// use uthread::runtime::{Stall, StallCause};
///
/// fn advice(stall: &Stall) -> &'static str {
///     match stall.cause {
///         StallCause::Runs => "let it yield",
///         StallCause::WaitsForLock => "take a lock of uthread",
///         _ => "make the call in uthread::blocking",
///     }
/// }
///
/// let report = |stall: &Stall| eprintln!("{stall}: {}", advice(stall));
/// let runtime = uthread::Runtime::builder().on_stall(report).build()?;
/// # drop(runtime);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// It runs, or the kernel does not reveal its state.
    Runs,
    /// It is blocked in a futex: mostly by a lock or a channel of `std` or of another crate. If
    /// another fiber of this worker holds that lock, neither ever continues.
    WaitsForLock,
    /// It is blocked in another system call.
    WaitsInKernel,
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "fiber {} ", self.fiber)?;
        if let Some(name) = &self.name {
            write!(formatter, "\"{name}\" ")?;
        }
        write!(
            formatter,
            "(spawned at {}) has kept worker {} for {} ms while others wait",
            self.spawn_site,
            self.worker,
            self.duration.as_millis()
        )?;
        let call = self.system_call.unwrap_or("a system call");
        match self.cause {
            StallCause::Runs => formatter.write_str(
                ": let it call yield_now now and then; or run what computes, or waits in a loop of its own, in \
                 uthread::blocking",
            ),
            StallCause::WaitsForLock => formatter.write_str(
                ", blocked by a lock or a channel that does not suspend it: use those of uthread::sync, also where \
                 another fiber holds a lock across a call that waits",
            ),
            StallCause::WaitsInKernel => write!(
                formatter,
                ", blocked in {call}: use the call of uthread by that name, or run it in uthread::blocking"
            ),
        }?;
        match self.cause {
            StallCause::Runs => Ok(()),
            _ if self.has_own_tls => {
                formatter.write_str("; no other thread could go on with its worker")
            }
            _ => formatter.write_str(
                "; if a dependency blocks, call it in uthread::blocking, or do without lean fibers",
            ),
        }
    }
}

/// A callback that reports stalls.
pub(crate) type Report = Arc<dyn Fn(&Stall) + Send + Sync>;

/// Settings of the monitor.
#[derive(Clone)]
pub(crate) struct Config {
    /// How long a fiber may monopolize its worker before that is a stall; `None` forever.
    pub(crate) threshold: Option<Duration>,
    /// `None` prints stalls to standard error.
    pub(crate) report: Option<Report>,
    /// How often the workers' delays are sampled; `None` for never.
    pub(crate) delay_interval: Option<Duration>,
}

pub(crate) struct Monitor {
    shared: Arc<Shared>,
    config: Config,
    samples: Vec<Sample>,
    /// The shortest time for which a ready fiber waits on a worker that is awake.
    wait: Duration,
    trims: Trims,
    deadlocks: Deadlocks,
    probes: Probes,
    /// `true` if a tool traces the process.
    traces: bool,
    last_line: Option<Instant>,
    lines_suppressed: u64,
}

/// The state of a worker when it was last seen to change.
#[derive(Clone, Copy)]
struct Sample {
    switches: u64,
    since: Instant,
    /// The CPU time that its thread had used then, if a spare thread may have to go on with it.
    cpu_time: Option<Duration>,
    /// When to look whether its fiber waits for a lock though no other one is there.
    look_after: Duration,
    /// How long the stall must last to be reported (again).
    report_after: Duration,
    is_counted: bool,
}

impl Sample {
    /// Returns the time for which the last of so many fibers waits for its turn, at the pace since an earlier
    /// sample. Zero if the worker has not run since.
    fn wait_since(&self, earlier: &Sample, ready: usize) -> Duration {
        let switches = self.switches.wrapping_sub(earlier.switches);
        let time =
            (self.cpu_time.zip(earlier.cpu_time)).map(|(now, then)| now.saturating_sub(then));
        let waits = time.unwrap_or_default().as_secs_f64() * ready as f64 / switches as f64;
        Duration::try_from_secs_f64(waits).unwrap_or_default()
    }
}

impl Monitor {
    /// Returns `None` if there is nothing to monitor.
    pub(crate) fn new(shared: Arc<Shared>, config: Config) -> Option<Monitor> {
        let is_asked_for = config.threshold.is_some() || config.delay_interval.is_some();
        (is_asked_for || shared.has_other_threads()).then(|| Monitor {
            shared,
            probes: Probes::new(config.delay_interval),
            config,
            samples: Vec::new(),
            wait: Duration::ZERO,
            trims: Trims::default(),
            deadlocks: Deadlocks::default(),
            traces: false,
            last_line: None,
            lines_suppressed: 0,
        })
    }

    /// Samples until it is stopped.
    pub(crate) fn run(mut self) {
        self.shared.notifier.attach();
        restart_after_panics(|| {
            self.samples.clear();
            self.take_turns();
        });
    }

    fn take_turns(&mut self) {
        let shared = Arc::clone(&self.shared);
        let notifier = &shared.notifier;
        let mut idle_samples = 0;
        while !notifier.is_stopped() {
            let (is_awake, _) = self.take_turn(Instant::now());
            idle_samples = if is_awake { 0 } else { idle_samples + 1 };
            if idle_samples < IDLE_SAMPLES_MAX {
                thread::park_timeout(self.interval());
                continue;
            }
            notifier.sleep_unless(|| self.take_last_turn(Instant::now()));
            idle_samples = 0;
        }
    }

    /// Does what is due. Returns `true` if a worker is awake, and the time of the next request to
    /// trim stacks.
    pub(crate) fn take_turn(&mut self, now: Instant) -> (bool, Option<Instant>) {
        let shared = Arc::clone(&self.shared);
        let is_awake = self.sample(now);
        shared.spares.prepare();
        self.probes.send(&shared, now);
        self.follow_tools(now);
        (is_awake, self.trims.request(&shared, now))
    }

    /// Makes the workers record what they do while a tool wants it.
    fn follow_tools(&mut self, now: Instant) {
        let is_traced = debugger::is_traced(now);
        if mem::replace(&mut self.traces, is_traced) != is_traced {
            for index in 0..self.shared.workers() {
                self.shared.remote(index).mail(Mail::Trace(is_traced));
            }
        }
    }

    /// Does what is due before a sleep. If nothing is to come, looks for a deadlock.
    fn take_last_turn(&mut self, now: Instant) -> (bool, Option<Instant>) {
        match self.take_turn(now) {
            (false, None) => (false, self.deadlocks.look(&self.shared, now)),
            turn => turn,
        }
    }

    fn interval(&self) -> Duration {
        let of_delays = self.config.delay_interval.unwrap_or(Duration::MAX);
        self.interval_of_samples().min(of_delays)
    }

    fn interval_of_samples(&self) -> Duration {
        match self.config.threshold {
            _ if self.shared.spares.may_be() => self
                .wait
                .clamp(INTERVAL_WITH_SPARES, INTERVAL_WITH_SPARES_MAX),
            Some(threshold) if !self.shared.has_other_threads() => {
                (threshold / SAMPLES_PER_THRESHOLD).max(INTERVAL_MIN)
            }
            Some(threshold) => {
                (threshold / SAMPLES_PER_THRESHOLD).clamp(INTERVAL_MIN, INTERVAL_MAX)
            }
            None => INTERVAL_MAX,
        }
    }

    /// Samples each worker. Returns `true` if one is awake.
    fn sample(&mut self, now: Instant) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut awake = false;
        let mut all_stall_since = Some(Duration::MAX);
        let mut shortest = Duration::MAX;
        let hooks_run = hooks::is_running();
        for index in 0..shared.workers() {
            let remote = shared.remote(index);
            let switches = remote.counters.switches.get();
            let runs = remote.sleeper.is_awake() && remote.counters.running.get() != 0;
            let is_awake = remote.is_awake();
            awake |= is_awake;
            remote.history.record(&remote.counters, now);
            let is_timed = is_awake && shared.spares.may_be();
            let fresh = || Sample {
                switches,
                since: now,
                cpu_time: is_timed.then(|| remote.cpu_time()).flatten(),
                look_after: ALONE_TIME,
                report_after: self.config.threshold.unwrap_or(Duration::MAX),
                is_counted: false,
            };
            if self.samples.len() == index {
                self.samples.push(fresh());
            }
            let sample = &mut self.samples[index];
            if !runs || sample.switches != switches {
                let before = mem::replace(sample, fresh());
                if is_awake {
                    shortest = shortest.min(sample.wait_since(&before, remote.fibers_in_turn()));
                }
                if shared.is_active(index) {
                    all_stall_since = None;
                }
                continue;
            }
            shortest = Duration::ZERO;
            let duration = now.saturating_duration_since(sample.since);
            if !duration.is_zero() {
                shared.relieve(index, duration, sample.cpu_time);
            }
            if duration >= sample.look_after {
                sample.look_after = duration + ALONE_TIME;
                shared.relieve_if_locked(index);
            }
            if hooks_run && let Some(threshold) = self.config.threshold {
                sample.report_after = sample.report_after.max(duration.saturating_add(threshold));
            }
            all_stall_since = all_stall_since.map(|since| since.min(duration));
            if duration >= sample.report_after && shared.others_wait_for(remote) {
                self.record_stall(index, duration);
            }
        }
        self.wait = if awake { shortest } else { Duration::ZERO };
        if let (Some(threshold), Some(duration)) = (self.config.threshold, all_stall_since)
            && duration >= threshold.saturating_mul(UNSTARTED_THRESHOLDS)
            && shared.has_unstarted()
        {
            for index in 0..shared.workers() {
                let Sample {
                    since,
                    report_after,
                    ..
                } = self.samples[index];
                let duration = now.saturating_duration_since(since);
                if duration >= report_after {
                    self.record_stall(index, duration);
                }
            }
        }
        awake
    }

    fn record_stall(&mut self, index: usize, duration: Duration) {
        let shared = Arc::clone(&self.shared);
        let remote = shared.remote(index);
        let sample = &mut self.samples[index];
        let look = || remote.task.load().and_then(|task| task.blocked());
        let Some(observed) = Observation::observe(&remote.counters, sample.switches, look) else {
            return;
        };
        sample.report_after = duration.saturating_mul(2);
        if !mem::replace(&mut sample.is_counted, true) {
            remote.counters.stalls.add(1);
        }
        #[cfg(feature = "backtrace")]
        let backtrace = (remote.task.load().zip(observed.blocked))
            .and_then(|(task, blocked)| StallBacktrace::capture(task, blocked))
            .filter(|_| observed.is_unchanged(&remote.counters));
        self.report(&Stall {
            worker: index,
            fiber: observed.fiber,
            name: shared.name_of(observed.fiber),
            spawn_site: observed.spawn_site,
            duration,
            cause: match observed.blocked {
                None => StallCause::Runs,
                Some(Blocked::Futex) => StallCause::WaitsForLock,
                Some(Blocked::Other(_)) => StallCause::WaitsInKernel,
            },
            system_call: match observed.blocked {
                None => None,
                Some(Blocked::Futex) => Some("futex"),
                Some(Blocked::Other(call)) => call,
            },
            #[cfg(feature = "backtrace")]
            backtrace,
            has_own_tls: shared.has_own_tls(),
        });
    }

    fn report(&mut self, stall: &Stall) {
        match &self.config.report {
            // A panic of the report must not end the monitor.
            Some(report) => drop(panic::catch_unwind(AssertUnwindSafe(|| report(stall)))),
            None => self.print(stall),
        }
    }

    fn print(&mut self, stall: &Stall) {
        if self
            .last_line
            .is_some_and(|last| last.elapsed() < LINE_INTERVAL)
        {
            self.lines_suppressed += 1;
            return;
        }
        self.last_line = Some(Instant::now());
        let text = match mem::take(&mut self.lines_suppressed) {
            0 => format!("uthread: {stall}\n"),
            count => format!("uthread: {stall} ({count} more such stalls since the last line)\n"),
        };
        #[cfg(feature = "backtrace")]
        let text = match &stall.backtrace {
            Some(backtrace) => format!("{text}{backtrace}\n"),
            None => text,
        };
        standard_error::print(format_args!("{text}"));
    }
}

/// Calls `run` until it returns. After a panic it continues, as workers rely on the monitor.
fn restart_after_panics(mut run: impl FnMut()) {
    while panic::catch_unwind(AssertUnwindSafe(&mut run)).is_err() {
        standard_error::print(format_args!(
            "uthread: the monitor has failed, and starts again: please report the message above\n"
        ));
        // A stop of the monitor ends the pause.
        thread::park_timeout(RESTART_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_what_is_not_done_yet() {
        let mut stall = Stall {
            worker: 0,
            fiber: 64,
            name: None,
            spawn_site: Location::caller(),
            duration: Duration::from_millis(100),
            cause: StallCause::WaitsInKernel,
            system_call: Some("poll"),
            #[cfg(feature = "backtrace")]
            backtrace: None,
            has_own_tls: false,
        };
        assert!(stall.to_string().ends_with("without lean fibers"));
        stall.has_own_tls = true;
        assert!(!stall.to_string().contains("lean"));
    }

    #[test]
    fn a_ready_fiber_waits_for_those_before_it() {
        let sample = |switches, cpu_us: Option<u64>| Sample {
            switches,
            since: Instant::now(),
            cpu_time: cpu_us.map(Duration::from_micros),
            look_after: ALONE_TIME,
            report_after: Duration::MAX,
            is_counted: false,
        };
        let earlier = sample(7, Some(1_000));
        let wait = |switches, cpu_us, ready| {
            let wait = sample(switches, cpu_us).wait_since(&earlier, ready);
            wait.as_micros()
        };
        assert_eq!(wait(27, Some(1_500), 64), 1_600);
        assert_eq!(wait(27, Some(1_500), 0), 0);
        // It has not run, or slept meanwhile, or another thread runs it.
        for (switches, cpu_us) in [(7, Some(1_500)), (27, None), (27, Some(900))] {
            assert_eq!(wait(switches, cpu_us, 64), 0);
        }
    }

    #[test]
    fn a_monitor_that_panics_starts_again() {
        let mut runs = 0;
        restart_after_panics(|| {
            runs += 1;
            thread::current().unpark();
            assert!(runs > 2, "on purpose");
        });
        assert_eq!(runs, 3);
    }
}

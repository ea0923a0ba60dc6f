//! Time by the names of `std::time`, and what happens again and again; single waits are in
//! [`thread`](crate::thread).

use std::panic;

pub use std::time::*;

pub use crate::fiber::Elapsed;
use crate::sched::wait;

/// Runs `f` with a deadline: `duration` from now, or the caller's own if that is earlier.
///
/// From then on the calls of `f` that wait, and all later ones, return `ETIMEDOUT`, so that `?` leads out of
/// it; a call without an error unwinds up to here. Fibers of a [`scope`](crate::scope) have the deadline of
/// whoever spawns them, others have none. What is in a [`shield`](crate::thread::shield) goes on to its
/// end. The kernel has let go of what it was lent before a call returns, as always.
///
/// # Errors
///
/// [`Elapsed`] if `f` was unwound. Where it returns by itself its value is kept, however late, so that nothing is
/// lost: look there for `TimedOut`, or write `timeout(..)??`.
///
/// ```
/// use std::io::{self, Read};
/// use std::time::Duration;
/// use uthread::net::{TcpListener, TcpStream};
/// use uthread::{sleep, timeout};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut silent = TcpStream::connect(listener.local_addr()?)?;
/// let answer = timeout(Duration::from_millis(10), || silent.read(&mut [0; 16]));
/// assert_eq!(answer.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
///
/// let slept = timeout(Duration::from_millis(10), || sleep(Duration::from_secs(3600)));
/// assert!(slept.is_err());
/// # Ok::<(), io::Error>(())
/// ```
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    deadline(wait::after(wait::now(), duration), f)
}

/// The same until `instant`.
///
/// # Errors
///
/// As [`timeout`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use uthread::time::deadline;
///
/// let end = Instant::now() + Duration::from_millis(10);
/// let pieces = deadline(end, || (0..).map(|_| uthread::sleep(Duration::from_millis(3))).count());
/// assert!(pieces.is_err() && Instant::now() >= end);
/// ```
pub fn deadline<T>(instant: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let within = wait::Within::enter(|limits| limits.enter_deadline(instant));
    let result = wait::catch_unwind(f);
    drop(within);
    match result {
        Ok(value) => Ok(value),
        // Unless it was an outer one's time, which is over here too.
        Err(payload) if payload.is::<Elapsed>() && !wait::is_cancelled() => Err(Elapsed),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// An event every `period`, the first one a period from now.
///
/// # Panics
///
/// When the period is zero.
///
/// ```
/// use uthread::time::{Duration, Instant, interval};
///
/// let start = Instant::now();
/// let period = Duration::from_millis(2);
/// for (tick, due) in interval(period).take(3).enumerate() {
///     assert!(due >= start + period * (tick as u32 + 1));
/// }
/// assert!(start.elapsed() >= 3 * period);
/// ```
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of no length never waits");
    Interval {
        last: wait::now(),
        period,
    }
}

/// An endless iterator that waits; see the example of [`interval`].
///
/// Each item is the time for which the event was due. They are multiples of the period apart, however late
/// each was noticed; those that have passed meanwhile are left out.
#[derive(Debug, Clone)]
pub struct Interval {
    last: Instant,
    period: Duration,
}

impl Iterator for Interval {
    type Item = Instant;

    /// Waits for the next event. As any call without an error, it unwinds a fiber whose runtime is dropped.
    fn next(&mut self) -> Option<Instant> {
        self.take_due(wait::now());
        let next = self.following();
        wait::sleep_until(next);
        self.last = next;
        Some(next)
    }
}

impl Interval {
    /// Takes the last of the events that were due by `now` and not taken, if there is one.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Instant> {
        let late = now.saturating_duration_since(self.last);
        let since_due = Duration::from_nanos_u128(late.as_nanos() % self.period.as_nanos());
        self.last += late - since_due;
        (late >= self.period).then_some(self.last)
    }

    /// The event after the one taken last.
    pub(crate) fn following(&self) -> Instant {
        wait::after(self.last, self.period)
    }
}

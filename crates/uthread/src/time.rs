//! Time, with the names of `std::time`, and deadlines and intervals. The functions that wait for a
//! time are in [`thread`](crate::thread).

use std::panic;

pub use std::time::*;

pub use crate::fiber::Elapsed;
use crate::sched::caller::{self, cancellation, panics, turn, wait};

/// Runs `f` with a deadline, which is `duration` from now or the caller's current deadline if that
/// is earlier.
///
/// After the deadline, calls of `f` that wait return `ETIMEDOUT`, so that `?` leads out of `f`. A
/// call that cannot return an error unwinds up to this function. Fibers of a
/// [`scope`](crate::scope) inherit the deadline from the fiber that spawns them; other fibers do
/// not. Code in a [`shield`](crate::thread::shield) runs to its end. As always, a call returns only
/// after the kernel has released the buffers it was lent.
///
/// # Errors
///
/// [`Elapsed`] if `f` was unwound. If `f` returns, its value is returned however late it is, so
/// that no result is lost: check it for `TimedOut`, or call [`try_timeout`].
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
    deadline(caller::after(caller::now(), duration), f)
}

/// Runs `f`, which may fail, with a deadline like [`timeout`], and returns the one error.
///
/// # Errors
///
/// The error of `f`; [`Elapsed`], converted, if `f` was unwound: of [`io::Error`](std::io::Error),
/// that is `TimedOut`, which calls of `f` that wait return as well.
///
/// ```
/// use std::io::{self, ErrorKind, Read};
/// use std::time::Duration;
/// use uthread::net::{TcpListener, TcpStream};
/// use uthread::sync::mpsc;
/// use uthread::time::try_timeout;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut silent = TcpStream::connect(listener.local_addr()?)?;
/// let (_sender, receiver) = mpsc::channel::<()>();
/// let soon = Duration::from_millis(10);
/// let read = try_timeout(soon, || silent.read(&mut [0; 16]));
/// assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
/// let received = try_timeout(soon, || receiver.recv().map_err(io::Error::other));
/// assert_eq!(received.unwrap_err().kind(), ErrorKind::TimedOut);
/// # Ok::<(), io::Error>(())
/// ```
pub fn try_timeout<T, E: From<Elapsed>>(
    duration: Duration,
    f: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    timeout(duration, f)?
}

/// Runs `f` with a deadline, which is `instant` or the caller's current deadline if that is
/// earlier. See [`timeout`].
///
/// # Errors
///
/// [`Elapsed`] if `f` was unwound. If `f` returns, its value is returned however late it is.
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
    turn::spend_try();
    let within = cancellation::Within::enter(|limits| limits.enter_deadline(instant));
    let result = panics::catch_unwind(f);
    drop(within);
    match result {
        Ok(value) => Ok(value),
        // If the caller's own deadline has passed as well, the unwinding continues.
        Err(payload) if payload.is::<Elapsed>() && !cancellation::is_cancelled() => Err(Elapsed),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Returns the time that is left until the caller's deadline, zero if it has passed, or `None` if there is
/// none.
///
/// ```
/// use std::time::Duration;
/// use uthread::time::remaining;
///
/// assert_eq!(remaining(), None);
/// let minute = Duration::from_secs(60);
/// let left = uthread::run(|| uthread::timeout(minute, remaining));
/// assert!(left.unwrap().is_some_and(|left| left <= minute));
/// ```
#[must_use]
pub fn remaining() -> Option<Duration> {
    let deadline = cancellation::deadline()?;
    Some(deadline.saturating_duration_since(caller::now()))
}

/// Creates an iterator that waits for an event every `period`, the first one `period` from now.
///
/// # Panics
///
/// Panics if `period` is zero.
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
    assert!(
        !period.is_zero(),
        "the period of an interval must not be zero"
    );
    Interval {
        last: caller::now(),
        period,
    }
}

/// An endless iterator that waits for periodic events. See the example of [`interval`].
///
/// Each item is the time at which the event was due. These times are multiples of the period apart,
/// however late each event was received. Events that have become overdue meanwhile are skipped,
/// except for the last one.
#[derive(Debug, Clone)]
pub struct Interval {
    last: Instant,
    period: Duration,
}

impl Iterator for Interval {
    type Item = Instant;

    /// Waits for the next event. If the fiber is cancelled, it is unwound, as by every call that
    /// cannot return an error.
    fn next(&mut self) -> Option<Instant> {
        self.take_due(caller::now());
        let next = self.following();
        wait::sleep_until(next);
        self.last = next;
        Some(next)
    }
}

impl Interval {
    /// Makes the next event due a period from now, whatever was due before.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let period = Duration::from_millis(20);
    /// let mut ticks = uthread::time::interval(period);
    /// uthread::sleep(Duration::from_millis(10));
    /// let reset = Instant::now();
    /// ticks.reset();
    /// assert!(ticks.next().unwrap() >= reset + period);
    /// ```
    pub fn reset(&mut self) {
        self.last = caller::now();
    }

    /// Takes the last event that was due by `now` and not taken yet, if there is one.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Instant> {
        let late = now.saturating_duration_since(self.last);
        // At most `late`: no clock runs for the 584 years that fit.
        let since_due = Duration::from_nanos((late.as_nanos() % self.period.as_nanos()) as u64);
        self.last += late - since_due;
        (late >= self.period).then_some(self.last)
    }

    /// Returns the time of the event after the one taken last.
    pub(crate) fn following(&self) -> Instant {
        caller::after(self.last, self.period)
    }
}

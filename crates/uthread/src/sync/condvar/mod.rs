//! A condition variable.

mod notices;

use std::fmt;
use std::mem;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

use super::mutex::MutexGuard;
use super::parking_lot::WaitEnd;
use crate::atomic::AtomicBool;
use crate::sched::wait;
use crate::sched::wait::Since;
use notices::Notices;

/// Waits for others to make a condition true, by the name of [`std::sync::Condvar`], between fibers and threads in
/// any mix: a fiber that waits is suspended, and its worker runs others.
///
/// ```
/// use uthread::sync::{Arc, Condvar, Mutex};
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let theirs = Arc::clone(&pair);
/// uthread::spawn(move || {
///     let (ready, changed) = &*theirs;
///     *ready.lock().unwrap() = true;
///     changed.notify_one();
/// });
/// let (ready, changed) = &*pair;
/// let mut guard = ready.lock().unwrap();
/// while !*guard {
///     guard = changed.wait(guard).unwrap();
/// }
/// ```
///
/// Those who wait are notified in the order in which they came. As with `std`'s, a wait may end without a
/// notification, so look at the condition again.
///
/// # Cancellation
///
/// Each wait is a point of cancellation: a fiber that is [cancelled](crate::thread::Cancelled) takes the mutex
/// again and is unwound. Whatever it still holds is poisoned by that, but not the mutex of this wait: nobody
/// relied on it meanwhile. A notification that has come just before is not lost: then the wait returns. In a
/// destructor, where unwinding is no way out, a wait of a cancelled fiber returns without a notification.
pub struct Condvar {
    notices: Notices,
}

/// Whether a wait has ended because its time was over; see the example of [`Condvar::wait_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it has.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::{Condvar, Mutex};
    ///
    /// let mutex = Mutex::new(());
    /// let guard = mutex.lock().unwrap();
    /// let (_guard, result) = Condvar::new().wait_timeout(guard, Duration::from_millis(1)).unwrap();
    /// assert!(result.timed_out());
    /// ```
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable that nobody waits for; see the example of [`Condvar`].
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar {
            notices: Notices::new(AtomicBool::new(false)),
        }
    }

    /// Lets the mutex go, waits for a notification, and locks the mutex again. There is an
    /// [example](Condvar) above.
    ///
    /// # Errors
    ///
    /// The guard all the same, if the mutex is poisoned by then.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(guard, None).0
    }

    /// Waits while `condition` is true.
    ///
    /// # Errors
    ///
    /// The guard all the same, if the mutex is poisoned by then.
    ///
    /// ```
    /// use uthread::sync::{Condvar, Mutex};
    ///
    /// let (left, changed) = (Mutex::new(3), Condvar::new());
    /// uthread::scope(|scope| {
    ///     for _ in 0..3 {
    ///         scope.spawn(|| {
    ///             *left.lock().unwrap() -= 1;
    ///             changed.notify_one();
    ///         });
    ///     }
    ///     let none = changed.wait_while(left.lock().unwrap(), |left| *left > 0).unwrap();
    ///     assert_eq!(*none, 0);
    /// });
    /// ```
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait_timeout`](Condvar::wait_timeout), with so many milliseconds; whether a notification came.
    ///
    /// # Errors
    ///
    /// The same.
    ///
    /// ```
    /// use uthread::sync::{Condvar, Mutex};
    ///
    /// let mutex = Mutex::new(());
    /// let guard = mutex.lock().unwrap();
    /// # #[allow(deprecated)]
    /// let (_guard, was_notified) = Condvar::new().wait_timeout_ms(guard, 1).unwrap();
    /// assert!(!was_notified);
    /// ```
    #[deprecated(note = "replaced by `wait_timeout`, as in `std`")]
    pub fn wait_timeout_ms<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        milliseconds: u32,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let timeout = Duration::from_millis(milliseconds.into());
        match self.wait_timeout(guard, timeout) {
            Ok((guard, result)) => Ok((guard, !result.timed_out())),
            Err(poisoned) => {
                let (guard, result) = poisoned.into_inner();
                Err(PoisonError::new((guard, !result.timed_out())))
            }
        }
    }

    /// Lets the mutex go, waits for a notification, for at most so long, and locks the mutex again, which
    /// may take longer.
    ///
    /// # Errors
    ///
    /// The guard and the result all the same, if the mutex is poisoned by then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::{Condvar, Mutex};
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let guard = ready.lock().unwrap();
    /// let (guard, result) = changed.wait_timeout(guard, Duration::from_millis(1)).unwrap();
    /// assert!(!*guard && result.timed_out());
    /// ```
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let deadline = wait::after(wait::now(), timeout);
        let (guard, late) = self.wait_until(guard, Some(deadline));
        with_result(guard, late)
    }

    /// Waits while `condition` is true, for at most so long.
    ///
    /// # Errors
    ///
    /// The guard and the result all the same, if the mutex is poisoned by then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::{Condvar, Mutex};
    ///
    /// let (pending, changed) = (Mutex::new(true), Condvar::new());
    /// let guard = pending.lock().unwrap();
    /// let timeout = Duration::from_millis(1);
    /// let (_guard, result) = changed.wait_timeout_while(guard, timeout, |pending| *pending).unwrap();
    /// assert!(result.timed_out());
    /// ```
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let deadline = wait::after(wait::now(), timeout);
        let mut late = false;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if late || wait::now() >= deadline {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let result;
            (result, late) = self.wait_until(guard, Some(deadline));
            guard = with_result(result, late)?.0;
        }
    }

    /// Ends one wait, of whoever has waited longest.
    ///
    /// ```
    /// uthread::sync::Condvar::new().notify_one(); // Nobody waits.
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        self.notices.notify(1);
    }

    /// Ends the waits of all who wait now.
    ///
    /// ```
    /// uthread::sync::Condvar::new().notify_all(); // Nobody waits.
    /// ```
    #[inline]
    pub fn notify_all(&self) {
        self.notices.notify(usize::MAX);
    }

    /// Waits until the deadline, if there is one; whether it has passed, or the caller is cancelled.
    fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (LockResult<MutexGuard<'a, T>>, bool) {
        let ended = self.notices.wait(MutexGuard::lock(&guard), deadline);
        if ended == WaitEnd::Cancelled {
            if wait::is_abandoned() {
                // Others may use the mutex on.
                drop(guard);
                wait::vanish_if_abandoned("it waits for a condition");
                unreachable!("it is abandoned");
            }
            let since = mem::replace(MutexGuard::since(&mut guard), Since::never());
            match deadline {
                None => wait::unwind_if_cancelled(),
                Some(_) => wait::count_early_end(),
            }
            *MutexGuard::since(&mut guard) = since;
        }
        (
            MutexGuard::judge(guard),
            deadline.is_some() && ended != WaitEnd::Dequeued,
        )
    }
}

/// Both in one, poisoned if the guard is.
fn with_result<T>(
    guard: LockResult<MutexGuard<'_, T>>,
    late: bool,
) -> LockResult<(MutexGuard<'_, T>, WaitTimeoutResult)> {
    match guard {
        Ok(guard) => Ok((guard, WaitTimeoutResult(late))),
        Err(poisoned) => {
            let guard = poisoned.into_inner();
            Err(PoisonError::new((guard, WaitTimeoutResult(late))))
        }
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Condvar").finish_non_exhaustive()
    }
}

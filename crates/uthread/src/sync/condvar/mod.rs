//! A condition variable.

mod notices;

use std::fmt;
use std::mem;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

use super::mutex::MutexGuard;
use super::parking_lot::WaitEnd;
use crate::atomic::AtomicBool;
use crate::sched::caller::panics::Since;
use crate::sched::caller::{self, cancellation, turn};
use notices::Notices;

/// A condition variable for fibers and threads in any combination; the counterpart of
/// [`std::sync::Condvar`]. A waiting fiber is suspended, and its worker runs other fibers.
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
/// Waiters are notified in the order in which they arrived. As in `std`, a wait may end without a
/// notification, so check the condition again.
///
/// # Cancellation
///
/// Each wait is a cancellation point: a [cancelled](crate::thread::Cancelled) fiber acquires the
/// mutex again and is unwound. This poisons other locks that the fiber holds, but not the mutex of
/// the wait, as the fiber did not rely on it while it waited. A notification that arrived just
/// before is not lost: in that case the wait returns. In a destructor, where the fiber cannot be
/// unwound, the wait returns without a notification.
pub struct Condvar {
    notices: Notices,
}

/// The result of a wait with a timeout. See the example of [`Condvar::wait_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns `true` if the wait ended because the timeout elapsed.
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
    /// Creates a condition variable. See the example of [`Condvar`].
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar {
            notices: Notices::new(AtomicBool::new(false)),
        }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again. See the
    /// [example](Condvar) above.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard if the mutex is poisoned when it is locked again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(guard, None).0
    }

    /// Waits while `condition` returns `true`.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard if the mutex is poisoned when it is locked again.
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

    /// Unlocks the mutex, waits for a notification at most for `ms` milliseconds, and locks the
    /// mutex again. Returns `false` if the time elapsed. Deprecated in `std`: use
    /// [`wait_timeout`](Condvar::wait_timeout).
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard and the result if the mutex is poisoned when it is locked
    /// again.
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

    /// Unlocks the mutex, waits for a notification at most for the given time, and locks the mutex
    /// again. Locking may take longer than the timeout.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard and the result if the mutex is poisoned when it is locked
    /// again.
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
        let deadline = caller::after(caller::now(), timeout);
        let (guard, late) = self.wait_until(guard, Some(deadline));
        with_result(guard, late)
    }

    /// Waits while `condition` returns `true`, at most for the given time.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard and the result if the mutex is poisoned when it is locked
    /// again.
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
        let deadline = caller::after(caller::now(), timeout);
        let mut late = false;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if late || caller::now() >= deadline {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let result;
            (result, late) = self.wait_until(guard, Some(deadline));
            guard = with_result(result, late)?.0;
        }
    }

    /// Notifies the waiter that has waited longest, if there is one.
    ///
    /// ```
    /// uthread::sync::Condvar::new().notify_one(); // Nobody waits.
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        self.notices.notify(1);
        turn::spend_try();
    }

    /// Notifies all current waiters.
    ///
    /// ```
    /// uthread::sync::Condvar::new().notify_all(); // Nobody waits.
    /// ```
    #[inline]
    pub fn notify_all(&self) {
        self.notices.notify(usize::MAX);
        turn::spend_try();
    }

    /// Waits for a notification until the deadline, if there is one. The result is `true` if the
    /// deadline has passed or the caller is cancelled.
    fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (LockResult<MutexGuard<'a, T>>, bool) {
        let ended = self.notices.wait(MutexGuard::lock(&guard), deadline);
        if ended == WaitEnd::Cancelled {
            if cancellation::is_abandoned() {
                // Unlocks the mutex.
                drop(guard);
                cancellation::vanish_if_abandoned("it waits for a condition");
                unreachable!("the fiber is abandoned");
            }
            let since = mem::replace(MutexGuard::since(&mut guard), Since::never());
            match deadline {
                None => cancellation::unwind_if_cancelled(),
                Some(_) => cancellation::count_early_end(),
            }
            *MutexGuard::since(&mut guard) = since;
        }
        (
            MutexGuard::judge(guard),
            deadline.is_some() && ended != WaitEnd::Dequeued,
        )
    }
}

/// Combines the guard and the result, as an error if the mutex is poisoned.
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

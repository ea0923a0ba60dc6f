//! The handle that joins a fiber.

use std::time::Duration;
use std::{fmt, mem};

use super::{Result, Thread};
use crate::fiber::{self, Joinable, WakeHandle};
use crate::sched::caller::wait::Awaiting;
use crate::sched::caller::{self, cancellation, panics, turn, wait};
use crate::sched::features::thread_ends;
use crate::sched::threads::handles;
use crate::sync::selection::{ArmHandle, Joins};

/// A handle to wait for a fiber and take its result. Dropping it detaches the fiber. See the
/// example of [`join`](JoinHandle::join).
pub struct JoinHandle<T> {
    /// `None` once its result was taken.
    fiber: Option<Joinable<T>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("id", &self.joinable().fiber().control().id())
            .field("name", &self.joinable().fiber().control().name())
            .field("is_finished", &self.joinable().outcome().is_done())
            .finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(fiber: Joinable<T>) -> JoinHandle<T> {
        JoinHandle { fiber: Some(fiber) }
    }

    fn joinable(&self) -> &Joinable<T> {
        self.fiber.as_ref().expect("only joining takes the fiber")
    }

    /// Returns the identity of the fiber, which has its name and can unpark it.
    ///
    /// ```
    /// let parked = uthread::spawn(uthread::thread::park);
    /// parked.thread().unpark();
    /// parked.join().unwrap();
    /// ```
    #[must_use]
    pub fn thread(&self) -> &Thread {
        Thread::of(self.joinable().wake_handle())
    }

    /// Waits for the fiber to end and returns its result.
    ///
    /// # Errors
    ///
    /// The payload of the panic if the fiber panicked, as for [`std::thread::JoinHandle::join`];
    /// [`Cancelled`] if the fiber was ended by [`cancel`](JoinHandle::cancel) or because its
    /// runtime was dropped.
    ///
    /// [`Cancelled`]: super::Cancelled
    ///
    /// ```
    /// assert_eq!(uthread::spawn(|| 6 * 7).join().unwrap(), 42);
    /// let payload = uthread::spawn(|| panic!("on purpose")).join().unwrap_err();
    /// assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
    /// ```
    pub fn join(self) -> Result<T> {
        if !self.joinable().outcome().is_done() {
            self.await_outcome();
        }
        self.take()
    }

    /// Waits for the fiber to end, at most for `timeout`, and returns its result like
    /// [`join`](JoinHandle::join).
    ///
    /// To wait for a fiber or for other events, lend the handle to [`select!`](crate::select):
    /// `ended(&mut handle)`.
    ///
    /// # Errors
    ///
    /// The handle if the fiber has not ended in that time, or if the caller is cancelled.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let sleeping = uthread::spawn(|| uthread::sleep(Duration::from_secs(3600)));
    /// let Err(sleeping) = sleeping.join_timeout(Duration::from_millis(1)) else {
    ///     panic!("the fiber sleeps for an hour")
    /// };
    /// sleeping.cancel();
    /// assert!(sleeping.join_timeout(Duration::from_secs(60)).unwrap().is_err());
    /// ```
    pub fn join_timeout(self, timeout: Duration) -> std::result::Result<Result<T>, JoinHandle<T>> {
        let deadline = caller::after(caller::now(), timeout);
        if wait::await_outcome(self.joinable().outcome(), deadline) {
            Ok(self.take())
        } else {
            Err(self)
        }
    }

    #[inline(never)]
    fn await_outcome(&self) {
        let outcome = self.joinable().outcome();
        let (waiter, _shown) = self.waiter();
        if !outcome.await_done(waiter) {
            return;
        }
        while !outcome.is_done() {
            if wait::park_unless_cancelled() {
                continue;
            }
            // If the runtime shuts down, the joined fiber ends too.
            if !cancellation::is_shut_down() {
                cancellation::unwind_if_cancelled();
            }
            cancellation::vanish_if_abandoned("it joins a fiber that does not end");
            wait::park();
        }
    }

    /// Returns a handle that wakes the caller. Meanwhile it is shown to wait for the fiber's end.
    #[inline]
    fn waiter(&self) -> (WakeHandle, impl Drop + use<T>) {
        wait::handle_awaiting(Awaiting::End(self.joinable().fiber().control().id()))
    }

    /// Registers a waiter to be woken at the end. Returns `false` if the fiber has ended.
    pub(super) fn await_end_by(&self, waiter: WakeHandle) -> bool {
        self.joinable().outcome().await_done(waiter)
    }

    /// Waits until the fiber has ended, whatever happens, for a fiber that borrows from its joiner.
    /// If the caller is cancelled, the fiber is cancelled too.
    pub(crate) fn join_to_end(self) -> Result<T> {
        let outcome = self.joinable().outcome();
        if !outcome.is_done() {
            let (waiter, _shown) = self.waiter();
            if outcome.await_done(waiter) {
                wait::park_until_or_cancel(|| outcome.is_done(), || self.pass_on_cancel());
            }
        }
        self.take()
    }

    /// Waits until a fiber of another runtime has ended, whatever happens. The caller's runtime
    /// waits for it, too.
    pub(crate) fn join_elsewhere(self) -> Result<T> {
        let outcome = self.joinable().outcome();
        if !outcome.is_done() && outcome.await_done(caller::wake_handle()) {
            let _outside = wait::Outside::enter();
            wait::park_until_or_cancel_outside(|| outcome.is_done(), || self.pass_on_cancel());
        }
        self.take()
    }

    /// Returns the result of a fiber that has ended. With the threads driver, waits for its thread
    /// to end.
    fn take(mut self) -> Result<T> {
        thread_ends::await_end(|| self.joinable().fiber().control());
        let result = self.joinable().outcome().take();
        drop(self.fiber.take());
        // Nothing is left to drop, and nothing to detach.
        mem::forget(self);
        result
    }

    /// Cancels the fiber because its joiner is cancelled. Does nothing if the joiner is unwinding
    /// from a panic: without the value it could not continue and would have to be unwound again.
    fn pass_on_cancel(&self) {
        if !panics::is_panicking() {
            self.cancel();
        }
    }

    /// Requests the fiber to end.
    ///
    /// The call in which the fiber waits, and each later call that would wait, returns `ECANCELED`,
    /// so that `?` leads out of the fiber. If a call cannot return an error, the fiber is unwound
    /// from there, without a panic message. A fiber that has not started never runs. The fibers of
    /// its scopes are cancelled with it.
    ///
    /// `cancel` does not wait for the fiber to end; [`join`](JoinHandle::join) does. No result is
    /// lost: a call that has completed returns its result, and if the fiber returns a value, `join`
    /// returns it. Code in a [`shield`](super::shield) runs to its end, and so does a call on
    /// another thread ([`blocking`](super::blocking), or a file operation that only blocks).
    ///
    /// ```
    /// use std::io::{ErrorKind, Read};
    /// use uthread::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut silent = TcpStream::connect(listener.local_addr()?)?;
    /// let reader = uthread::spawn(move || silent.read(&mut [0; 16]));
    /// reader.cancel();
    /// match reader.join() {
    ///     Ok(read) => assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::ECANCELED)),
    ///     Err(payload) => assert!(payload.is::<uthread::thread::Cancelled>()), // It had not started.
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel(&self) {
        fiber::cancel(self.joinable().fiber());
    }

    /// Returns `true` if the fiber has ended, so that [`join`](JoinHandle::join) will not wait.
    ///
    /// ```
    /// let fiber = uthread::spawn(|| ());
    /// while !fiber.is_finished() {
    ///     uthread::yield_now();
    /// }
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let finished = self.joinable().outcome().is_done();
        if !finished {
            turn::spend_try();
        }
        finished
    }
}

impl<T> Joins for JoinHandle<T> {
    fn has_ended(&self) -> bool {
        self.joinable().outcome().is_done()
    }

    fn await_end(&self, waiter: ArmHandle) -> bool {
        self.await_end_by(waiter.wake_handle())
    }

    fn withdraw(&self) {
        self.joinable().outcome().withdraw();
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(fiber) = &self.fiber {
            handles::detach(|| fiber.fiber().control());
            fiber.outcome().detach();
        }
    }
}

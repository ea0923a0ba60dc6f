//! The handle that joins a fiber.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{Result, Thread};
use crate::fiber::{self, FiberRef, Joinable};
use crate::sched::{thread_ends, wait};

/// A handle to wait for a fiber and take its result; see the example of [`join`](JoinHandle::join). Dropping
/// it detaches the fiber.
pub struct JoinHandle<T> {
    fiber: Arc<dyn Joinable<T>>,
    /// Made when it is asked for: another count would cost each spawn.
    thread: OnceLock<Thread>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("id", &self.fiber.control().id())
            .field("name", &self.fiber.control().name())
            .field("is_finished", &self.fiber.outcome().is_done())
            .finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(fiber: Arc<dyn Joinable<T>>) -> JoinHandle<T> {
        JoinHandle {
            fiber,
            thread: OnceLock::new(),
        }
    }

    /// The fiber's identity, by which it is named and unparked.
    ///
    /// ```
    /// let parked = uthread::spawn(uthread::thread::park);
    /// parked.thread().unpark();
    /// parked.join().unwrap();
    /// ```
    #[must_use]
    pub fn thread(&self) -> &Thread {
        self.thread.get_or_init(|| {
            let fiber: FiberRef = Arc::clone(&self.fiber) as FiberRef;
            Thread::of(fiber)
        })
    }

    /// Waits for the fiber to end.
    ///
    /// # Errors
    ///
    /// The payload of the fiber's panic, as of [`std::thread::JoinHandle::join`]; [`Cancelled`] if
    /// it was [cancelled](JoinHandle::cancel), or its runtime dropped, before it could end by itself.
    ///
    /// [`Cancelled`]: super::Cancelled
    ///
    /// ```
    /// assert_eq!(uthread::spawn(|| 6 * 7).join().unwrap(), 42);
    /// let payload = uthread::spawn(|| panic!("on purpose")).join().unwrap_err();
    /// assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
    /// ```
    pub fn join(self) -> Result<T> {
        let outcome = self.fiber.outcome();
        if !outcome.is_done() && outcome.await_done(wait::wake_handle()) {
            while !outcome.is_done() {
                if wait::park_unless_cancelled() {
                    continue;
                }
                // With the runtime that fiber ends too.
                if !wait::is_shut_down() {
                    wait::unwind_if_cancelled();
                }
                wait::vanish_if_abandoned("it joins a fiber that does not end");
                wait::park();
            }
        }
        self.take()
    }

    /// The same where what the fiber borrows ends after it: returns when it has ended, in any case. With the
    /// caller, it is cancelled.
    pub(crate) fn join_to_end(self) -> Result<T> {
        let outcome = self.fiber.outcome();
        if !outcome.is_done() && outcome.await_done(wait::wake_handle()) {
            wait::park_until_or_cancel(|| outcome.is_done(), || self.pass_on_cancel());
        }
        self.take()
    }

    /// The same of a fiber of another runtime, which ends by itself: the caller's runtime waits for it, too.
    pub(crate) fn join_elsewhere(self) -> Result<T> {
        let outcome = self.fiber.outcome();
        if !outcome.is_done() && outcome.await_done(wait::wake_handle()) {
            let _outside = wait::Outside::enter();
            wait::park_until_or_cancel_outside(|| outcome.is_done(), || self.pass_on_cancel());
        }
        self.take()
    }

    /// The result of a fiber that has ended, once its thread has, if it was one.
    #[inline(always)]
    fn take(self) -> Result<T> {
        thread_ends::await_end(|| self.fiber.control().id());
        self.fiber.outcome().take()
    }

    /// Cancels the fiber as its joiner is, who needs the value: not where that one unwinds, as it could not be unwound for want of it.
    fn pass_on_cancel(&self) {
        if !wait::is_panicking() {
            self.cancel();
        }
    }

    /// Asks the fiber to end: the call in which it waits, and all later ones, return `ECANCELED`, so that
    /// `?` leads it out. Where a call has no error to return, it unwinds the fiber, without the message of
    /// a panic. A fiber that has not started never does.
    ///
    /// It does not wait for that: [`join`](JoinHandle::join) does. What the fiber has at that moment is not
    /// lost: a call whose result is there returns it, and a fiber that returns a value has it joined.
    /// The fibers of its scopes are cancelled with it. What is in a [`shield`](super::shield) goes on to its
    /// end, and so does a call on another thread ([`blocking`](super::blocking), or a file operation
    /// that only blocks).
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
    ///     Ok(read) => assert_eq!(read.unwrap_err().raw_os_error(), Some(125)), // ECANCELED
    ///     Err(payload) => assert!(payload.is::<uthread::thread::Cancelled>()), // It had not begun.
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel(&self) {
        let fiber: FiberRef = self.fiber.clone();
        fiber::cancel(&fiber);
    }

    /// Whether the fiber has ended, so that [`join`](JoinHandle::join) will not wait.
    ///
    /// ```
    /// let fiber = uthread::spawn(|| ());
    /// while !fiber.is_finished() {
    ///     uthread::yield_now();
    /// }
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let finished = self.fiber.outcome().is_done();
        if !finished {
            wait::spend_try();
        }
        finished
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        thread_ends::detach(|| self.fiber.control().id());
        self.fiber.outcome().detach();
    }
}

//! Waiting for a future.
//!
//! ```text
//!   caller   poll the future -> pending -> woken? -> poll again
//!                                          else   -> suspend until a waker wakes it
//!   waker    set `woken`; the first one since the last poll wakes the caller
//! ```
//!
//! The wake-up of a fiber is not that of [`unpark`](super::Thread::unpark), so that a future takes
//! no token from code that parks. Threads outside a runtime have one token for both.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, turn, wait};

struct Signal {
    woken: AtomicBool,
    caller: WakeHandle,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: what was done before the wake-up happens before the next poll.
        if !self.woken.swap(true, Ordering::Release) {
            self.caller.wake();
        }
    }
}

/// Runs a future to its end on the calling fiber, and returns its output. The worker runs other
/// fibers while the future waits.
///
/// The function drives the future but no reactor: a future of Tokio's sockets or timers needs a
/// Tokio runtime, which may run beside in threads of its own. [Using async
/// crates](crate::guide::async_crates) shows how.
///
/// Calls may be nested, and outside a runtime the function blocks the thread. A future that wakes
/// itself and returns, as to yield, lets other fibers run. If the caller is cancelled or its
/// deadline passes while the future waits, the caller is unwound and the future is dropped; in a
/// [`shield`](crate::shield) and in a destructor during unwinding it waits. [`try_block_on`]
/// returns an error instead.
///
/// # Panics
///
/// Panics if the future panics.
///
/// ```
/// use std::time::Duration;
/// use uthread::{block_on, timeout};
///
/// let (sender, receiver) = futures_channel::oneshot::channel();
/// uthread::spawn(move || sender.send("from another fiber"));
/// assert_eq!(block_on(receiver), Ok("from another fiber"));
///
/// let endless = timeout(Duration::from_millis(10), || block_on(std::future::pending::<()>()));
/// assert!(endless.is_err());
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let unwind = || {
        cancellation::unwind_if_cancelled();
        Ok::<(), Infallible>(())
    };
    let Ok(output) = drive(future.into_future(), unwind);
    output
}

/// Runs a future to its end like [`block_on`], and returns an error if the caller may not wait. Use
/// it in a function that returns errors anyway, such as an implementation of
/// [`Read`](std::io::Read).
///
/// A caller that is already cancelled or late gets the error before the future is polled. The
/// future is dropped with the call; to go on with it later, pass a reference:
/// `try_block_on(&mut future)`.
///
/// # Errors
///
/// `ECANCELED` if the caller is cancelled; `TimedOut` (`ETIMEDOUT`) if its deadline passes.
///
/// # Panics
///
/// Panics if the future panics.
///
/// ```
/// use std::io::ErrorKind;
/// use std::time::Duration;
/// use uthread::thread::try_block_on;
///
/// let (sender, mut receiver) = futures_channel::oneshot::channel();
/// let late = uthread::timeout(Duration::from_millis(10), || {
///     try_block_on(&mut receiver).unwrap_err().kind()
/// });
/// assert_eq!(late, Ok(ErrorKind::TimedOut));
/// sender.send(7).unwrap();
/// assert_eq!(try_block_on(receiver)?, Ok(7));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn try_block_on<F: IntoFuture>(future: F) -> io::Result<F::Output> {
    turn::begin_call()?;
    drive(future.into_future(), cancellation::refuse_if_cancelled)
}

/// Polls a future until it is ready. Calls `refuse` if the caller may not wait, and waits all the
/// same if that returns.
fn drive<F: Future, E>(future: F, refuse: impl Fn() -> Result<(), E>) -> Result<F::Output, E> {
    let signal = Arc::new(Signal {
        woken: AtomicBool::new(false),
        caller: caller::wake_handle(),
    });
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        if signal.take() {
            // The future was woken while it was polled, perhaps by itself.
            refuse()?;
            turn::pass();
        } else {
            signal.wait(&refuse)?;
        }
    }
}

impl Signal {
    fn take(&self) -> bool {
        // Acquire: pairs with the store of the waker.
        self.woken.swap(false, Ordering::Acquire)
    }

    fn wait<E>(&self, refuse: &impl Fn() -> Result<(), E>) -> Result<(), E> {
        while !self.take() {
            if !wait::park_unless_cancelled() {
                refuse()?;
                // The caller cannot be unwound.
                wait::park();
            }
        }
        Ok(())
    }
}

//! Drivers: what carries operations to the kernel.
//!
//! A [`Driver`] serves one worker and knows neither fibers nor who waits: it is given operations with
//! a token each and gives back tokens with results. It is made on the worker's thread, by step-down
//! where the kernel lacks something, and dropping it returns when the kernel holds nothing of its own.
//!
//! [`uring`] is the driver of workers. [`native`] carries out a single operation as an ordinary
//! blocking system call, for callers outside the runtime; [`page_cache`] tells whether one on a file
//! would wait for the disk. `sim` lets a seed decide, in tests.

pub(crate) mod native;
pub(crate) mod page_cache;
#[cfg(test)]
pub(crate) mod sim;
pub(crate) mod uring;

pub(crate) use uring::Uring;

use std::io;
use std::time::{Duration, Instant};

use crate::op::Operation;

/// What every driver does for its worker.
pub(crate) trait Driver {
    /// What was set up, for people.
    fn description(&self) -> String;

    /// A handle by which any thread ends the present [`wait`](Driver::wait), or the next.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
    fn waker(&self) -> io::Result<Box<dyn Wake>>;

    /// Takes an operation; its completion will carry `token`. It may reach the kernel as late as the
    /// next flush or wait.
    ///
    /// # Safety
    ///
    /// All that the operation borrows stays alive and, where it is borrowed mutably, untouched
    /// until that completion was reaped; so does the operation itself.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn submit(&mut self, operation: &mut Operation<'_>, token: Token);

    /// Asks for the end of an operation. Its completion still comes, cancelled or not.
    fn cancel(&mut self, target: Token);

    /// Passes on what gathered and collects what is done, without sleeping. Does nothing when there is
    /// nothing of either.
    fn flush(&mut self);

    /// The same, and sleeps until a completion, a wake-up or the timeout.
    fn wait(&mut self, timeout: Option<Duration>);

    /// Hands out the completions there are.
    fn reap(&mut self, complete: &mut dyn FnMut(Token, i32));

    /// What it has done so far.
    fn counts(&self) -> Counts;

    /// The time by the clock that its waits go by.
    fn now(&self) -> Instant;
}

/// Ends a worker's wait from any thread.
pub(crate) trait Wake: Send + Sync {
    /// Ends the worker's present wait, or its next.
    fn wake(&self);
}

/// What a driver has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// System calls.
    pub(crate) enters: u64,
    /// Operations handed to the kernel.
    pub(crate) submissions: u64,
    /// Operations that ended.
    pub(crate) completions: u64,
}

/// Names an operation between submission and completion. Chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    /// Tokens at and above this are the driver's own.
    pub(crate) const RESERVED: u64 = u64::MAX - 15;
}

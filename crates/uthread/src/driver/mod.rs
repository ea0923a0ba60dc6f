//! Drivers carry operations to the kernel.
//!
//! A driver serves one worker and knows neither fibers nor waiters: it is given operations, each
//! with a token, and returns tokens with results, one per operation except for multishot
//! operations. It is created on the worker's thread, and falls back step by step if the kernel
//! lacks features. Only its worker uses it, from one thread at a time; other threads have its
//! [waker](Driver::waker).
//!
//! [`uring`] submits operations to a ring. [`epoll`] makes the system calls itself once they need
//! not wait. [`native`] performs a single operation as an ordinary blocking system call, for
//! callers outside the runtime and for fibers that are threads. [`page_cache`] detects whether a
//! call on a file would wait for the disk. In tests, `sim` lets a seed decide. An epoll instance,
//! with its [`events`] and its [`interest_table`], serves both `epoll` and `uring`, and
//! [`send_batcher`] decides in both which sends wait for others. [`virtual_time`] lets time stand still
//! while fibers run on one of the two.

pub(crate) mod eventfd;

pub(crate) mod epoll;
mod events;
mod interest_table;
pub(crate) mod native;
pub(crate) mod page_cache;
mod readiness;
mod send_batcher;
#[cfg(test)]
pub(crate) mod sim;
mod token_map;
pub(crate) mod uring;
pub(crate) mod virtual_time;

pub(crate) mod feature;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::op::{Awaited, CallResult, Operation};
use crate::priorities::Priority;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::registration::Registration;

/// Time within which an operation reaches the kernel, unless it may wait for others. Relative to
/// this time, a system call costs a percent or two.
pub(crate) const FLUSH_TIME_MAX: Duration = Duration::from_micros(50);

/// The driver of a worker. While a fiber blocks the worker's thread, the worker moves to another
/// one, and the driver with it.
pub(crate) trait Driver: Send {
    /// Returns a description of the setup for humans.
    fn description(&self) -> String;

    /// Returns a handle by which any thread ends the current [`wait`](Driver::wait) or the next
    /// one.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor.
    fn waker(&self) -> io::Result<Box<dyn Wake>>;

    /// Starts an operation. The driver handles all waiting by itself, and the completion carries
    /// `token`. An operation that only waits for events, or is multishot, is never done at once.
    ///
    /// # Safety
    ///
    /// If the operation is pending, everything that it borrows stays alive until its last
    /// completion was reaped and, where it is borrowed mutably, is not accessed; the same holds for
    /// the operation itself. A multishot operation need only live until the driver [is
    /// flushed](Driver::is_flushed).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start;

    /// Sets the priority of the operations that are started from now on; it is normal at first. The
    /// next flush begins them in the order of their priorities and, within one, of their starts. An
    /// operation of several entries keeps them together. An operation that is done at once, or that
    /// waits for an event without a request, is in no order.
    fn set_priority(&mut self, priority: Priority);

    /// Requests the end of an operation whose last completion was not handed out. That completion
    /// still follows, cancelled or not.
    fn cancel(&mut self, target: Token);

    /// Returns the time within which the driver has to be flushed, for operations that reach the
    /// kernel only with the next flush or wait. Returns `None` if there are none.
    fn flush_within(&self) -> Option<Duration>;

    /// Returns `true` if a flush is due before more operations gather, as a device waits for them.
    fn is_flush_due(&self) -> bool {
        false
    }

    /// Submits the gathered operations without sleeping. Does nothing if there are none.
    fn flush(&mut self);

    /// Returns `true` if all gathered operations have been submitted.
    fn is_flushed(&mut self) -> bool;

    /// Submits the gathered operations, and sleeps until a completion, a wake-up or the timeout.
    fn wait(&mut self, timeout: Option<Duration>);

    /// Hands out at most `max` completions. Returns `true` if a wake-up was among them.
    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool;

    /// Returns the ring, if the driver has one, and so supports multishot operations.
    fn ring(&mut self) -> Option<&mut dyn RingFeatures> {
        None
    }

    /// Returns the driver's counts.
    fn counts(&self) -> Counts;

    /// Returns the current time of the clock that the driver's waits use.
    fn now(&self) -> Instant;

    /// Returns the current time by which timers expire: it is another one for a caller in a simulated world whose
    /// clock drifts.
    fn timer_time(&self) -> Instant {
        self.now()
    }

    /// Returns the time by which a timer expires that the caller starts. Returns `None` if the clock cannot represent
    /// it.
    fn timer_after(&self, timeout: Duration) -> Option<Instant> {
        self.now().checked_add(timeout)
    }

    /// Returns `true` if a batch of fibers that is to end at this time ends now.
    fn is_over(&self, end: Instant) -> bool {
        self.now() >= end
    }
}

/// The ring of a driver, for requests and resources that only a ring has.
pub(crate) trait RingFeatures {
    /// Returns `true` if the ring supports operations with this code.
    fn supports(&self, opcode: u8) -> bool;

    /// Registers a new group of `count` buffers of `size` bytes each.
    ///
    /// # Errors
    ///
    /// Any error that `io_uring_register(2)` reports.
    fn register_buffer_group(&mut self, count: u16, size: u32) -> io::Result<Arc<BufferGroup>>;

    /// Returns `true` if the group is registered with this ring.
    fn owns_buffer_group(&self, group: &BufferGroup) -> bool;

    /// Registers new memory. Reads and writes of files in that memory use the registration.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the memory cannot be allocated or locked; any other error that
    /// `io_uring_register(2)` reports.
    fn register_buffer(&mut self, bytes: usize) -> io::Result<Registration>;

    /// Registers a file.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there is no free slot; any other error that `io_uring_register(2)` reports.
    fn register_file(&mut self, file: BorrowedFd<'_>) -> io::Result<Registration>;

    /// Reserves an empty file slot.
    ///
    /// # Errors
    ///
    /// The errors of [`register_file`](RingFeatures::register_file).
    fn reserve_file(&mut self) -> io::Result<Registration>;
}

/// The outcome of starting an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The operation is complete with this result of its system call. No completion follows.
    Done(CallResult),
    /// A completion follows.
    Pending(Awaited),
    /// There is no room for the operation, and nothing was done. A flush makes room, provided that
    /// completions are reaped.
    Full,
}

#[cfg(test)]
impl Start {
    pub(crate) fn is_pending(self) -> bool {
        matches!(self, Start::Pending(_))
    }
}

/// A completion of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// A count, a descriptor, or a negated errno.
    pub(crate) result: i32,
    /// `true` if more completions of the same operation follow.
    pub(crate) more: bool,
    /// The buffer of the operation's group that was filled.
    pub(crate) buffer: Option<u16>,
}

impl Completion {
    pub(crate) fn last(result: i32) -> Completion {
        Completion {
            result,
            more: false,
            buffer: None,
        }
    }
}

/// Encodes a result as completions carry it.
fn in_one(result: CallResult) -> i32 {
    match result {
        Ok(value) => value.cast_signed(),
        Err(errno) => -errno.raw_os_error(),
    }
}

/// Aborts the process because a wake-up failed: a lost wake-up would be a hang without a way to
/// recover.
#[cold]
fn abort_unwoken(error: &dyn fmt::Display) -> ! {
    native::standard_error::print(format_args!(
        "uthread: a worker cannot be woken: {error}: please report\n"
    ));
    std::process::abort()
}

/// Ends a worker's wait from any thread.
pub(crate) trait Wake: Send + Sync {
    /// Ends the worker's current wait, or its next one.
    fn wake(&self);
}

/// Counts of a driver's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of system calls.
    pub(crate) enters: u64,
    /// Number of operations submitted to the kernel.
    pub(crate) submissions: u64,
    /// Number of connections that are ready, and from which nothing was received yet.
    pub(crate) backlog: u32,
}

/// Identifies an operation between submission and completion. Chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    /// Tokens at and above this are the driver's own.
    pub(crate) const RESERVED: u64 = 1 << 62;

    /// Returns the upper half. The caller may keep it small and unique among the operations in
    /// flight, so that tables indexed by it are short.
    pub(crate) fn index(self) -> usize {
        (self.0 >> 32) as usize
    }
}

#[cfg(test)]
mod tests;

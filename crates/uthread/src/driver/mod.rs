//! Drivers: what carries operations to the kernel.
//!
//! A driver serves one worker and knows neither fibers nor who waits: it is given operations with
//! a token each and gives back tokens with results, one for each but for those that complete many times. It is made on the worker's thread, by step-down
//! where the kernel lacks something, in two parts: the [`Driver`] takes operations in, and only its worker
//! has it; the [`Completions`] hand results out, and may do so on any thread.
//!
//! [`uring`] hands operations to a ring, [`epoll`] makes the system calls itself as soon as they need not
//! wait. [`native`] carries out a single operation as an ordinary blocking system call, for callers outside
//! the runtime and fibers that are threads; [`page_cache`] tells whether one on a file would wait for the
//! disk. `sim` lets a seed decide, in tests.

pub(crate) mod eventfd;

pub(crate) mod epoll;
mod latest;
pub(crate) mod native;
pub(crate) mod page_cache;
mod readiness;
#[cfg(test)]
pub(crate) mod sim;
pub(crate) mod uring;

pub(crate) mod feature;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::op::Operation;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::registration::Registration;

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

    /// Starts an operation. Whatever it has to wait for, the driver carries it on by itself; its completion will carry
    /// `token`. An operation that only waits for events, or completes many times, is never done at once.
    ///
    /// Where others than the worker reap, nothing of a pending operation happens before the next flush or wait: its fiber
    /// has to leave its stack first.
    ///
    /// # Safety
    ///
    /// Where the operation is pending, all that it borrows stays alive and, where it is borrowed mutably, untouched
    /// until its last completion was reaped; so does the operation itself. One that completes many times need only
    /// live until the driver [is flushed](Driver::is_flushed).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start;

    /// Asks for the end of an operation whose last completion was not handed out. That still comes, cancelled or not.
    fn cancel(&mut self, target: Token);

    /// Whether an operation reaches the kernel only with the next flush or wait.
    fn needs_flush(&self) -> bool;

    /// Whether to flush before more gathers: a device waits for it.
    fn is_flush_due(&self) -> bool {
        false
    }

    /// Passes on what gathered, without sleeping. Does nothing when there is nothing.
    fn flush(&mut self);

    /// Whether all that gathered has been passed on.
    fn is_flushed(&mut self) -> bool;

    /// The same, and sleeps until a completion, a wake-up or the timeout.
    fn wait(&mut self, timeout: Option<Duration>);

    /// Whether it has a ring, and so carries out operations that complete many times. What follows is for those.
    fn has_ring(&self) -> bool {
        false
    }

    /// Whether its ring carries out operations of this code.
    fn supports(&self, _opcode: u8) -> bool {
        false
    }

    /// Registers a new group of `count` buffers of `size` bytes each with its ring.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where it has no ring; the kernel's.
    fn register_buffer_group(&mut self, _count: u16, _size: u32) -> io::Result<Arc<BufferGroup>> {
        Err(Errno::OPNOTSUPP.into())
    }

    /// Whether this group is registered with its ring.
    fn owns_buffer_group(&self, _group: &BufferGroup) -> bool {
        false
    }

    /// Registers new memory, of so many bytes, with its ring. Reads and writes of files in that memory then go by it.
    ///
    /// # Errors
    ///
    /// As [`register_buffer_group`](Driver::register_buffer_group); `ENOMEM` above all, as the memory is locked.
    fn register_buffer(&mut self, _bytes: usize) -> io::Result<Registration> {
        Err(Errno::OPNOTSUPP.into())
    }

    /// Registers a file with its ring.
    ///
    /// # Errors
    ///
    /// As [`register_buffer_group`](Driver::register_buffer_group); `ENOBUFS` where there is no place for it.
    fn register_file(&mut self, _file: BorrowedFd<'_>) -> io::Result<Registration> {
        Err(Errno::OPNOTSUPP.into())
    }

    /// A place among the files of its ring, with nothing there.
    ///
    /// # Errors
    ///
    /// As [`register_file`](Driver::register_file).
    fn reserve_file(&mut self) -> io::Result<Registration> {
        Err(Errno::OPNOTSUPP.into())
    }

    /// What it has done so far.
    fn counts(&self) -> Counts;

    /// The time by the clock that its waits go by.
    fn now(&self) -> Instant;
}

/// How an operation has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It is complete by this result, a count or descriptor, or a negated errno. No completion follows.
    Done(i32),
    /// Its completion follows.
    Pending,
    /// There is no room for it, and nothing was done. A flush makes some, provided that completions are reaped.
    Full,
}

/// Where the results of a driver's operations arrive.
pub(crate) trait Completions: Send {
    /// Hands out the completions there are, `max` at most; whether a wake-up was among them.
    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool;

    /// Whether there is nothing to hand out.
    fn is_empty(&mut self) -> bool;
}

/// What a driver says of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// A count or descriptor, or a negated errno.
    pub(crate) result: i32,
    /// Whether others of the same operation follow.
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

/// A result as completions carry it.
fn in_one(result: rustix::io::Result<u32>) -> i32 {
    match result {
        Ok(value) => value.cast_signed(),
        Err(errno) => -errno.raw_os_error(),
    }
}

/// Both parts of a worker's driver.
pub(crate) type Pair = (Box<dyn Driver>, Box<dyn Completions>);

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
}

/// Names an operation between submission and completion. Chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    /// Tokens at and above this are the driver's own.
    pub(crate) const RESERVED: u64 = 1 << 62;

    /// The upper half: who chooses tokens may keep it small, and different of all that are in flight. Then tables by
    /// it are short.
    pub(crate) fn index(self) -> usize {
        (self.0 >> 32) as usize
    }
}

#[cfg(test)]
mod tests;

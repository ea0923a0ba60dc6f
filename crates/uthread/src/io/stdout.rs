//! Standard output and standard error.
//!
//! Standard output uses the buffer of `std`, so that `println!` and [`stdout`] keep their order and
//! the rest is written when the program ends. Before a fiber writes, it waits through its driver
//! until the descriptor is writable, and then passes `std` no more than fits, so that the system
//! call of `std` does not block:
//!
//! ```text
//!   a writable pipe has a free page of 4096 bytes:
//!     at most 1024 bytes in the buffer of std | ROOM_BYTES of the caller's bytes
//!   more bytes: the buffer of std is flushed, and the driver writes whole lines
//!   to a terminal: a pool thread writes at most ROOM_BYTES
//! ```
//!
//! The call can still block if another process fills the same pipe between the check and the call.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::reentrant::{Locked, Reentrant};
use super::{stream, terminal};
use crate::driver::native;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::{self, cancellation, turn};
use crate::sched::features::offload;

/// Number of bytes that fit into one page of a pipe together with the contents of the buffer of
/// `std`.
const ROOM_BYTES: usize = 3 * 1024;

/// Number of bytes without a newline that are buffered before a check whether the descriptor is
/// writable. Less than the 1024 bytes that `std` buffers.
const LEFT_BYTES_MAX: usize = 512;

/// Upper bound of the bytes that this module has left in the buffer of `std`. Relaxed: only the
/// holder of the lock accesses it.
static LEFT_BYTES: AtomicUsize = AtomicUsize::new(0);

static STDOUT: Reentrant = Reentrant::new();
static STDERR: Reentrant = Reentrant::new();

/// Returns a handle to the standard output of the process; the counterpart of [`std::io::stdout`].
/// It is line-buffered, and flushed when the program ends.
///
/// It shares the buffer of `print!` and `println!`, so a fiber or thread may use both and its
/// output keeps its order. The macros are those of `std` and block the worker if the reader is
/// slow; `writeln!` to this handle does not.
///
/// ```
/// use uthread::io::{self, Write};
///
/// uthread::spawn(|| {
///     print!("one, ");
///     writeln!(io::stdout(), "two")
/// }).join().unwrap()?;
/// # Ok::<(), io::Error>(())
/// ```
#[must_use]
pub fn stdout() -> Stdout {
    Stdout(())
}

/// Returns a handle to the standard error stream of the process; the counterpart of
/// [`std::io::stderr`]. It is not buffered.
///
/// ```
/// use uthread::io::{self, Write};
/// writeln!(io::stderr(), "cannot say more")?;
/// # Ok::<(), io::Error>(())
/// ```
#[must_use]
pub fn stderr() -> Stderr {
    Stderr(())
}

/// A handle to the standard output; the counterpart of [`std::io::Stdout`]. See the example of
/// [`stdout`].
///
/// Each write acquires the lock. If the descriptor is closed, the bytes are discarded without an
/// error, as in `std`.
///
/// # Errors
///
/// Writes return `BrokenPipe` if the reader is gone, `ECANCELED` if the fiber is cancelled, or any
/// other error that `write(2)` reports.
pub struct Stdout(());

/// A handle to the standard error stream; the counterpart of [`std::io::Stderr`]. See the example
/// of [`stderr`]. Locking, closed descriptors and errors are as for [`Stdout`].
pub struct Stderr(());

/// A locked standard output; the counterpart of [`std::io::StdoutLock`]. See the example of
/// [`Stdout::lock`].
///
/// It cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// let locked = uthread::io::stdout().lock();
/// uthread::spawn(move || drop(locked));
/// ```
pub struct StdoutLock<'a> {
    _locked: Locked,
    lifetime: PhantomData<&'a ()>,
}

/// A locked standard error stream; the counterpart of [`std::io::StderrLock`]. See the example of
/// [`Stderr::lock`].
pub struct StderrLock<'a> {
    _locked: Locked,
    lifetime: PhantomData<&'a ()>,
}

impl Stdout {
    /// Locks the standard output, waiting while another fiber or thread holds the lock. The holder
    /// may lock it again.
    ///
    /// The lock applies to the handles of this module; it does not delay a `println!`.
    ///
    /// ```
    /// use uthread::io::{self, Write};
    ///
    /// let mut out = io::stdout().lock();
    /// for number in 1..=3 {
    ///     writeln!(out, "{number} of 3")?;
    /// }
    /// # Ok::<(), io::Error>(())
    /// ```
    #[must_use]
    pub fn lock(&self) -> StdoutLock<'static> {
        StdoutLock {
            _locked: STDOUT.lock(),
            lifetime: PhantomData,
        }
    }
}

impl Stderr {
    /// Locks the standard error stream, waiting while another fiber or thread holds the lock. The
    /// holder may lock it again.
    ///
    /// ```
    /// use uthread::io::{self, Write};
    /// writeln!(io::stderr().lock(), "in one piece")?;
    /// # Ok::<(), io::Error>(())
    /// ```
    #[must_use]
    pub fn lock(&self) -> StderrLock<'static> {
        StderrLock {
            _locked: STDERR.lock(),
            lifetime: PhantomData,
        }
    }
}

/// Writes to the standard output. Bytes without a newline go into the buffer without a check
/// whether the descriptor is writable.
fn write_buffered(buffer: &[u8]) -> io::Result<usize> {
    let lines = length_of_lines(buffer);
    let left = LEFT_BYTES.load(Ordering::Relaxed);
    if lines == 0 && left + buffer.len() <= LEFT_BYTES_MAX {
        let count = io::stdout().write(buffer)?;
        LEFT_BYTES.store(left + count, Ordering::Relaxed);
        return Ok(count);
    }
    if lines == 0 {
        flush_buffered()?;
    }
    let count = write(io::stdout(), buffer)?;
    LEFT_BYTES.store(count.saturating_sub(lines), Ordering::Relaxed);
    Ok(count)
}

fn flush_buffered() -> io::Result<()> {
    LEFT_BYTES.store(0, Ordering::Relaxed);
    flush(io::stdout())
}

/// Returns the number of bytes up to and including the last newline.
fn length_of_lines(buffer: &[u8]) -> usize {
    let last = buffer.iter().rposition(|byte| *byte == b'\n');
    last.map_or(0, |last| last + 1)
}

/// Writes to the output whose `std` handle is `inner`.
fn write(mut inner: impl Write + AsFd + Send, buffer: &[u8]) -> io::Result<usize> {
    if !await_room(inner.as_fd())? {
        return inner.write(buffer);
    }
    let little = &buffer[..buffer.len().min(ROOM_BYTES)];
    if terminal::may_stop_worker(inner.as_fd()) {
        return offload::perform(|| inner.write(little));
    }
    if little.len() == buffer.len() {
        return inner.write(buffer);
    }
    inner.flush()?;
    let whole = match length_of_lines(buffer) {
        0 => buffer,
        lines => &buffer[..lines],
    };
    let state = FdState::new();
    let file = Descriptor {
        fd: inner.as_fd(),
        state: &state,
    };
    match stream::write(file, whole) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => Ok(buffer.len()),
        result => result,
    }
}

fn flush(mut inner: impl Write + AsFd + Send) -> io::Result<()> {
    let in_fiber = await_room(inner.as_fd())?;
    if in_fiber && terminal::may_stop_worker(inner.as_fd()) {
        return offload::perform(|| inner.flush());
    }
    inner.flush()
}

/// Waits until a short write would not block. Returns `false` outside of fibers, where the write
/// itself may block.
fn await_room(fd: BorrowedFd<'_>) -> io::Result<bool> {
    if !caller::in_fiber() {
        return Ok(false);
    }
    cancellation::refuse_if_cancelled()?;
    turn::spend();
    // The descriptor usually is writable, and a check is faster than a wait. An error is left for
    // the write to report.
    if native::ready_now(fd, PollFlags::OUT).is_ok_and(|ready| ready.is_empty()) {
        terminal::await_ready(fd, PollFlags::OUT)?;
    }
    Ok(true)
}

macro_rules! impl_output {
    ($($handle:ident, $lock:ident, $function:ident, $write:expr, $flush:expr;)*) => {$(
        impl Write for $lock<'_> {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                $write(buffer)
            }

            fn flush(&mut self) -> io::Result<()> {
                $flush()
            }
        }

        impl_output!(@handle $handle);
        impl_output!(@handle &$handle);
        impl_output!(@descriptor $handle, $function);
        impl_output!(@descriptor $lock<'_>, $function);

        impl fmt::Debug for $handle {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($handle)).finish_non_exhaustive()
            }
        }

        impl fmt::Debug for $lock<'_> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }

        impl From<$handle> for Stdio {
            fn from(_: $handle) -> Stdio {
                io::$function().into()
            }
        }
    )*};
    (@handle $handle:ty) => {
        impl Write for $handle {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                self.lock().write(buffer)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.lock().flush()
            }

            fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
                self.lock().write_all(buffer)
            }

            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                self.lock().write_vectored(buffers)
            }

            fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
                self.lock().write_fmt(arguments)
            }
        }
    };
    (@descriptor $handle:ty, $function:ident) => {
        impl AsFd for $handle {
            fn as_fd(&self) -> BorrowedFd<'_> {
                rustix::stdio::$function()
            }
        }

        impl AsRawFd for $handle {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }
    };
}

impl_output! {
    Stdout, StdoutLock, stdout, write_buffered, flush_buffered;
    Stderr, StderrLock, stderr, |buffer| write(io::stderr(), buffer), || flush(io::stderr());
}

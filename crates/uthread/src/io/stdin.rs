//! Standard input.
//!
//! All handles share one buffer, as in `std`, but not the buffer of `std`: whether that holds bytes
//! cannot be queried without waiting. The buffer moves to the fiber or thread that acquires the
//! lock and back, so that no thread-owned guard is held while a fiber waits.
//!
//! Descriptor 0 may refer to another file at any time (`dup2`), so driver state for it lasts for
//! one operation.

use std::fmt;
use std::io::{self, BufRead, BufReader, IoSliceMut, Lines, Read};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{stream, terminal};
use crate::atomic::lock;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::features::offload;
use crate::sync::exclusive::{Exclusive, Held};

/// Size of the buffer, the same as that of `std`.
const BUFFER_BYTES: usize = 8 * 1024;

static LOCK: Exclusive = Exclusive::new();
static BUFFER: Mutex<Option<BufReader<Unbuffered>>> = Mutex::new(None);

/// Returns a handle to the standard input of the process; the counterpart of [`std::io::stdin`].
/// All handles share one buffer.
///
/// Do not use it together with `std::io::stdin()`, which has a buffer of its own: bytes read into
/// that buffer are missing here.
///
/// ```
/// use uthread::io;
///
/// let mut name = String::new();
/// io::stdin().read_line(&mut name)?;
/// println!("hello, {}", name.trim_end());
/// # Ok::<(), io::Error>(())
/// ```
///
/// A fiber that waits for input blocks neither other fibers nor the end of the program: dropping
/// the runtime cancels it.
#[must_use]
pub fn stdin() -> Stdin {
    Stdin(())
}

/// A handle to the standard input; the counterpart of [`std::io::Stdin`]. See the example of
/// [`stdin`].
///
/// Each read acquires the lock. A fiber waits for input suspended, a thread blocks. If the
/// descriptor is closed, reads return the end of input, as in `std`.
pub struct Stdin(());

/// A locked standard input; the counterpart of [`std::io::StdinLock`]. See the example of
/// [`Stdin::lock`].
///
/// It cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// let locked = uthread::io::stdin().lock();
/// uthread::spawn(move || drop(locked));
/// ```
pub struct StdinLock<'a> {
    /// `Some` while the input is locked.
    reader: Option<BufReader<Unbuffered>>,
    _held: Held<'static>,
    /// Makes the guard not `Send`, as in `std`.
    lifetime: PhantomData<MutexGuard<'a, ()>>,
}

impl Stdin {
    /// Locks the standard input and returns a buffered reader, waiting while another fiber or
    /// thread holds the lock.
    ///
    /// Locking it again while already holding the lock waits forever, as in `std`.
    ///
    /// ```
    /// use uthread::io::{self, BufRead};
    ///
    /// let lines = io::stdin().lock().lines().count();
    /// assert!(lines < usize::MAX);
    /// ```
    #[must_use]
    pub fn lock(&self) -> StdinLock<'static> {
        let held = LOCK.lock();
        let kept = buffer().take();
        let new = || BufReader::with_capacity(BUFFER_BYTES, Unbuffered);
        StdinLock {
            reader: Some(kept.unwrap_or_else(new)),
            _held: held,
            lifetime: PhantomData,
        }
    }

    /// Reads the next line, including its newline, and appends it to `line`. Returns its length in
    /// bytes, which is 0 at the end of input.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the line is not valid UTF-8; `ECANCELED` if the fiber is cancelled; any
    /// other error that `read(2)` reports.
    ///
    /// ```
    /// let mut line = String::new();
    /// let bytes = uthread::io::stdin().read_line(&mut line)?;
    /// assert_eq!(bytes, line.len());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read_line(&self, line: &mut String) -> io::Result<usize> {
        self.lock().read_line(line)
    }

    /// Returns an iterator over the remaining lines, without their newlines. The input stays locked
    /// while the iterator exists.
    ///
    /// ```
    /// for line in uthread::io::stdin().lines() {
    ///     println!("got a line: {}", line?);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }
}

impl StdinLock<'_> {
    fn reader(&mut self) -> &mut BufReader<Unbuffered> {
        self.reader.as_mut().expect("set until it is dropped")
    }
}

impl Drop for StdinLock<'_> {
    fn drop(&mut self) {
        *buffer() = self.reader.take();
    }
}

fn buffer() -> MutexGuard<'static, Option<BufReader<Unbuffered>>> {
    lock(&BUFFER)
}

/// An unbuffered reader of descriptor 0.
struct Unbuffered;

impl Read for Unbuffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let fd = rustix::stdio::stdin();
        let result = if terminal::may_stop_worker(fd) {
            terminal::await_ready(fd, PollFlags::IN)?;
            offload::perform(|| Ok(rustix::io::read(fd, buffer)?))
        } else {
            let state = FdState::new();
            let file = Descriptor { fd, state: &state };
            stream::read(file, buffer)
        };
        match result {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => Ok(0),
            result => result,
        }
    }
}

impl Read for StdinLock<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader().read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reader().read_vectored(buffers)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.reader().read_to_end(bytes)
    }

    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        self.reader().read_to_string(text)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.reader().read_exact(buffer)
    }
}

impl BufRead for StdinLock<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader().fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader().consume(count);
    }
}

macro_rules! impl_read_by_lock {
    ($($handle:ty),*) => {$(
        impl Read for $handle {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.lock().read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.lock().read_vectored(buffers)
            }

            fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
                self.lock().read_to_end(bytes)
            }

            fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
                self.lock().read_to_string(text)
            }

            fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
                self.lock().read_exact(buffer)
            }
        }
    )*};
}

impl_read_by_lock!(Stdin, &Stdin);

macro_rules! impl_descriptor {
    ($($handle:ty),*) => {$(
        impl AsFd for $handle {
            fn as_fd(&self) -> BorrowedFd<'_> {
                rustix::stdio::stdin()
            }
        }

        impl AsRawFd for $handle {
            fn as_raw_fd(&self) -> RawFd {
                rustix::stdio::raw_stdin()
            }
        }
    )*};
}

impl_descriptor!(Stdin, StdinLock<'_>);

impl fmt::Debug for Stdin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stdin").finish_non_exhaustive()
    }
}

impl fmt::Debug for StdinLock<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StdinLock").finish_non_exhaustive()
    }
}

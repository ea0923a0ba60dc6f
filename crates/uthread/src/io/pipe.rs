//! Anonymous pipes.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::stream::{Stream, impl_read, impl_stream, impl_write};

/// Creates a pipe; the counterpart of [`std::io::pipe`]. Fibers, threads and child processes can
/// use its ends in any combination.
///
/// A read waits until a writer has written bytes, and returns 0 once all writers are dropped. A
/// write waits for space in the pipe, which holds 64 KiB by default.
///
/// # Errors
///
/// `EMFILE` or `ENFILE` if there is no free descriptor; any other error that `pipe(2)` reports.
///
/// ```
/// use uthread::io::{Read, Write, pipe};
/// use uthread::process::Command;
///
/// let (mut answers, answer) = pipe()?;
/// let mut child = Command::new("cat").stdin(std::fs::File::open("Cargo.toml")?).stdout(answer).spawn()?;
/// // `Command` kept no copy of the writer, as it is a temporary: so there is an end.
/// let mut text = String::new();
/// answers.read_to_string(&mut text)?;
/// assert!(text.starts_with("[package]"));
/// assert!(child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// The read end of a pipe; the counterpart of [`std::io::PipeReader`]. See the example of [`pipe`].
pub struct PipeReader(pub(super) Stream);

impl PipeReader {
    /// Creates another handle to the read end.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; any other error that `fcntl(2)` reports for
    /// `F_DUPFD_CLOEXEC`.
    ///
    /// ```
    /// use uthread::io::{Read, Write, pipe};
    ///
    /// let (mut reader, mut writer) = pipe()?;
    /// let mut other = reader.try_clone()?;
    /// writer.write_all(b"ab")?;
    /// let (mut first, mut second) = ([0], [0]);
    /// reader.read_exact(&mut first)?;
    /// other.read_exact(&mut second)?;
    /// assert_eq!([first, second], [*b"a", *b"b"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_clone(&self) -> io::Result<PipeReader> {
        self.0.try_clone().map(PipeReader)
    }
}

/// The write end of a pipe; the counterpart of [`std::io::PipeWriter`]. See the example of
/// [`pipe`].
pub struct PipeWriter(pub(super) Stream);

impl PipeWriter {
    /// Creates another handle to the write end. Readers reach the end of the data once all handles
    /// are dropped.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; any other error that `fcntl(2)` reports for
    /// `F_DUPFD_CLOEXEC`.
    ///
    /// ```
    /// use uthread::io::{Write, pipe, read_to_string};
    ///
    /// let (reader, mut writer) = pipe()?;
    /// let mut other = writer.try_clone()?;
    /// uthread::spawn(move || other.write_all(b"both")).join().unwrap()?;
    /// writer.write_all(b" ends")?;
    /// drop(writer);
    /// assert_eq!(read_to_string(reader)?, "both ends");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_clone(&self) -> io::Result<PipeWriter> {
        self.0.try_clone().map(PipeWriter)
    }
}

impl_stream!(PipeReader = io::PipeReader, PipeWriter = io::PipeWriter);
impl_read!(PipeReader.0);
impl_write!(PipeWriter.0);

macro_rules! impl_from_raw_fd {
    ($($end:ident),*) => {$(
        #[allow(unsafe_code, reason = "the trait's method is unsafe to call")]
        impl FromRawFd for $end {
            unsafe fn from_raw_fd(fd: RawFd) -> $end {
                // SAFETY: the caller passes ownership of an open descriptor, as `FromRawFd`
                // requires.
                unsafe { OwnedFd::from_raw_fd(fd) }.into()
            }
        }
    )*};
}

impl_from_raw_fd!(PipeReader, PipeWriter);

//! Moving bytes between files, sockets and pipes within the kernel.
//!
//! ```text
//!   file   -> file     copy_file_range, on a pool thread: it waits for the disk
//!   file   -> socket   sendfile of bytes in the page cache
//!   pipe   -> any      splice; to and from a file on a pool thread
//!   any    -> pipe     splice
//!   socket -> any      splice into an internal pipe, and out of it
//! ```
//!
//! If the kernel refuses a combination, such as a file opened for appending, the bytes are read and
//! written through a buffer. The system calls wait only for disks: sockets are made non-blocking as
//! for `send_file`, and `splice` has a flag for pipes.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::stream::Stream;
use super::{PipeReader, PipeWriter};
use crate::driver::native;
use crate::fs::File;
use crate::resource::standard;
use crate::sched::caller::{self, turn};
use crate::sched::features::offload;

/// Number of bytes moved before other fibers run, as for `send_file`.
const CHUNK_BYTES: u64 = 256 * 1024;

/// Number of bytes copied between files per call, some tens of milliseconds on a disk. Cancellation
/// is checked between calls.
const RANGE_BYTES: u64 = 16 * 1024 * 1024;

/// Size of the buffer used when the kernel refuses to move the bytes.
const BUFFER_BYTES: u64 = 64 * 1024;

/// Moves bytes from one descriptor to another, within the kernel where possible. Stops at the end
/// of `from` or after `bytes_max` bytes, and returns the number of bytes moved.
///
/// As [`copy`](io::copy) does, the function uses and advances the positions of files; nothing else
/// may use them at the same time. The timeouts of sockets limit the time without progress. If a
/// non-blocking source runs dry, the function returns the number of bytes moved so far. It waits
/// for a non-blocking destination, except when it sends a file.
///
/// # Errors
///
/// Any error of the source or the destination that `splice(2)`, `sendfile(2)`,
/// `copy_file_range(2)`, `read(2)` or `write(2)` reports; `WouldBlock` after the timeout of a
/// socket. After an error, an unknown number of bytes has been moved, and bytes taken from a source
/// that is not a file may be lost.
///
/// If the peer of a socket has closed the connection, the kernel also raises `SIGPIPE`, which Rust
/// programs ignore by default.
///
/// ```
/// use uthread::io::{Read, Write, pipe, splice};
/// use uthread::net::UnixStream;
///
/// let (ours, mut peer) = UnixStream::pair()?;
/// let (mut reader, writer) = pipe()?;
/// peer.write_all(b"not copied")?;
/// assert_eq!(splice(&ours, &writer, Some(3))?, 3);
/// drop(peer);
/// assert_eq!(splice(&ours, &writer, None)?, 7);
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "not copied");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn splice<F, T>(from: &F, to: &T, bytes_max: Option<u64>) -> io::Result<u64>
where
    F: Splice + ?Sized,
    T: Splice + ?Sized,
{
    let (from, to) = (from.end(), to.end());
    let mut way = Way::new(&from, &to)?;
    let bytes_max = bytes_max.unwrap_or(u64::MAX);
    let mut moved = 0;
    while moved < bytes_max {
        turn::begin_call()?;
        let rest = bytes_max - moved;
        // Files in `/proc` appear empty to every call but a read.
        let is_doubtful = moved == 0 && from.is_file() && !matches!(way, Way::Buffer(_));
        match way.step(&from, &to, rest)? {
            Step::Refused => way = Way::buffer(),
            Step::Moved(0) if is_doubtful => way = Way::buffer(),
            Step::Moved(0) => break,
            Step::Dry if moved > 0 => break,
            Step::Dry => return Err(Errno::AGAIN.into()),
            Step::Moved(count) => {
                moved += count;
                if moved < bytes_max {
                    turn::yield_within_call()?;
                }
            }
        }
    }
    Ok(moved)
}

/// Types that [`splice`] moves bytes between: [`File`], [`TcpStream`](crate::net::TcpStream),
/// [`UnixStream`](crate::net::UnixStream), and the ends of a [`pipe`](super::pipe). See the example
/// of [`splice`]. The trait is sealed: it cannot be implemented for other types.
#[allow(
    private_bounds,
    reason = "sealed: the transfer needs to know how to wait for each type"
)]
pub trait Splice: Sealed {}

pub(crate) trait Sealed: AsFd {
    fn end(&self) -> End<'_>;
}

/// The operations that a transfer needs of a socket.
pub(crate) trait StreamSocket {
    fn fd(&self) -> BorrowedFd<'_>;

    /// Makes the descriptor non-blocking. Calls of this crate still wait.
    fn raise_nonblock(&self) -> io::Result<()>;

    /// Returns `true` if the user has made the socket non-blocking.
    fn is_nonblocking(&self) -> bool;

    /// Waits until the socket is readable, at most for its read timeout.
    fn await_bytes(&self) -> io::Result<()>;

    /// Waits until the socket is writable, at most for its write timeout.
    fn await_room(&self) -> io::Result<()>;

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    fn send_all(&self, buffer: &[u8]) -> io::Result<()>;

    /// Sends a part of the file, small enough for one turn on the worker and at most `bytes_max`
    /// bytes.
    fn send_part(&self, file: &File, offset: u64, bytes_max: u64) -> io::Result<u64>;
}

/// The source or destination of a transfer.
pub(crate) enum End<'a> {
    File(&'a File),
    Socket(&'a dyn StreamSocket),
    Pipe(&'a Stream),
}

impl Sealed for File {
    fn end(&self) -> End<'_> {
        End::File(self)
    }
}

impl Sealed for PipeReader {
    fn end(&self) -> End<'_> {
        End::Pipe(&self.0)
    }
}

impl Sealed for PipeWriter {
    fn end(&self) -> End<'_> {
        End::Pipe(&self.0)
    }
}

impl Splice for File {}
impl Splice for PipeReader {}
impl Splice for PipeWriter {}

impl End<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            End::File(file) => file.as_fd(),
            End::Socket(socket) => socket.fd(),
            End::Pipe(pipe) => pipe.as_fd(),
        }
    }

    fn is_file(&self) -> bool {
        self.file().is_some()
    }

    fn file(&self) -> Option<&File> {
        match self {
            End::File(file) => Some(file),
            End::Socket(_) | End::Pipe(_) => None,
        }
    }

    /// Returns `true` if the user has made this end non-blocking.
    fn is_nonblocking(&self) -> bool {
        matches!(self, End::Socket(socket) if socket.is_nonblocking())
    }

    /// Makes system calls on this end non-blocking.
    fn prepare(&self) -> io::Result<()> {
        match self {
            End::Socket(socket) => socket.raise_nonblock(),
            End::File(_) | End::Pipe(_) => Ok(()),
        }
    }

    fn await_bytes(&self) -> io::Result<()> {
        match self {
            End::Socket(socket) => socket.await_bytes(),
            End::Pipe(pipe) => pipe.wait_for(PollFlags::IN),
            End::File(_) => Ok(()),
        }
    }

    fn await_room(&self) -> io::Result<()> {
        match self {
            End::Socket(socket) => socket.await_room(),
            End::Pipe(pipe) => pipe.wait_for(PollFlags::OUT),
            End::File(_) => Ok(()),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                End::File(file) => (&mut &**file).read(buffer),
                End::Socket(socket) => socket.receive(buffer),
                End::Pipe(pipe) => (&mut &**pipe).read(buffer),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write_all(&self, buffer: &[u8]) -> io::Result<()> {
        match self {
            End::File(file) => (&mut &**file).write_all(buffer),
            End::Socket(socket) => socket.send_all(buffer),
            End::Pipe(pipe) => (&mut &**pipe).write_all(buffer),
        }
    }
}

/// The method by which the bytes are moved.
enum Way {
    Range,
    SendFile,
    Direct,
    /// Through an internal pipe, which is empty between two steps.
    Through {
        reader: OwnedFd,
        writer: OwnedFd,
    },
    Buffer(Vec<u8>),
}

enum Step {
    /// Number of bytes moved; 0 at the end of the source.
    Moved(u64),
    /// The kernel does not support the method for these descriptors; nothing was moved.
    Refused,
    /// The source has no bytes at the moment and is non-blocking.
    Dry,
}

impl Way {
    fn new(from: &End<'_>, to: &End<'_>) -> io::Result<Way> {
        if caller::world().is_some() {
            // What is sent passes through the simulation.
            return Ok(Way::buffer());
        }
        from.prepare()?;
        to.prepare()?;
        for end in [from, to] {
            if let End::File(file) = end
                && !file.metadata()?.is_file()
            {
                return Ok(Way::buffer());
            }
        }
        Ok(match (from, to) {
            (End::File(_), End::File(_)) => Way::Range,
            (End::File(_), End::Socket(_)) => Way::SendFile,
            (End::Pipe(_), _) | (_, End::Pipe(_)) => Way::Direct,
            (End::Socket(_), _) => {
                let (reader, writer) =
                    rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                Way::Through {
                    reader: standard::avoid(reader)?,
                    writer: standard::avoid(writer)?,
                }
            }
        })
    }

    fn buffer() -> Way {
        Way::Buffer(vec![0; BUFFER_BYTES as usize])
    }

    /// Moves at most `bytes_max` bytes.
    fn step(&mut self, from: &End<'_>, to: &End<'_>, bytes_max: u64) -> io::Result<Step> {
        match (self, from, to) {
            (Way::Range, End::File(from), End::File(to)) => copy_range(from, to, bytes_max),
            (Way::SendFile, End::File(file), End::Socket(socket)) => {
                let offset = (&mut &**file).stream_position()?;
                match socket.send_part(file, offset, bytes_max) {
                    Err(error) if is_refusal(&error) => Ok(Step::Refused),
                    Err(error) => Err(error),
                    Ok(count) => {
                        (&mut &**file).seek(SeekFrom::Start(offset + count))?;
                        Ok(Step::Moved(count))
                    }
                }
            }
            (Way::Direct, from, to) => move_directly(from, to, bytes_max),
            (Way::Through { reader, writer }, from, to) => {
                let count = match fill(from, writer.as_fd(), bytes_max.min(CHUNK_BYTES))? {
                    Step::Moved(count) if count > 0 => count,
                    step => return Ok(step),
                };
                drain(reader.as_fd(), to, count)?;
                Ok(Step::Moved(count))
            }
            (Way::Buffer(buffer), from, to) => {
                let length = bytes_max.min(BUFFER_BYTES) as usize;
                let count = match from.read(&mut buffer[..length]) {
                    Err(error) if is_dry(&error) && from.is_nonblocking() => return Ok(Step::Dry),
                    result => result?,
                };
                to.write_all(&buffer[..count])?;
                Ok(Step::Moved(count as u64))
            }
            _ => unreachable!("the way is chosen by its ends"),
        }
    }
}

/// Copies from file to file, at their positions.
fn copy_range(mut from: &File, mut to: &File, bytes_max: u64) -> io::Result<Step> {
    let mut starts = [from.stream_position()?, to.stream_position()?];
    let [source, target] = &mut starts;
    let length = bytes_max.min(RANGE_BYTES) as usize;
    let copied = offload::perform(|| {
        let (from, to) = (from.as_fd(), to.as_fd());
        let copy = || rustix::fs::copy_file_range(from, Some(source), to, Some(target), length);
        Ok(retry_on_intr(copy)?)
    });
    match copied {
        Err(error) if is_refusal(&error) => Ok(Step::Refused),
        Err(error) => Err(error),
        Ok(count) => {
            from.seek(SeekFrom::Start(starts[0]))?;
            to.seek(SeekFrom::Start(starts[1]))?;
            Ok(Step::Moved(count as u64))
        }
    }
}

/// Moves bytes from or to a pipe.
fn move_directly(from: &End<'_>, to: &End<'_>, bytes_max: u64) -> io::Result<Step> {
    let length = bytes_max.min(CHUNK_BYTES);
    loop {
        match move_once(from.fd(), from.file(), to, length) {
            Err(error) if is_refusal(&error) => return Ok(Step::Refused),
            Err(error) if is_dry(&error) => {}
            result => return result.map(Step::Moved),
        }
        // The kernel does not report which of the two ends would block.
        if !from.is_file() && native::ready_now(from.fd(), PollFlags::IN)?.is_empty() {
            if from.is_nonblocking() {
                return Ok(Step::Dry);
            }
            from.await_bytes()?;
        } else {
            to.await_room()?;
        }
        turn::yield_within_call()?;
    }
}

/// Moves bytes from a socket into the internal pipe, which is empty.
fn fill(from: &End<'_>, writer: BorrowedFd<'_>, length: u64) -> io::Result<Step> {
    loop {
        match call(from.fd(), None, writer, None, length) {
            Err(error) if is_refusal(&error) => return Ok(Step::Refused),
            Err(error) if is_dry(&error) && from.is_nonblocking() => return Ok(Step::Dry),
            Err(error) if is_dry(&error) => from.await_bytes()?,
            result => return result.map(Step::Moved),
        }
    }
}

/// Moves the `length` bytes in the internal pipe to the destination.
fn drain(reader: BorrowedFd<'_>, to: &End<'_>, mut length: u64) -> io::Result<()> {
    while length > 0 {
        match move_once(reader, None, to, length) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => length -= count,
            Err(error) if is_dry(&error) => to.await_room()?,
            Err(error) if is_refusal(&error) => {
                let mut bytes = vec![0; length as usize];
                let count = retry_on_intr(|| rustix::io::read(reader, &mut bytes[..]))?;
                to.write_all(&bytes[..count])?;
                length -= count as u64;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes one `splice` call. A call that involves a file uses its position, and runs on a pool
/// thread as it may wait for the disk.
fn move_once(
    from: BorrowedFd<'_>,
    from_file: Option<&File>,
    to: &End<'_>,
    length: u64,
) -> io::Result<u64> {
    let (to, to_file) = (to.fd(), to.file());
    if from_file.is_none() && to_file.is_none() {
        return call(from, None, to, None, length);
    }
    let position = |file: Option<&File>| file.map(|mut file| file.stream_position()).transpose();
    let (mut source, mut target) = (position(from_file)?, position(to_file)?);
    let count = offload::perform(|| call(from, source.as_mut(), to, target.as_mut(), length))?;
    for (file, position) in [(from_file, source), (to_file, target)] {
        if let (Some(mut file), Some(position)) = (file, position) {
            file.seek(SeekFrom::Start(position))?;
        }
    }
    Ok(count)
}

fn call(
    from: BorrowedFd<'_>,
    mut from_offset: Option<&mut u64>,
    to: BorrowedFd<'_>,
    mut to_offset: Option<&mut u64>,
    length: u64,
) -> io::Result<u64> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let count = retry_on_intr(|| {
        let (from_offset, to_offset) = (from_offset.as_deref_mut(), to_offset.as_deref_mut());
        rustix::pipe::splice(from, from_offset, to, to_offset, length as usize, flags)
    })?;
    Ok(count as u64)
}

fn is_dry(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns `true` if the kernel does not move bytes between these descriptors: for example because
/// a file is opened for appending, the file systems do not support it, or a seccomp filter forbids
/// the call.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::INVAL
                | Errno::BADF
                | Errno::XDEV
                | Errno::NOSYS
                | Errno::OPNOTSUPP
                | Errno::PERM
                | Errno::TXTBSY
        )
    )
}

//! Operations as ordinary blocking system calls, for callers outside the runtime.

#[cfg(feature = "backtrace")]
pub(crate) mod call_stack;

pub(crate) mod blocked;
pub(crate) mod file;
pub(crate) mod interrupt;
pub(crate) mod message;
mod preemptions;
pub(crate) mod several;
pub(in crate::driver) mod socket;
pub(crate) mod standard_error;
pub(crate) mod stillness;
pub(crate) mod tcp;

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::pipe::PIPE_BUF;
use rustix::time::ClockId;

pub(super) use self::preemptions::preemptions;
use self::socket::Call;
use crate::op::fs::{FileOperation, OpenHow};
use crate::op::net::SocketOperation;
use crate::op::{CallResult, Operation};

/// The time at which a blocking call gives up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    /// One attempt, which blocks only if the descriptor does.
    Immediate,
    Never,
    At(Instant),
}

impl Deadline {
    pub(crate) fn new(deadline: Option<Instant>) -> Deadline {
        deadline.map_or(Deadline::Never, Deadline::At)
    }

    /// Returns the remaining time in the form of a system call.
    fn remaining(self) -> Option<Timespec> {
        match self {
            Deadline::Immediate => Some(Timespec::default()),
            Deadline::Never => None,
            Deadline::At(deadline) => {
                let remaining = deadline.saturating_duration_since(Instant::now());
                Some(timespec(remaining))
            }
        }
    }
}

/// Returns the time of the system's monotonic clock, which all processes read alike.
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The reaction to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// Fail with `ECANCELED`.
    Cancelled,
    /// Retry.
    Again,
    /// Behave as `std`: reads and writes return the error, so that a program can check a flag that
    /// its handler has set.
    Reported,
}

/// Performs the operation on the calling thread. Calls `interrupted` after a signal to decide how
/// to react.
///
/// # Errors
///
/// `EAGAIN` once the deadline has passed; any other error that the system call reports.
pub(crate) fn perform(
    operation: &mut Operation<'_>,
    deadline: Deadline,
    interrupted: impl Fn() -> Interrupted,
) -> CallResult {
    loop {
        let result = match (call(operation, deadline), awaited_events(operation)) {
            // Past the deadline on a descriptor that never blocks, or one that this crate has made
            // non-blocking.
            (Err(Errno::AGAIN), Some((fd, events))) if !matches!(deadline, Deadline::Immediate) => {
                match wait_ready(fd, events, deadline) {
                    Ok(_) => continue,
                    Err(errno) => Err(errno),
                }
            }
            (result, _) => result,
        };
        if result != Err(Errno::INTR) {
            return result;
        }
        match interrupted() {
            Interrupted::Cancelled => return Err(Errno::CANCELED),
            Interrupted::Reported if !retries_interruption(operation) => return result,
            Interrupted::Reported | Interrupted::Again => {}
        }
    }
}

/// Sleeps until the deadline.
pub(crate) fn sleep_until(deadline: Instant) {
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return;
        }
        let _ = rustix::event::poll(&mut [], Some(&timespec(rest)));
    }
}

/// Converts a duration to the kernel's form. A duration that is too long is truncated, and the
/// caller waits again.
pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

/// Returns `true` if `std` retries the call after a signal.
fn retries_interruption(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::Socket(
            SocketOperation::Receive(_)
                | SocketOperation::Send(_)
                | SocketOperation::ReceiveMessage(_)
                | SocketOperation::SendMessage(_)
        ) | Operation::File(
            FileOperation::Read { .. }
                | FileOperation::Write { .. }
                | FileOperation::ReadVectored { .. }
                | FileOperation::WriteVectored { .. }
        )
    )
}

/// Returns the events that an operation on a socket waits for, if it reports `EAGAIN` where it
/// would wait.
fn awaited_events<'a>(operation: &Operation<'a>) -> Option<(BorrowedFd<'a>, PollFlags)> {
    fn of<'a>(call: &impl Call<'a>) -> Option<(BorrowedFd<'a>, PollFlags)> {
        Some((call.target().fd, call.events()))
    }
    let Operation::Socket(operation) = operation else {
        return None;
    };
    match operation {
        SocketOperation::Accept(call) => of(call),
        SocketOperation::Receive(call) => of(call),
        SocketOperation::ReceiveMessage(call) => of(call),
        SocketOperation::Send(call) => of(call),
        SocketOperation::SendMessage(call) => of(call),
        SocketOperation::Connect(_) | SocketOperation::Poll(_) => None,
    }
}

/// Waits for one of the events and returns those that have occurred, or `EAGAIN` once the deadline
/// has passed.
fn wait_ready(
    fd: BorrowedFd<'_>,
    events: PollFlags,
    deadline: Deadline,
) -> rustix::io::Result<PollFlags> {
    let mut awaited = [PollFd::from_borrowed_fd(fd, events)];
    match rustix::event::poll(&mut awaited, deadline.remaining().as_ref())? {
        0 => Err(Errno::AGAIN),
        _ => Ok(awaited[0].revents()),
    }
}

/// Makes one attempt. Blocks only if the deadline permits that.
fn call(operation: &mut Operation<'_>, deadline: Deadline) -> rustix::io::Result<u32> {
    match operation {
        Operation::Socket(operation) => call_socket(operation, deadline),
        Operation::File(operation) => {
            if let Deadline::At(_) = deadline {
                wait_for_stream(operation, deadline)?;
            }
            call_file(operation)
        }
        Operation::Multishot(_) | Operation::Raw(_) => Err(Errno::OPNOTSUPP),
    }
}

/// Waits until a read or write on a descriptor that may wait for others, such as a pipe, will not
/// block, and shortens the write accordingly.
fn wait_for_stream(
    operation: &mut FileOperation<'_>,
    deadline: Deadline,
) -> rustix::io::Result<()> {
    let (file, events, bytes) = match operation {
        FileOperation::Read { file, buffer, .. } => (file, PollFlags::IN, buffer.len()),
        FileOperation::ReadVectored { file, buffers, .. } => {
            let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
            (file, PollFlags::IN, bytes)
        }
        FileOperation::Write { file, buffer, .. } => (file, PollFlags::OUT, buffer.len()),
        // Several buffers are written as a whole: a slow reader may block the call.
        FileOperation::WriteVectored { file, buffers, .. } => {
            let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
            (file, PollFlags::OUT, bytes)
        }
        FileOperation::Open { .. } | FileOperation::Sync { .. } => return Ok(()),
    };
    if bytes == 0 {
        return Ok(()); // The call itself waits for nothing.
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file.fd)?.st_mode);
    if matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(());
    }
    wait_ready(file.fd, events, deadline)?;
    if let FileOperation::Write { buffer, .. } = operation {
        // A writable pipe accepts this many bytes without blocking.
        *buffer = &buffer[..buffer.len().min(PIPE_BUF)];
    }
    Ok(())
}

fn call_socket(operation: &mut SocketOperation<'_>, deadline: Deadline) -> rustix::io::Result<u32> {
    let bounded = matches!(deadline, Deadline::At(_));
    match operation {
        SocketOperation::Accept(accept) => {
            if bounded {
                socket::look_for_connection(accept.listener.fd)?;
            }
            accept.call(!bounded)
        }
        SocketOperation::Connect(connect) if bounded => {
            socket::connect_until(connect.socket.fd, connect.address, deadline).map(|()| 0)
        }
        SocketOperation::Connect(connect) => connect.call(true),
        SocketOperation::Receive(receive) => receive.call(!bounded),
        SocketOperation::Send(send) => send.call(!bounded),
        SocketOperation::ReceiveMessage(receive) => receive.call(!bounded),
        SocketOperation::SendMessage(send) => send.call(!bounded),
        SocketOperation::Poll(poll) => socket::poll_until(poll, deadline),
    }
}

pub(super) fn call_file(operation: &mut FileOperation<'_>) -> rustix::io::Result<u32> {
    match operation {
        FileOperation::Open {
            directory,
            path,
            how,
        } => open(directory.unwrap_or(CWD), path, how).map(result_of),
        FileOperation::Read {
            file,
            buffer,
            offset,
        } => match offset {
            Some(offset) => rustix::io::pread(file.fd, &mut **buffer, *offset),
            None => rustix::io::read(file.fd, &mut **buffer),
        }
        .map(count_of),
        FileOperation::Write {
            file,
            buffer,
            offset,
        } => match offset {
            Some(offset) => rustix::io::pwrite(file.fd, buffer, *offset),
            None => rustix::io::write(file.fd, buffer),
        }
        .map(count_of),
        FileOperation::ReadVectored {
            file,
            buffers,
            offset,
        } => match offset {
            Some(offset) => rustix::io::preadv(file.fd, buffers, *offset),
            None => rustix::io::readv(file.fd, buffers),
        }
        .map(count_of),
        FileOperation::WriteVectored {
            file,
            buffers,
            offset,
        } => match offset {
            Some(offset) => rustix::io::pwritev(file.fd, buffers, *offset),
            None => rustix::io::writev(file.fd, buffers),
        }
        .map(count_of),
        FileOperation::Sync { file, data_only } => {
            let result = if *data_only {
                rustix::fs::fdatasync(file.fd)
            } else {
                rustix::fs::fsync(file.fd)
            };
            result.map(|()| 0)
        }
    }
}

/// Opens a path with the requested arguments.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    path: &CStr,
    how: &OpenHow,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(how.flags as u32);
    let mode = Mode::from_bits_retain(how.mode as u32);
    match how.resolve {
        // `openat` ignores flags that `openat2` refuses.
        0 => rustix::fs::openat(directory, path, flags, mode),
        resolve => {
            let resolve = ResolveFlags::from_bits_retain(resolve);
            rustix::fs::openat2(directory, path, flags, mode, resolve)
        }
    }
}

/// Returns the events, including errors and hang-ups, that have occurred.
pub(crate) fn ready_now(fd: BorrowedFd<'_>, events: PollFlags) -> rustix::io::Result<PollFlags> {
    let mut asked = [PollFd::from_borrowed_fd(fd, events)];
    rustix::event::poll(&mut asked, Some(&Timespec::default()))?;
    Ok(asked[0].revents())
}

/// Converts a count, which the kernel has limited to `MAX_RW_COUNT`.
pub(super) fn count_of(count: usize) -> u32 {
    u32::try_from(count).expect("the kernel moves less than 2 GiB at once")
}

/// Converts a new descriptor to the result of an operation. The receiver of the result takes
/// ownership.
pub(super) fn result_of(fd: OwnedFd) -> u32 {
    fd.into_raw_fd().cast_unsigned()
}

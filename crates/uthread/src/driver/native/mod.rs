//! Operations as ordinary blocking system calls: what a call outside the runtime becomes.

pub(crate) mod blocked;
pub(crate) mod interrupt;
pub(crate) mod message;
pub(crate) mod several;
pub(in crate::driver) mod socket;
pub(crate) mod tcp;

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::pipe::PIPE_BUF;

use crate::op::Operation;
use crate::op::fs::{FileOperation, OpenHow};
use crate::op::net::SocketOperation;

/// When a blocking call gives up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    /// One try, which waits if the descriptor does.
    Immediate,
    Never,
    At(Instant),
}

impl Deadline {
    pub(crate) fn new(deadline: Option<Instant>) -> Deadline {
        deadline.map_or(Deadline::Never, Deadline::At)
    }

    /// As a system call takes it.
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

/// What to do after a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// Fail with `ECANCELED`.
    Cancelled,
    /// Try again.
    Again,
    /// As `std`: reads and writes report it, so that a program can look at what its handler noted.
    Reported,
}

/// Carries the operation out on the calling thread. After a signal it asks what to do.
///
/// # Errors
///
/// The kernel's; `EAGAIN` once the deadline has passed.
pub(crate) fn perform(
    operation: &mut Operation<'_>,
    deadline: Deadline,
    interrupted: impl Fn() -> Interrupted,
) -> io::Result<u32> {
    loop {
        let result = match (call(operation, deadline), awaited_events(operation)) {
            // Out of deadline in a descriptor that never blocks, or one made non-blocking for us.
            (Err(Errno::AGAIN), Some((fd, events))) if !matches!(deadline, Deadline::Immediate) => {
                match wait_ready(fd, events, deadline) {
                    Ok(_) => continue,
                    Err(errno) => Err(errno),
                }
            }
            (result, _) => result,
        };
        if result != Err(Errno::INTR) {
            return Ok(result?);
        }
        match interrupted() {
            Interrupted::Cancelled => return Err(Errno::CANCELED.into()),
            Interrupted::Reported if !retries_interruption(operation) => return Ok(result?),
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
        let _ = rustix::thread::nanosleep(&timespec(rest));
    }
}

/// A time as the kernel takes it; one that is too long is cut, and who waited looks around and waits again.
pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

/// Whether `std` tries again after a signal.
fn retries_interruption(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::Socket(
            SocketOperation::Receive { .. }
                | SocketOperation::Send { .. }
                | SocketOperation::ReceiveMessage { .. }
                | SocketOperation::SendMessage { .. }
        ) | Operation::File(
            FileOperation::Read { .. }
                | FileOperation::Write { .. }
                | FileOperation::ReadVectored { .. }
                | FileOperation::WriteVectored { .. }
        )
    )
}

/// What an operation on a socket waits for, if it waits.
fn awaited_events<'a>(operation: &'a Operation<'_>) -> Option<(BorrowedFd<'a>, PollFlags)> {
    match operation {
        Operation::Socket(SocketOperation::Accept { listener, .. }) => {
            Some((listener.fd, PollFlags::IN))
        }
        Operation::Socket(
            SocketOperation::Receive { socket, .. }
            | SocketOperation::ReceiveMessage { socket, .. },
        ) => Some((socket.fd, PollFlags::IN)),
        Operation::Socket(
            SocketOperation::Send { socket, .. } | SocketOperation::SendMessage { socket, .. },
        ) => Some((socket.fd, PollFlags::OUT)),
        _ => None,
    }
}

/// Waits until one of the events is there, and says which; `EAGAIN` once the deadline has passed.
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

/// One try; blocks only where that is what the deadline allows.
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

/// Waits until a read or write of what may wait for others, as a pipe, does not, and cuts it to that.
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
        // Of several buffers, the whole: a slow reader may hold it up.
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
        // So much a pipe takes without waiting once it says that it is writable.
        *buffer = &buffer[..buffer.len().min(PIPE_BUF)];
    }
    Ok(())
}

fn call_socket(operation: &mut SocketOperation<'_>, deadline: Deadline) -> rustix::io::Result<u32> {
    let bounded = matches!(deadline, Deadline::At(_));
    match operation {
        SocketOperation::Poll { descriptor, events } => {
            let ready = wait_ready(descriptor.fd, *events, deadline)?;
            return Ok(ready.bits().into());
        }
        SocketOperation::Connect { socket, address } if bounded => {
            return socket::connect_until(socket.fd, address, deadline).map(|()| 0);
        }
        SocketOperation::Accept { listener, .. } if bounded => {
            socket::look_for_connection(listener.fd)?;
        }
        _ => {}
    }
    socket::call(operation, !bounded)
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
        FileOperation::Sync { file, data_only } => match data_only {
            true => rustix::fs::fdatasync(file.fd),
            false => rustix::fs::fsync(file.fd),
        }
        .map(|()| 0),
    }
}

/// Opens a path as it is asked for.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    path: &CStr,
    how: &OpenHow,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(how.flags as u32);
    let mode = Mode::from_bits_retain(how.mode as u32);
    match how.resolve {
        // Lenient with flags, where `openat2` refuses what it would ignore.
        0 => rustix::fs::openat(directory, path, flags, mode),
        resolve => {
            let resolve = ResolveFlags::from_bits_retain(resolve);
            rustix::fs::openat2(directory, path, flags, mode, resolve)
        }
    }
}

/// Which of the events, or what ends waits for any, are there now.
pub(crate) fn ready_now(fd: BorrowedFd<'_>, events: PollFlags) -> rustix::io::Result<PollFlags> {
    let mut asked = [PollFd::from_borrowed_fd(fd, events)];
    rustix::event::poll(&mut asked, Some(&Timespec::default()))?;
    Ok(asked[0].revents())
}

/// A count that the kernel has bounded by `MAX_RW_COUNT`.
pub(super) fn count_of(count: usize) -> u32 {
    u32::try_from(count).expect("the kernel moves less than 2 GiB at once")
}

/// A new descriptor in the form every operation's result has; its taker owns it again.
pub(super) fn result_of(fd: OwnedFd) -> u32 {
    fd.into_raw_fd().cast_unsigned()
}

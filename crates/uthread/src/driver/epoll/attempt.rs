//! Operations by system calls that do not wait.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::PollFlags;
use rustix::fs::{CWD, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::interest_table::{Interest, InterestTable};
use crate::driver::native;
use crate::op::fs::{CURRENT_POSITION, FileOperation, OpenHow};
use crate::op::net::SocketOperation;
use crate::op::{Operation, transfer_length};
use crate::resource::descriptor::Descriptor;

/// What an attempt came to.
pub(super) enum Attempt {
    /// The operation is complete.
    Done(rustix::io::Result<u32>),
    /// Another attempt is worth making after an event.
    NotReady,
    /// Only who may block can complete it, of which so many bytes are done.
    Blocks(usize),
}

/// For what an operation waits, if there are events for it.
pub(super) fn interest<'a>(operation: &Operation<'a>) -> Option<(Descriptor<'a>, Interest)> {
    let interest = match operation {
        Operation::Socket(
            SocketOperation::Accept { .. }
            | SocketOperation::Receive { .. }
            | SocketOperation::ReceiveMessage { .. },
        )
        | Operation::File(FileOperation::Read { .. } | FileOperation::ReadVectored { .. }) => {
            Interest::IN
        }
        Operation::Socket(
            SocketOperation::Send { .. }
            | SocketOperation::SendMessage { .. }
            | SocketOperation::Connect { .. },
        )
        | Operation::File(FileOperation::Write { .. } | FileOperation::WriteVectored { .. }) => {
            Interest::OUT
        }
        Operation::Socket(SocketOperation::Poll { events, .. }) => {
            let directions = (
                events.intersects(PollFlags::IN | PollFlags::PRI),
                events.contains(PollFlags::OUT),
            );
            match directions {
                (true, false) => Interest::IN,
                (false, true) => Interest::OUT,
                _ => Interest::BOTH,
            }
        }
        Operation::File(FileOperation::Open { .. } | FileOperation::Sync { .. })
        | Operation::Multishot(_)
        | Operation::Raw(_) => return None,
    };
    Some((operation.target()?, interest))
}

/// Whether an operation moves bytes over a connection, or a datagram.
pub(super) fn is_on_connection(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Socket(
            SocketOperation::Receive { .. }
                | SocketOperation::ReceiveMessage { .. }
                | SocketOperation::Send { .. }
                | SocketOperation::SendMessage { .. }
        )
    )
}

/// Tries to carry an operation out.
pub(super) fn try_now(operation: &mut Operation<'_>, interests: &mut InterestTable) -> Attempt {
    match operation {
        Operation::Socket(operation) => {
            let Some(result) = try_socket(operation) else {
                return Attempt::NotReady;
            };
            mark_drained(operation, &result, interests);
            Attempt::Done(result)
        }
        Operation::File(operation) => try_file(operation, interests),
        Operation::Multishot(_) | Operation::Raw(_) => Attempt::Done(Err(Errno::OPNOTSUPP)),
    }
}

fn try_file(operation: &mut FileOperation<'_>, interests: &mut InterestTable) -> Attempt {
    match operation {
        FileOperation::Read {
            file,
            buffer,
            offset,
        } => {
            let length = transfer_length(buffer) as usize;
            *buffer = &mut mem::take(buffer)[..length];
            transfer(*file, PollFlags::IN, length, interests, |flags| {
                let mut rest = [IoSliceMut::new(buffer)];
                let count = rustix::io::preadv2(file.fd, &mut rest, position(*offset), flags)?;
                *buffer = &mut mem::take(buffer)[count..];
                Ok(advance(offset, count))
            })
        }
        FileOperation::Write {
            file,
            buffer,
            offset,
        } => {
            let length = transfer_length(buffer) as usize;
            *buffer = &buffer[..length];
            transfer(*file, PollFlags::OUT, length, interests, |flags| {
                let rest = [IoSlice::new(buffer)];
                let count = rustix::io::pwritev2(file.fd, &rest, position(*offset), flags)?;
                *buffer = &buffer[count..];
                Ok(advance(offset, count))
            })
        }
        FileOperation::ReadVectored {
            file,
            buffers,
            offset,
        } => {
            let length = buffers.iter().map(|buffer| buffer.len()).sum();
            transfer(*file, PollFlags::IN, length, interests, |flags| {
                let count = rustix::io::preadv2(file.fd, buffers, position(*offset), flags)?;
                IoSliceMut::advance_slices(buffers, count);
                Ok(advance(offset, count))
            })
        }
        FileOperation::WriteVectored {
            file,
            buffers,
            offset,
        } => {
            let length = buffers.iter().map(|buffer| buffer.len()).sum();
            transfer(*file, PollFlags::OUT, length, interests, |flags| {
                let count = rustix::io::pwritev2(file.fd, buffers, position(*offset), flags)?;
                IoSlice::advance_slices(buffers, count);
                Ok(advance(offset, count))
            })
        }
        FileOperation::Open {
            directory,
            path,
            how,
        } => try_open(directory.unwrap_or(CWD), path, how),
        FileOperation::Sync { .. } => Attempt::Blocks(0),
    }
}

fn try_open(directory: BorrowedFd<'_>, path: &CStr, how: &OpenHow) -> Attempt {
    let creating = OFlags::CREATE | OFlags::TRUNC | OFlags::TMPFILE;
    if flags_of(how).intersects(creating.difference(OFlags::DIRECTORY)) {
        return Attempt::Blocks(0);
    }
    // What is not in memory, or refused by kernels that do not know the flag.
    match open_without_waiting(directory, path, how, ResolveFlags::CACHED) {
        Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM) => Attempt::Blocks(0),
        result => Attempt::Done(result.map(native::result_of)),
    }
}

fn try_socket(operation: &mut SocketOperation<'_>) -> Option<rustix::io::Result<u32>> {
    if let SocketOperation::Accept {
        listener,
        raised_nonblock,
        ..
    } = operation
        && let Err(errno) = raise_nonblock(listener.fd, raised_nonblock)
    {
        return Some(Err(errno));
    }
    native::socket::try_now(operation)
}

/// What an operation comes to that finds nothing after the end: of a shut down listener or datagram socket
/// the kernel says so only to who blocks.
pub(super) fn at_end(operation: &mut Operation<'_>) -> Option<rustix::io::Result<u32>> {
    let (descriptor, _) = interest(operation)?;
    let ready = retry_on_intr(|| native::ready_now(descriptor.fd, PollFlags::RDHUP));
    let has_ended = ready.is_ok_and(|ready| ready.contains(PollFlags::RDHUP));
    let Operation::Socket(operation) = operation else {
        return None;
    };
    match operation {
        _ if !has_ended => None,
        SocketOperation::Accept { .. } => Some(Err(Errno::INVAL)),
        SocketOperation::Receive { .. } => Some(Ok(0)),
        SocketOperation::ReceiveMessage { message, .. } => {
            message.clear();
            Some(Ok(0))
        }
        _ => None,
    }
}

/// A connection that gave less than it was asked for, or took less, has no more at the moment; or an event of urgent data has
/// come, which counts as final.
fn mark_drained(
    operation: &SocketOperation<'_>,
    result: &rustix::io::Result<u32>,
    interests: &mut InterestTable,
) {
    let count = result.map_or(0, |count| count as usize);
    match operation {
        SocketOperation::Receive {
            socket,
            buffer,
            peek: false,
            drains: true,
        } if (1..buffer.len()).contains(&count)
            && interests.is_registered(*socket)
            && native::tcp::drains(*socket) =>
        {
            interests.mark_unready(*socket, Interest::IN);
        }
        SocketOperation::Send { socket, buffer } if (1..buffer.len()).contains(&count) => {
            interests.mark_unready(*socket, Interest::OUT);
        }
        _ => {}
    }
}

/// `accept` has no flag for "do not wait"; our own calls do not notice, and a conversion to `std` undoes it.
fn raise_nonblock(fd: BorrowedFd<'_>, raised: &AtomicBool) -> rustix::io::Result<()> {
    if !raised.load(Ordering::Relaxed) {
        rustix::io::ioctl_fionbio(fd, true)?;
        raised.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Moves bytes by calls that do not wait, each of which moves the operation on past what it has done.
///
/// What has no readiness, as a file on a disk, gives as much as it has in memory: of it all is wanted. What
/// has, as a pipe, gives what there is.
fn transfer(
    file: Descriptor<'_>,
    direction: PollFlags,
    length: usize,
    interests: &mut InterestTable,
    mut call: impl FnMut(ReadWriteFlags) -> rustix::io::Result<usize>,
) -> Attempt {
    if file.state.is_direct() {
        // Once begun, the kernel waits for the disk, whatever the flag says.
        return Attempt::Blocks(0);
    }
    let mut done = 0;
    loop {
        let result = retry_on_intr(|| call(ReadWriteFlags::NOWAIT));
        match result {
            Ok(0) => return Attempt::Done(Ok(native::count_of(done))),
            Ok(count) => done += count,
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => {}
            Err(_) if done > 0 => return Attempt::Done(Ok(native::count_of(done))),
            Err(errno) => return Attempt::Done(Err(errno)),
        }
        if done == length {
            return Attempt::Done(Ok(native::count_of(length)));
        }
        match (interests.register(file), result) {
            (Err(errno), _) => return Attempt::Done(Err(errno)),
            (Ok(true), Ok(_)) => return Attempt::Done(Ok(native::count_of(done))),
            (Ok(true), Err(_)) => return try_pollable(file, direction, &mut call),
            (Ok(false), Ok(_)) => {}
            (Ok(false), Err(_)) => return Attempt::Blocks(done),
        }
    }
}

/// Goes on with what has readiness, and has moved nothing.
fn try_pollable(
    file: Descriptor<'_>,
    direction: PollFlags,
    call: &mut impl FnMut(ReadWriteFlags) -> rustix::io::Result<usize>,
) -> Attempt {
    let flags = rustix::fs::fcntl_getfl(file.fd);
    if flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
        // Its owner wants to know.
        let result = retry_on_intr(|| call(ReadWriteFlags::empty()));
        return Attempt::Done(result.map(native::count_of));
    }
    match retry_on_intr(|| native::ready_now(file.fd, direction)) {
        Ok(ready) if ready.is_empty() => Attempt::NotReady,
        // It cannot be asked not to wait, and would if somebody else came first.
        Ok(_) => Attempt::Blocks(0),
        Err(errno) => Attempt::Done(Err(errno)),
    }
}

fn position(offset: Option<u64>) -> u64 {
    offset.unwrap_or(CURRENT_POSITION)
}

/// Moves the offset on, if there is one; returns by how much.
fn advance(offset: &mut Option<u64>, count: usize) -> usize {
    if let Some(offset) = offset {
        *offset += count as u64;
    }
    count
}

fn flags_of(how: &OpenHow) -> OFlags {
    OFlags::from_bits_retain(how.flags as u32)
}

/// Opens without waiting for the other end of a FIFO, as the ring does.
fn open_without_waiting(
    directory: BorrowedFd<'_>,
    path: &CStr,
    how: &OpenHow,
    besides: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags_of(how);
    let waits =
        !flags.intersects(OFlags::PATH | OFlags::NONBLOCK) && !flags.contains(OFlags::DIRECTORY);
    let mut raised = *how;
    raised.resolve |= besides.bits();
    if waits {
        raised.flags |= u64::from(OFlags::NONBLOCK.bits());
    }
    let opened = retry_on_intr(|| native::open(directory, path, &raised))?;
    if waits {
        // It changes no other flag; a failure would leave one that files ignore.
        let _ = rustix::fs::fcntl_setfl(&opened, flags);
    }
    Ok(opened)
}

/// Carries out the rest of an operation of which so many bytes are done, where the caller may block.
pub(super) fn block(operation: &mut Operation<'_>, done: usize) -> rustix::io::Result<u32> {
    let Operation::File(operation) = operation else {
        unreachable!("only files have none to wait for");
    };
    if let FileOperation::Open {
        directory,
        path,
        how,
    } = operation
    {
        match open_without_waiting(directory.unwrap_or(CWD), path, how, ResolveFlags::empty()) {
            // Somebody must first let go of it.
            Err(Errno::AGAIN) => {}
            result => return result.map(native::result_of),
        }
    }
    match retry_on_intr(|| native::call_file(operation)) {
        Err(_) if done > 0 => Ok(native::count_of(done)),
        moved => moved.map(|count| count + native::count_of(done)),
    }
}

//! File operations by non-blocking system calls.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::PollFlags;
use rustix::fs::{CWD, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use crate::driver::interest_table::InterestTable;
use crate::driver::native;
use crate::driver::readiness::Interest;
use crate::op::fs::{CURRENT_POSITION, FileOperation, OpenHow};
use crate::op::transfer_length;
use crate::resource::descriptor::Descriptor;

/// The outcome of an attempt.
pub(super) enum Attempt {
    /// The operation is complete.
    Done(rustix::io::Result<u32>),
    /// An event of a registered descriptor will announce that another attempt may succeed.
    NotReady(RawFd, Interest),
    /// Only a blocking thread can complete it. This number of bytes is done.
    Blocks(usize),
}

/// Returns the descriptor and the readiness that an operation waits for, if there are events for
/// it.
pub(super) fn interest<'a>(operation: &FileOperation<'a>) -> Option<(Descriptor<'a>, Interest)> {
    match operation {
        FileOperation::Read { file, .. } | FileOperation::ReadVectored { file, .. } => {
            Some((*file, Interest::IN))
        }
        FileOperation::Write { file, .. } | FileOperation::WriteVectored { file, .. } => {
            Some((*file, Interest::OUT))
        }
        FileOperation::Open { .. } | FileOperation::Sync { .. } => None,
    }
}

/// Tries to perform an operation on a file.
pub(super) fn try_file<O>(
    operation: &mut FileOperation<'_>,
    interests: &mut InterestTable<O>,
) -> Attempt {
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
    // Data that is not in memory; or a kernel that does not support the flag.
    match open_without_waiting(directory, path, how, ResolveFlags::CACHED) {
        Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM) => Attempt::Blocks(0),
        result => Attempt::Done(result.map(native::result_of)),
    }
}

/// Transfers bytes by non-blocking calls, advancing the operation past the bytes that are done.
///
/// A file without readiness, such as one on a disk, is read or written completely, as far as its
/// data is in memory. A file with readiness, such as a pipe, transfers the available bytes.
fn transfer<O>(
    file: Descriptor<'_>,
    direction: PollFlags,
    length: usize,
    interests: &mut InterestTable<O>,
    mut call: impl FnMut(ReadWriteFlags) -> rustix::io::Result<usize>,
) -> Attempt {
    if file.state.is_direct() {
        // Once started, the kernel waits for the disk despite the flag.
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
            (Ok(true), Err(_)) => return try_pollable(file, direction, interests, &mut call),
            (Ok(false), Ok(_)) => {}
            (Ok(false), Err(_)) => return Attempt::Blocks(done),
        }
    }
}

/// Continues with a file that is registered, as it has readiness, and has transferred nothing.
fn try_pollable<O>(
    file: Descriptor<'_>,
    direction: PollFlags,
    interests: &mut InterestTable<O>,
    call: &mut impl FnMut(ReadWriteFlags) -> rustix::io::Result<usize>,
) -> Attempt {
    let flags = rustix::fs::fcntl_getfl(file.fd);
    if flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
        // The owner has made it non-blocking.
        let result = retry_on_intr(|| call(ReadWriteFlags::empty()));
        return Attempt::Done(result.map(native::count_of));
    }
    match retry_on_intr(|| native::ready_now(file.fd, direction)) {
        Ok(ready) if ready.is_empty() => {
            let (fd, interest) = (file.fd.as_raw_fd(), Interest::of(direction));
            interests.file(fd).mark_unready(interest);
            Attempt::NotReady(fd, interest)
        }
        // The call has no non-blocking form, and would wait if another reader were faster.
        Ok(_) => Attempt::Blocks(0),
        Err(errno) => Attempt::Done(Err(errno)),
    }
}

fn position(offset: Option<u64>) -> u64 {
    offset.unwrap_or(CURRENT_POSITION)
}

/// Advances the offset, if there is one, and returns by how much.
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
        // Changes no other flag. A failure would leave a flag that regular files ignore.
        let _ = rustix::fs::fcntl_setfl(&opened, flags);
    }
    Ok(opened)
}

/// Performs the rest of an operation, of which `done` bytes are done. May block.
pub(crate) fn block(operation: &mut FileOperation<'_>, done: usize) -> rustix::io::Result<u32> {
    if let FileOperation::Open {
        directory,
        path,
        how,
    } = operation
    {
        match open_without_waiting(directory.unwrap_or(CWD), path, how, ResolveFlags::empty()) {
            // The file is locked: wait until it is released.
            Err(Errno::AGAIN) => {}
            result => return result.map(native::result_of),
        }
    }
    match retry_on_intr(|| native::call_file(operation)) {
        Err(_) if done > 0 => Ok(native::count_of(done)),
        moved => moved.map(|count| count + native::count_of(done)),
    }
}

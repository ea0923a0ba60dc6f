//! Reads and writes that end without waiting.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;

use crate::op::buffers::all_empty;
use crate::op::fs::FileOperation;

/// Returns `true` if the system call of a read or a write returns at once on a descriptor that may
/// have readiness: the descriptor is non-blocking or does not support the call, or the call has a
/// list of empty buffers, with which the kernel does not reach the file.
pub(crate) fn ends_at_once(operation: &FileOperation<'_>) -> bool {
    match operation {
        FileOperation::ReadVectored { buffers, .. } if all_empty(buffers) => true,
        FileOperation::WriteVectored { buffers, .. } if all_empty(buffers) => true,
        FileOperation::Read { file, offset, .. }
        | FileOperation::ReadVectored { file, offset, .. } => {
            is_nonblocking(file.fd) || read_nothing(file.fd, *offset).is_err()
        }
        FileOperation::Write { file, offset, .. }
        | FileOperation::WriteVectored { file, offset, .. } => {
            is_nonblocking(file.fd) || write_nothing(file.fd, *offset).is_err()
        }
        FileOperation::Open { .. } | FileOperation::Sync { .. } => false,
    }
}

/// Checks whether the descriptor supports reads, and reads at an offset if there is one.
fn read_nothing(fd: BorrowedFd<'_>, offset: Option<u64>) -> rustix::io::Result<usize> {
    match offset {
        Some(offset) => rustix::io::preadv(fd, &mut [], offset),
        None => rustix::io::readv(fd, &mut []),
    }
}

/// Checks whether the descriptor supports writes, and writes at an offset if there is one.
fn write_nothing(fd: BorrowedFd<'_>, offset: Option<u64>) -> rustix::io::Result<usize> {
    match offset {
        Some(offset) => rustix::io::pwritev(fd, &[], offset),
        None => rustix::io::writev(fd, &[]),
    }
}

/// Returns `true` if the operation has one buffer, which is empty. What the call does then, and
/// whether it waits, depends on the file: on a datagram socket, for example, it sends.
pub(crate) fn has_empty_buffer(operation: &FileOperation<'_>) -> bool {
    match operation {
        FileOperation::Read { buffer, .. } => buffer.is_empty(),
        FileOperation::Write { buffer, .. } => buffer.is_empty(),
        _ => false,
    }
}

/// Queries the flag each time, as every holder of the open file may change it.
fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

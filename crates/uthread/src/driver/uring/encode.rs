//! Encoding of operations as submission entries.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{self, Fd, FsyncFlags};

use super::registered::Registered;
use crate::class::Priority;
use crate::op::fs::{CURRENT_POSITION, FileOperation, OpenHow};
use crate::op::multishot::MultishotOperation;
use crate::op::net::{SOCKET_FLAGS, SocketOperation, receive_message_flags};
use crate::op::{Operation, transfer_length};

/// Returns the entry for an operation of this priority. It points into the memory that the operation borrows, and into
/// the operation.
pub(super) fn encode(
    operation: &mut Operation<'_>,
    registered: &Registered,
    priority: Priority,
) -> Entry {
    let (fd, flags) = match operation.target() {
        // An entry without a descriptor uses neither.
        None => (Fd(-1), Flags::empty()),
        Some(target) => match registered.slot_of(target) {
            None => (Fd(target.fd.as_raw_fd()), Flags::empty()),
            Some(slot) => (Fd(slot.into()), Flags::FIXED_FILE),
        },
    };
    let entry = match operation {
        Operation::Socket(operation) => encode_socket(operation, fd),
        Operation::File(operation) => encode_file(operation, fd, registered, priority),
        Operation::Multishot(operation) => encode_multishot(operation, fd),
        Operation::Raw(_) => unreachable!("it has its entries"),
    };
    entry.flags(flags)
}

fn encode_socket(operation: &mut SocketOperation<'_>, fd: Fd) -> Entry {
    match operation {
        SocketOperation::Accept { peer, .. } => {
            opcode::Accept::new(fd, (&raw mut peer.storage).cast(), &raw mut peer.length)
                .flags(SOCKET_FLAGS.bits().cast_signed())
                .build()
        }
        SocketOperation::Connect { address, .. } => {
            opcode::Connect::new(fd, address.as_ptr().cast(), address.addr_len()).build()
        }
        SocketOperation::Receive { buffer, peek, .. } => {
            opcode::Recv::new(fd, buffer.as_mut_ptr(), transfer_length(buffer))
                .flags(if *peek { libc::MSG_PEEK } else { 0 })
                .build()
        }
        SocketOperation::Send { buffer, .. } => {
            opcode::Send::new(fd, buffer.as_ptr(), transfer_length(buffer))
                .flags(libc::MSG_NOSIGNAL)
                .build()
        }
        SocketOperation::ReceiveMessage { message, peek, .. } => {
            opcode::RecvMsg::new(fd, message.as_ptr())
                .flags(receive_message_flags(*peek).cast_unsigned())
                .build()
        }
        SocketOperation::SendMessage { message, .. } => opcode::SendMsg::new(fd, message.as_ptr())
            .flags(libc::MSG_NOSIGNAL.cast_unsigned())
            .build(),
        SocketOperation::Poll { events, .. } => {
            opcode::PollAdd::new(fd, u32::from(events.bits())).build()
        }
    }
}

fn encode_multishot(operation: &MultishotOperation<'_>, fd: Fd) -> Entry {
    match operation {
        MultishotOperation::Accept { .. } => opcode::AcceptMulti::new(fd)
            .flags(SOCKET_FLAGS.bits().cast_signed())
            .build(),
        MultishotOperation::Receive { group, .. } => opcode::RecvMulti::new(fd, group.id())
            .build()
            .flags(Flags::BUFFER_SELECT),
        MultishotOperation::Poll { events, .. } => {
            let events = u32::from(events.bits());
            let poll = opcode::PollAdd::new(fd, events);
            poll.multi(true).build()
        }
    }
}

fn encode_file(
    operation: &mut FileOperation<'_>,
    fd: Fd,
    registered: &Registered,
    priority: Priority,
) -> Entry {
    let io_priority = priority.io_priority();
    match operation {
        FileOperation::Open {
            directory,
            path,
            how,
            ..
        } => encode_open(*directory, path, how),
        FileOperation::Read { buffer, offset, .. } => {
            let length = transfer_length(buffer);
            let (start, offset) = (buffer.as_mut_ptr(), offset.unwrap_or(CURRENT_POSITION));
            match registered.buffer_of(buffer) {
                None => opcode::Read::new(fd, start, length)
                    .offset(offset)
                    .ioprio(io_priority)
                    .build(),
                Some(slot) => opcode::ReadFixed::new(fd, start, length, slot)
                    .offset(offset)
                    .ioprio(io_priority)
                    .build(),
            }
        }
        FileOperation::Write { buffer, offset, .. } => {
            let length = transfer_length(buffer);
            let (start, offset) = (buffer.as_ptr(), offset.unwrap_or(CURRENT_POSITION));
            match registered.buffer_of(buffer) {
                None => opcode::Write::new(fd, start, length)
                    .offset(offset)
                    .ioprio(io_priority)
                    .build(),
                Some(slot) => opcode::WriteFixed::new(fd, start, length, slot)
                    .offset(offset)
                    .ioprio(io_priority)
                    .build(),
            }
        }
        FileOperation::ReadVectored {
            buffers, offset, ..
        } => opcode::Readv::new(
            fd,
            // A `std` buffer has the layout of the kernel's `struct iovec`, as `std` guarantees.
            buffers.as_mut_ptr().cast(),
            buffers.len() as u32,
        )
        .offset(offset.unwrap_or(CURRENT_POSITION))
        .ioprio(io_priority)
        .build(),
        FileOperation::WriteVectored {
            buffers, offset, ..
        } => opcode::Writev::new(fd, buffers.as_ptr().cast(), buffers.len() as u32)
            .offset(offset.unwrap_or(CURRENT_POSITION))
            .ioprio(io_priority)
            .build(),
        FileOperation::Sync { data_only, .. } => {
            let mut flags = FsyncFlags::empty();
            flags.set(FsyncFlags::DATASYNC, *data_only);
            opcode::Fsync::new(fd).flags(flags).build()
        }
    }
}

fn encode_open(directory: Option<BorrowedFd<'_>>, path: &CStr, how: &OpenHow) -> Entry {
    let directory = Fd(directory.map_or(libc::AT_FDCWD, |directory| directory.as_raw_fd()));
    if how.resolve == 0 {
        // `openat` ignores flags that `openat2` refuses.
        return opcode::OpenAt::new(directory, path.as_ptr())
            .flags(how.flags as i32)
            .mode(how.mode as u32)
            .build();
    }
    // Both are the kernel's `struct open_how`.
    let how = (&raw const *how).cast::<types::OpenHow>();
    opcode::OpenAt2::new(directory, path.as_ptr(), how).build()
}

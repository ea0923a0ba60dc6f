//! Encoding of operations as submission entries.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{self, Fd, FsyncFlags};

use super::registered::Registered;
use crate::op::fs::{CURRENT_POSITION, FileOperation, OpenHow};
use crate::op::multishot::MultishotOperation;
use crate::op::net::{self, Receive, SOCKET_FLAGS, SocketOperation, receive_message_flags};
use crate::op::transfer_length;
use crate::priorities::Priority;
use crate::resource::descriptor::Descriptor;

/// Returns the entry for an operation on a socket. Like those of the functions below, it points
/// into the memory that the operation borrows, and into the operation.
pub(super) fn socket(operation: &mut SocketOperation<'_>, registered: &Registered) -> Entry {
    match operation {
        SocketOperation::Accept(accept) => on(accept.listener, registered, |fd| {
            let peer = &mut *accept.peer;
            opcode::Accept::new(fd, (&raw mut peer.storage).cast(), &raw mut peer.length)
                .flags(SOCKET_FLAGS.bits().cast_signed())
                .build()
        }),
        SocketOperation::Connect(connect) => on(connect.socket, registered, |fd| {
            let address = connect.address;
            opcode::Connect::new(fd, address.as_ptr().cast(), address.addr_len()).build()
        }),
        SocketOperation::Receive(operation) => receive(operation, registered),
        SocketOperation::Send(operation) => send(operation, registered),
        SocketOperation::ReceiveMessage(receive) => on(receive.socket, registered, |fd| {
            opcode::RecvMsg::new(fd, receive.message.as_ptr())
                .flags(receive_message_flags(receive.peek).cast_unsigned())
                .build()
        }),
        SocketOperation::SendMessage(send) => on(send.socket, registered, |fd| {
            opcode::SendMsg::new(fd, send.message.as_ptr())
                .flags(libc::MSG_NOSIGNAL.cast_unsigned())
                .build()
        }),
        SocketOperation::Poll(poll) => on(poll.descriptor, registered, |fd| {
            opcode::PollAdd::new(fd, u32::from(poll.events.bits())).build()
        }),
    }
}

/// Returns the entry for a receive.
pub(super) fn receive(receive: &mut Receive<'_>, registered: &Registered) -> Entry {
    on(receive.socket, registered, |fd| {
        let length = transfer_length(receive.buffer);
        opcode::Recv::new(fd, receive.buffer.as_mut_ptr(), length)
            .flags(if receive.peek { libc::MSG_PEEK } else { 0 })
            .build()
    })
}

/// Returns the entry for a send.
pub(super) fn send(send: &net::Send<'_>, registered: &Registered) -> Entry {
    on(send.socket, registered, |fd| {
        opcode::Send::new(fd, send.buffer.as_ptr(), transfer_length(send.buffer))
            .flags(libc::MSG_NOSIGNAL)
            .build()
    })
}

/// Returns the entry for a multishot operation.
pub(super) fn multishot(operation: &MultishotOperation<'_>, registered: &Registered) -> Entry {
    match operation {
        MultishotOperation::Accept { listener } => on(*listener, registered, |fd| {
            opcode::AcceptMulti::new(fd)
                .flags(SOCKET_FLAGS.bits().cast_signed())
                .build()
        }),
        MultishotOperation::Receive { socket, group } => on(*socket, registered, |fd| {
            let receive = opcode::RecvMulti::new(fd, group.id());
            receive.build().flags(Flags::BUFFER_SELECT)
        }),
        MultishotOperation::Poll { descriptor, events } => on(*descriptor, registered, |fd| {
            let poll = opcode::PollAdd::new(fd, u32::from(events.bits()));
            poll.multi(true).build()
        }),
    }
}

/// Returns the entry for an operation on a file, of this priority.
pub(super) fn file(
    operation: &mut FileOperation<'_>,
    registered: &Registered,
    priority: Priority,
) -> Entry {
    let io_priority = priority.io_priority();
    match operation {
        FileOperation::Open {
            directory,
            path,
            how,
        } => encode_open(*directory, path, how),
        FileOperation::Read {
            file,
            buffer,
            offset,
        } => on(*file, registered, |fd| {
            let offset = offset.unwrap_or(CURRENT_POSITION);
            encode_read(fd, buffer, offset, registered, io_priority)
        }),
        FileOperation::Write {
            file,
            buffer,
            offset,
        } => on(*file, registered, |fd| {
            let offset = offset.unwrap_or(CURRENT_POSITION);
            encode_write(fd, buffer, offset, registered, io_priority)
        }),
        FileOperation::ReadVectored {
            file,
            buffers,
            offset,
        } => on(*file, registered, |fd| {
            // A `std` buffer has the layout of the kernel's `struct iovec`, as `std` guarantees.
            opcode::Readv::new(fd, buffers.as_mut_ptr().cast(), buffers.len() as u32)
                .offset(offset.unwrap_or(CURRENT_POSITION))
                .ioprio(io_priority)
                .build()
        }),
        FileOperation::WriteVectored {
            file,
            buffers,
            offset,
        } => on(*file, registered, |fd| {
            opcode::Writev::new(fd, buffers.as_ptr().cast(), buffers.len() as u32)
                .offset(offset.unwrap_or(CURRENT_POSITION))
                .ioprio(io_priority)
                .build()
        }),
        FileOperation::Sync { file, data_only } => on(*file, registered, |fd| {
            let mut flags = FsyncFlags::empty();
            flags.set(FsyncFlags::DATASYNC, *data_only);
            opcode::Fsync::new(fd).flags(flags).build()
        }),
    }
}

/// Returns the entry that `build` returns for this descriptor, or for its slot if it is registered
/// with the ring.
fn on(
    descriptor: Descriptor<'_>,
    registered: &Registered,
    build: impl FnOnce(Fd) -> Entry,
) -> Entry {
    match registered.slot_of(descriptor) {
        None => build(Fd(descriptor.fd.as_raw_fd())),
        Some(slot) => build(Fd(slot.into())).flags(Flags::FIXED_FILE),
    }
}

fn encode_read(
    fd: Fd,
    buffer: &mut [u8],
    offset: u64,
    registered: &Registered,
    io_priority: u16,
) -> Entry {
    let (start, length) = (buffer.as_mut_ptr(), transfer_length(buffer));
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

fn encode_write(
    fd: Fd,
    buffer: &[u8],
    offset: u64,
    registered: &Registered,
    io_priority: u16,
) -> Entry {
    let (start, length) = (buffer.as_ptr(), transfer_length(buffer));
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

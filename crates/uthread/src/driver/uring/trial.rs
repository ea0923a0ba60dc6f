//! Tests of single features of a ring. Each submits the request itself to a ring of its own, and
//! checks the result.
#![allow(unsafe_code, reason = "the kernel gets pointers")]

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use std::{io, mem};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::setup;

/// A request that completes at all completes at once.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(1);

const GROUP: u16 = 1;
const BUFFER_BYTES: usize = 16;

pub(super) fn fixed_files() -> bool {
    succeeds(|ring| ring.submitter().register_files_sparse(1))
}

pub(super) fn registered_buffers() -> bool {
    succeeds(|ring| ring.submitter().register_buffers_sparse(1))
}

pub(super) fn buffer_ring() -> bool {
    succeeds(|ring| Buffers::new().lend(ring))
}

/// Tests multishot accepts: a kernel without them refuses the request; a kernel with them waits for
/// connections.
pub(super) fn multishot_accept() -> bool {
    succeeds(|ring| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build();
        // SAFETY: the request has no address buffer, so it points to no memory.
        unsafe { push(ring, &accept) };
        // SAFETY: a request that does nothing points to no memory.
        unsafe { push(ring, &opcode::Nop::new().build().user_data(1)) };
        match next(ring)? {
            (1, ..) => Ok(()),
            (_, result, _) => Err(io::Error::from_raw_os_error(-result)),
        }
    })
}

/// Tests multishot receives: of the completions for a byte and for the end of input, the first must
/// announce that more follow.
pub(super) fn multishot_receive() -> bool {
    succeeds(|ring| {
        let (socket, mut peer) = UnixStream::pair()?;
        peer.write_all(b"x")?;
        drop(peer);
        let mut buffers = Buffers::new();
        buffers.lend(ring)?;
        let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        // SAFETY: the kernel writes into the buffers, which live until it has finished with them,
        // or forever.
        unsafe { push(ring, &receive.flags(Flags::BUFFER_SELECT)) };
        let first = next(ring);
        let mut last = first.as_ref().ok().copied();
        while let Some((.., true)) = last {
            last = next(ring).ok();
        }
        if last.is_none() {
            mem::forget(buffers);
        }
        match first? {
            (_, 1, true) => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    })
}

fn succeeds(trial: impl FnOnce(&mut IoUring) -> io::Result<()>) -> bool {
    setup::ring(setup::OWN)
        .and_then(|(mut ring, _)| trial(&mut ring))
        .is_ok()
}

/// Queues the entry for submission.
///
/// # Safety
///
/// The memory that the entry points to remains valid until its completion.
unsafe fn push(ring: &mut IoUring, entry: &Entry) {
    // SAFETY: by the caller's contract.
    let pushed = unsafe { ring.submission().push(entry) };
    assert!(pushed.is_ok(), "a new ring has room");
}

/// Returns the next completion: its `user_data`, its result, and whether more follow.
fn next(ring: &mut IoUring) -> io::Result<(u64, i32, bool)> {
    let timeout = Timespec::from(TRIAL_TIMEOUT);
    ring.submitter()
        .submit_with_args(1, &SubmitArgs::new().timespec(&timeout))?;
    let entry = ring.completion().next().ok_or(io::ErrorKind::TimedOut)?;
    Ok((
        entry.user_data(),
        entry.result(),
        cqueue::more(entry.flags()),
    ))
}

/// One buffer, and the one-entry buffer ring by which it is lent to the kernel.
struct Buffers {
    entry: Box<BufferEntry>,
    buffer: Box<[u8; BUFFER_BYTES]>,
}

/// The kernel's `struct io_uring_buf`, aligned to the largest page size.
#[repr(C, align(65536))]
struct BufferEntry {
    address: u64,
    length: u32,
    id: u16,
    /// In the first entry: the tail of the buffer ring, which counts the provided buffers.
    tail: u16,
}

impl Buffers {
    fn new() -> Buffers {
        Buffers {
            entry: Box::new(BufferEntry {
                address: 0,
                length: BUFFER_BYTES as u32,
                id: 0,
                tail: 1,
            }),
            buffer: Box::new([0; BUFFER_BYTES]),
        }
    }

    fn lend(&mut self, ring: &IoUring) -> io::Result<()> {
        self.entry.address = self.buffer.as_mut_ptr().expose_provenance() as u64;
        let entry = (&raw mut *self.entry).expose_provenance() as u64;
        let submitter = ring.submitter();
        // SAFETY: the entry is a buffer ring of one; the kernel pins its page, and reads it when a
        // request arrives.
        unsafe { submitter.register_buf_ring_with_flags(entry, 1, GROUP, 0) }
    }
}

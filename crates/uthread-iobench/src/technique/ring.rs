//! A ring by itself, without a runtime.
#![allow(unsafe_code, reason = "the ring gets pointers to lent buffers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, opcode};

use super::engine::{Done, Engine};
use super::slots::Slots;
use super::{offset, to_result};
use crate::blocks::BLOCK_BYTES;
use crate::walk::Request;

/// The features of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// File and buffers are registered with the ring.
    Registered,
    /// The device is polled for completions.
    Polled,
}

/// A ring, and a buffer for each of its entries.
pub(super) struct Ring {
    ring: IoUring,
    kind: Kind,
    /// Keeps the descriptor that the entries name.
    file: File,
    slots: Slots,
    calls: u64,
}

impl Ring {
    pub(super) fn new(file: &File, depth: usize, kind: Kind) -> io::Result<Ring> {
        let mut ring = Ring {
            ring: build(depth as u32, kind == Kind::Polled)?,
            kind,
            file: file.try_clone()?,
            slots: Slots::new(file, depth)?,
            calls: 0,
        };
        if kind == Kind::Registered {
            ring.register(depth)?;
        }
        Ok(ring)
    }

    fn register(&mut self, depth: usize) -> io::Result<()> {
        let submitter = self.ring.submitter();
        submitter.register_files(&[self.file.as_raw_fd()])?;
        let slice = |slot| libc::iovec {
            iov_base: self.slots.buffer(slot).as_mut_ptr().cast(),
            iov_len: BLOCK_BYTES,
        };
        let slices: Vec<libc::iovec> = (0..depth).map(slice).collect();
        // SAFETY: the slots keep the buffers until after the ring is closed, or longer while one is
        // lent.
        unsafe { submitter.register_buffers(&slices) }
    }

    fn entry(&mut self, slot: usize, request: Request) -> Entry {
        let (fd, bytes) = (Fd(self.file.as_raw_fd()), BLOCK_BYTES as u32);
        let start = self.slots.lend(slot);
        let is_registered = self.kind == Kind::Registered;
        let (file, index) = (Fixed(0), slot as u16);
        match request {
            Request::Read(block) if is_registered => {
                opcode::ReadFixed::new(file, start, bytes, index)
                    .offset(offset(block))
                    .build()
            }
            Request::Write(block) if is_registered => {
                opcode::WriteFixed::new(file, start, bytes, index)
                    .offset(offset(block))
                    .build()
            }
            Request::Read(block) => opcode::Read::new(fd, start, bytes)
                .offset(offset(block))
                .build(),
            Request::Write(block) => opcode::Write::new(fd, start, bytes)
                .offset(offset(block))
                .build(),
            Request::Sync => opcode::Fsync::new(fd).build(),
        }
    }
}

impl Engine for Ring {
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slots.buffer(slot)
    }

    fn push(&mut self, slot: usize, request: Request) -> io::Result<()> {
        let entry = self.entry(slot, request).user_data(slot as u64);
        let mut submission = self.ring.submission();
        // SAFETY: the buffer is lent until the completion with the number of its slot.
        unsafe { submission.push(&entry) }.map_err(io::Error::other)
    }

    fn wait(&mut self, least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        while done.len() < least {
            self.calls += 1;
            match self.ring.submit_and_wait(least - done.len()) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for completion in self.ring.completion() {
                let slot = completion.user_data() as usize;
                self.slots.take_back(slot);
                let result = to_result(completion.result().into());
                done.push(Done { slot, result });
            }
        }
        Ok(())
    }

    fn calls(&self) -> Option<u64> {
        Some(self.calls)
    }
}

/// Builds a ring as its manual advises for one thread, or a plain one on older kernels.
fn build(entries: u32, is_polled: bool) -> io::Result<IoUring> {
    let builder = || {
        let mut builder = IoUring::builder();
        if is_polled {
            builder.setup_iopoll();
        }
        builder
    };
    builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| builder().build(entries))
}

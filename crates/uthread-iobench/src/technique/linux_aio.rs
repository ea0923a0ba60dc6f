//! Linux AIO, by its system calls: no dependency of this crate wraps them.
#![allow(unsafe_code, reason = "system calls that no dependency offers")]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use super::engine::{Done, Engine};
use super::slots::Slots;
use super::{offset, to_result};
use crate::blocks::BLOCK_BYTES;
use crate::walk::Request;

/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;
/// `IOCB_CMD_PWRITE`.
const WRITE: u16 = 1;
/// `IOCB_CMD_FSYNC`.
const SYNC: u16 = 2;

/// A completion: `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    _request: u64,
    result: i64,
    _result2: i64,
}

/// An AIO context of the kernel, with its file and its buffers.
pub(super) struct LinuxAio {
    context: libc::c_ulong,
    file: File,
    slots: Slots,
    /// Requests that are queued but not submitted.
    queued: Vec<libc::iocb>,
    events: Vec<Event>,
    calls: u64,
}

impl LinuxAio {
    pub(super) fn new(file: &File, depth: usize) -> io::Result<LinuxAio> {
        let (file, slots) = (file.try_clone()?, Slots::new(file, depth)?);
        let mut context: libc::c_ulong = 0;
        // SAFETY: the call writes the id of a new context.
        count_of(unsafe { libc::syscall(libc::SYS_io_setup, depth as u32, &raw mut context) })?;
        Ok(LinuxAio {
            context,
            file,
            slots,
            queued: Vec::with_capacity(depth),
            events: vec![Event::default(); depth],
            calls: 0,
        })
    }

    fn submit(&mut self) -> io::Result<()> {
        let list: Vec<*mut libc::iocb> = self.queued.iter_mut().map(ptr::from_mut).collect();
        let mut left = &list[..];
        while !left.is_empty() {
            self.calls += 1;
            // SAFETY: the kernel copies the requests; their buffers are lent until their events.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    left.len() as libc::c_long,
                    left.as_ptr(),
                )
            };
            left = &left[count_of(count)?..];
        }
        self.queued.clear();
        Ok(())
    }
}

impl Engine for LinuxAio {
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slots.buffer(slot)
    }

    fn push(&mut self, slot: usize, request: Request) -> io::Result<()> {
        // SAFETY: a plain structure, in which zeroes are valid.
        let mut entry: libc::iocb = unsafe { mem::zeroed() };
        entry.aio_fildes = self.file.as_raw_fd() as u32;
        entry.aio_data = slot as u64;
        let start = self.slots.lend(slot);
        let block = match request {
            Request::Read(block) => Some((READ, block)),
            Request::Write(block) => Some((WRITE, block)),
            Request::Sync => None,
        };
        match block {
            None => entry.aio_lio_opcode = SYNC,
            Some((opcode, block)) => {
                entry.aio_lio_opcode = opcode;
                entry.aio_buf = start as u64;
                entry.aio_nbytes = BLOCK_BYTES as u64;
                entry.aio_offset = offset(block) as i64;
            }
        }
        self.queued.push(entry);
        Ok(())
    }

    fn wait(&mut self, least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        self.submit()?;
        while done.len() < least {
            self.calls += 1;
            let missing = (least - done.len()) as libc::c_long;
            let room = self.events.len() as libc::c_long;
            let no_limit = ptr::null::<libc::timespec>();
            // SAFETY: the call writes at most `room` events, and there is room for them.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    missing,
                    room,
                    self.events.as_mut_ptr(),
                    no_limit,
                )
            };
            let count = match count_of(count) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                count => count?,
            };
            for event in &self.events[..count] {
                let slot = event.data as usize;
                self.slots.take_back(slot);
                done.push(Done {
                    slot,
                    result: to_result(event.result),
                });
            }
        }
        Ok(())
    }

    fn calls(&self) -> Option<u64> {
        Some(self.calls)
    }
}

impl Drop for LinuxAio {
    fn drop(&mut self) {
        // SAFETY: the context is destroyed once, and the call waits for its requests.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Returns the count that a system call returns, or its error.
fn count_of(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

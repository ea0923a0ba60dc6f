//! POSIX AIO, which glibc performs by threads of its own: one for all requests to the same
//! descriptor.
#![allow(
    unsafe_code,
    reason = "calls of the C library that no dependency offers"
)]

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use super::engine::{Done, Engine};
use super::offset;
use super::slots::Slots;
use crate::blocks::BLOCK_BYTES;
use crate::walk::Request;

/// Requests to the C library.
pub(super) struct PosixAio {
    file: File,
    slots: Slots,
    /// The library refers to the requests by address while they are in flight, so the vector never
    /// grows.
    requests: Vec<UnsafeCell<libc::aiocb>>,
}

impl PosixAio {
    pub(super) fn new(file: &File, depth: usize) -> io::Result<PosixAio> {
        let empty = |_| {
            // SAFETY: a plain structure of the C library, for which zeroes mean nothing.
            UnsafeCell::new(unsafe { mem::zeroed() })
        };
        Ok(PosixAio {
            file: file.try_clone()?,
            slots: Slots::new(file, depth)?,
            requests: (0..depth).map(empty).collect(),
        })
    }

    fn in_flight(&self) -> Vec<*const libc::aiocb> {
        let slots = self.slots.lent();
        slots
            .map(|slot| self.requests[slot].get().cast_const())
            .collect()
    }

    /// Collects the results of the requests that have ended.
    fn collect(&mut self, done: &mut Vec<Done>) {
        for slot in self.slots.lent().collect::<Vec<_>>() {
            let request = self.requests[slot].get();
            // SAFETY: the request was submitted.
            let result = match unsafe { libc::aio_error(request) } {
                libc::EINPROGRESS => continue,
                // SAFETY: the request has ended, and its result is taken once.
                0 => Ok(unsafe { libc::aio_return(request) } as usize),
                errno => Err(io::Error::from_raw_os_error(errno)),
            };
            self.slots.take_back(slot);
            done.push(Done { slot, result });
        }
    }
}

impl Engine for PosixAio {
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slots.buffer(slot)
    }

    fn push(&mut self, slot: usize, request: Request) -> io::Result<()> {
        // SAFETY: a plain structure of the C library, for which zeroes mean nothing.
        let mut entry: libc::aiocb = unsafe { mem::zeroed() };
        entry.aio_fildes = self.file.as_raw_fd();
        entry.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        entry.aio_buf = self.slots.lend(slot).cast();
        entry.aio_nbytes = BLOCK_BYTES;
        if let Request::Read(block) | Request::Write(block) = request {
            entry.aio_offset = offset(block) as libc::off_t;
        }
        *self.requests[slot].get_mut() = entry;
        let entry = self.requests[slot].get();
        let result = match request {
            // SAFETY: request and buffer stay in place until the request has ended.
            Request::Read(_) => unsafe { libc::aio_read(entry) },
            // SAFETY: request and buffer stay in place until the request has ended.
            Request::Write(_) => unsafe { libc::aio_write(entry) },
            // SAFETY: the request stays in place until it has ended.
            Request::Sync => unsafe { libc::aio_fsync(libc::O_SYNC, entry) },
        };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        self.slots.take_back(slot);
        Err(error)
    }

    fn wait(&mut self, least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        self.collect(done);
        while done.len() < least {
            let requests = self.in_flight();
            let (list, count) = (requests.as_ptr(), requests.len() as libc::c_int);
            // SAFETY: the requests are in flight and live; there is no limit of time.
            if unsafe { libc::aio_suspend(list, count, ptr::null()) } != 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            self.collect(done);
        }
        Ok(())
    }

    /// Returns `None`: the library's threads make the calls.
    fn calls(&self) -> Option<u64> {
        None
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        if self.slots.lent().next().is_some() {
            mem::forget(mem::take(&mut self.requests));
        }
    }
}

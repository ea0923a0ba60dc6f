//! The interest table of one epoll instance: registered descriptors, and the operations that wait
//! for their events.
//!
//! Each descriptor is registered once, edge-triggered and for all events. Events carry its number.
//! An event of an earlier file with the same number only causes a failed attempt. Operations that
//! still wait for such a file when the next one is registered are orphans: foreign code has closed
//! their descriptor. An attempt would take the bytes of the next file, so they fail.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::driver::Token;
use crate::driver::readiness::{Interest, Readiness, Waiting};
use crate::driver::token_map::TokenMap;
use crate::resource::descriptor::Descriptor;

const EVERYTHING: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::PRI)
    .union(EventFlags::ET);

pub(super) struct InterestTable<O> {
    /// Marks the states of the descriptors that are registered here.
    id: u32,
    epoll: Arc<OwnedFd>,
    /// Indexed by descriptor. Bounded by the limit of open files.
    files: Vec<Readiness<O>>,
    /// Number of waiting operations. Bounded by the number of fibers.
    waiting: usize,
    /// Operations that have waited for a file that is closed. Bounded by the number of fibers.
    orphans: Vec<Token>,
    /// The descriptor for which the operation of a token has waited last.
    latest: TokenMap<RawFd>,
}

impl<O> InterestTable<O> {
    pub(super) fn new(epoll: Arc<OwnedFd>) -> InterestTable<O> {
        // Relaxed: the number only has to be unique. It is neither zero nor the maximum, as no
        // program creates billions.
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        InterestTable {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            epoll,
            files: Vec::new(),
            waiting: 0,
            orphans: Vec::new(),
            latest: TokenMap::default(),
        }
    }

    /// Registers a descriptor. Returns `false` for a file that is always ready.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the kernel has no memory; `ENOSPC` at the limit `fs.epoll.max_user_watches`.
    pub(super) fn register(&mut self, descriptor: Descriptor<'_>) -> rustix::io::Result<bool> {
        if descriptor.state.is(self.id) {
            return Ok(true);
        }
        if descriptor.state.is_impossible() {
            return Ok(false);
        }
        let fd = descriptor.fd.as_raw_fd();
        let data = EventData::new_u64(u64::from(fd.cast_unsigned()));
        match epoll::add(&self.epoll, descriptor.fd, data, EVERYTHING) {
            Ok(()) => {
                while let Some(token) = self.file(fd).take_orphan() {
                    self.waiting -= 1;
                    self.orphans.push(token);
                }
                self.file(fd).reset();
            }
            // Registered already, by an earlier owner of the same file. A final event may have been
            // reported and is not repeated.
            Err(Errno::EXIST) => self.file(fd).assume_ready(),
            Err(Errno::PERM) => {
                descriptor.state.set_impossible();
                return Ok(false);
            }
            Err(errno) => return Err(errno),
        }
        self.file(fd).arm();
        descriptor.state.set(self.id);
        Ok(true)
    }

    /// Passes on the results of the operations that a registration has found to wait for a closed
    /// file.
    pub(super) fn end_orphans(&mut self, mut end: impl FnMut((Token, i32))) {
        let failed = -Errno::BADF.raw_os_error();
        let orphans = self.orphans.drain(..);
        orphans.for_each(|token| end((token, failed)));
    }

    /// Returns the readiness of a descriptor that is registered here.
    #[inline]
    pub(super) fn registered(&mut self, descriptor: Descriptor<'_>) -> Option<&mut Readiness<O>> {
        descriptor
            .state
            .is(self.id)
            .then(|| self.file(descriptor.fd.as_raw_fd()))
    }

    /// Makes an operation wait for a registered descriptor.
    pub(super) fn wait(&mut self, fd: RawFd, interest: Interest, waiting: Waiting<O>) {
        self.latest.insert(waiting.token, fd);
        self.waiting += 1;
        self.file(fd).wait(interest, waiting);
    }

    /// Counts an operation whose wait an event has ended.
    pub(super) fn end_wait(&mut self) {
        self.waiting -= 1;
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Removes a waiting operation. Returns `false` if it does not wait.
    pub(super) fn cancel(&mut self, token: Token) -> bool {
        let Some(fd) = self.latest.get(token) else {
            return false;
        };
        let has_waited = self.file(fd).cancel(token);
        self.waiting -= usize::from(has_waited);
        has_waited
    }

    #[inline]
    pub(super) fn file(&mut self, fd: RawFd) -> &mut Readiness<O> {
        let index = fd.cast_unsigned() as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, Readiness::new);
        }
        &mut self.files[index]
    }
}

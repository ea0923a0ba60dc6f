//! What one epoll instance watches: its interest table, and the operations that wait for events.
//!
//! Each descriptor is registered once, edge-triggered and for everything. Events carry its number: one that
//! is left from an older file of the same number only lets operations try again in vain.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{Pending, Token};
use crate::driver::latest::Latest;
use crate::resource::descriptor::Descriptor;

/// Which readiness an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interest(u8);

impl Interest {
    pub(super) const IN: Interest = Interest(1);
    pub(super) const OUT: Interest = Interest(2);
    pub(super) const BOTH: Interest = Interest(3);
    const NONE: Interest = Interest(0);

    fn intersects(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }
}

/// What ends every wait: what comes after it may come without another event. Of urgent data that is what follows its mark, at
/// which a receive ends short.
const FINAL: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR)
    .union(EventFlags::PRI);

const EVERYTHING: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::PRI)
    .union(EventFlags::ET);

pub(super) struct InterestTable {
    /// By it watchers know the descriptors that are registered here.
    id: u32,
    epoll: Arc<OwnedFd>,
    /// By descriptor: bounded by the limit of open files.
    files: Vec<File>,
    /// How many operations wait. Bounded by the number of fibers.
    waiting: usize,
    /// The descriptor for which the operation of a token waited last.
    latest: Latest<RawFd>,
}

/// What has come, and for how many that wait for its descriptor.
pub(super) struct Event {
    fd: RawFd,
    ready: Interest,
    pub(super) waiting: usize,
}

struct File {
    /// For what an attempt has found it not ready, without an event since.
    unready: Interest,
    /// Whether a final event has come.
    is_final: bool,
    /// In the order in which they came.
    waiting: VecDeque<(Interest, Pending)>,
}

impl File {
    const NEW: File = File {
        unready: Interest::NONE,
        is_final: false,
        waiting: VecDeque::new(),
    };
}

impl InterestTable {
    pub(super) fn new(epoll: Arc<OwnedFd>) -> InterestTable {
        // Relaxed: it only has to be unique. Neither zero nor the highest, as no program has billions.
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        InterestTable {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            epoll,
            files: Vec::new(),
            waiting: 0,
            latest: Latest::default(),
        }
    }

    /// Watches a descriptor from now on; false for a file that is always ready.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOMEM`, `ENOSPC` (`fs.epoll.max_user_watches`).
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
                let file = self.file(fd);
                file.unready = Interest::NONE;
                file.is_final = false;
                descriptor.state.set(self.id);
                Ok(true)
            }
            // There already where its owner has changed: of the same file, or it would be gone. What is
            // final was told of it, and is not told again.
            Err(Errno::EXIST) => {
                self.file(fd).unready = Interest::NONE;
                descriptor.state.set(self.id);
                Ok(true)
            }
            Err(Errno::PERM) => {
                descriptor.state.set_impossible();
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Whether events of a descriptor come here.
    pub(super) fn is_registered(&self, descriptor: Descriptor<'_>) -> bool {
        descriptor.state.is(self.id)
    }

    /// Whether an attempt would be in vain: the next event is still to come.
    pub(super) fn is_unready(&self, descriptor: Descriptor<'_>, interest: Interest) -> bool {
        descriptor.state.is(self.id)
            && self
                .files
                .get(index(descriptor.fd.as_raw_fd()))
                .is_some_and(|file| !file.is_final && file.unready.0 & interest.0 == interest.0)
    }

    /// Whether what has come ends every wait.
    pub(super) fn is_final(&self, fd: RawFd) -> bool {
        self.files.get(index(fd)).is_some_and(|file| file.is_final)
    }

    /// Notes that an attempt was in vain, or that the next will be, if it is registered.
    pub(super) fn mark_unready(&mut self, descriptor: Descriptor<'_>, interest: Interest) {
        if descriptor.state.is(self.id) {
            let file = self.file(descriptor.fd.as_raw_fd());
            file.unready.0 |= interest.0;
        }
    }

    /// Lets an operation wait for a descriptor that is registered.
    pub(super) fn wait(&mut self, fd: RawFd, interest: Interest, pending: Pending) {
        self.latest.insert(pending.token, fd);
        self.waiting += 1;
        self.file(fd).waiting.push_back((interest, pending));
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Forgets a waiting operation; false if it does not wait.
    pub(super) fn cancel(&mut self, token: Token) -> bool {
        let Some(fd) = self.latest.get(token) else {
            return false;
        };
        let waiting = &mut self.file(fd).waiting;
        let before = waiting.len();
        waiting.retain(|(_, pending)| pending.token != token);
        let has_waited = waiting.len() < before;
        self.waiting -= usize::from(has_waited);
        has_waited
    }

    /// Takes note of an event.
    pub(super) fn on_event(&mut self, fd: RawFd, flags: EventFlags) -> Event {
        let mut ready = Interest::NONE;
        let is_final = flags.intersects(FINAL);
        if is_final || flags.contains(EventFlags::IN) {
            ready.0 |= Interest::IN.0;
        }
        if is_final || flags.contains(EventFlags::OUT) {
            ready.0 |= Interest::OUT.0;
        }
        let file = self.file(fd);
        file.unready.0 &= !ready.0;
        file.is_final |= is_final;
        let waiting = file.waiting.len();
        Event { fd, ready, waiting }
    }

    /// Looks at the first of those that wait: hands it out if it may go on after the event, or else puts it behind the
    /// others.
    pub(super) fn take(&mut self, event: &Event) -> Option<Pending> {
        let waiting = &mut self.file(event.fd).waiting;
        let (interest, pending) = waiting.pop_front()?;
        if !interest.intersects(event.ready) {
            waiting.push_back((interest, pending));
            return None;
        }
        self.waiting -= 1;
        Some(pending)
    }

    fn file(&mut self, fd: RawFd) -> &mut File {
        let index = index(fd);
        if index >= self.files.len() {
            self.files.resize_with(index + 1, || File::NEW);
        }
        &mut self.files[index]
    }
}

fn index(fd: RawFd) -> usize {
    fd.cast_unsigned() as usize
}

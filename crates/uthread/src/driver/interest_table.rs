//! The interest table of one epoll instance: registered descriptors, and the operations that wait
//! for their events.
//!
//! Each descriptor is registered once, edge-triggered and for all events. Events carry its number.
//! An event of an earlier file with the same number only causes a failed attempt. Operations that
//! still wait for such a file when the next one is registered are orphans: foreign code has closed
//! their descriptor. An attempt would take the bytes of the next file, so they fail.
//!
//! If nothing has waited for several events of a descriptor, as a fiber of another worker uses it
//! now, the kernel reports no more of them until something waits again.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::PollFlags;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::driver::Token;
use crate::driver::readiness::{Event, Interest, Readiness, Waiting};
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
    epoll: OwnedFd,
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
    pub(super) fn new(epoll: OwnedFd) -> InterestTable<O> {
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

    /// Returns the epoll instance.
    pub(super) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
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

    /// Changes the events that the kernel reports, and makes it report those that are due. No error
    /// matters: the file is closed then, like the earlier files of this number.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code, reason = "a number that an event refers to")]
    fn change(&self, fd: RawFd, events: EventFlags) {
        let data = EventData::new_u64(u64::from(fd.cast_unsigned()));
        // SAFETY: the number only names a registration of the epoll instance, which exists for an
        // open file alone.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = epoll::modify(&self.epoll, file, data, events);
    }

    /// Makes an operation wait for a registered descriptor.
    pub(super) fn wait(&mut self, fd: RawFd, interest: Interest, waiting: Waiting<O>) {
        if self.file(fd).end_unused() {
            self.change(fd, EVERYTHING);
        }
        self.latest.insert(waiting.token, fd);
        self.waiting += 1;
        self.file(fd).wait(interest, waiting);
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

    /// Counts an event for which nothing waits. After several, makes the kernel report no more until
    /// an operation [waits](Self::wait), apart from errors.
    #[cold]
    fn ignore(&mut self, fd: RawFd) {
        if self.file(fd).count_unused() {
            self.change(fd, EventFlags::ET);
        }
    }

    /// Prefetches the operations that events of these descriptors concern, whose cache misses overlap
    /// then. Nothing would overlap with those of the first.
    #[inline]
    pub(super) fn prefetch(&self, descriptors: impl Iterator<Item = RawFd>) {
        for fd in descriptors.skip(1) {
            // The event of a descriptor of the driver itself has a number beyond all files.
            if let Some(file) = self.files.get(fd.cast_unsigned() as usize) {
                file.prefetch();
            }
        }
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

/// Handles an event of a descriptor in the `table` of `owner`. Passes each operation that it may
/// concern to `proceed`, in order; one that has to wait again moves to the end.
#[inline]
pub(super) fn on_event<T, O>(
    owner: &mut T,
    table: impl Fn(&mut T) -> &mut InterestTable<O>,
    (fd, flags): (RawFd, EventFlags),
    mut proceed: impl FnMut(&mut T, Waiting<O>),
) {
    let event = Event::new(PollFlags::from_bits_retain(flags.bits() as u16));
    let waiting = table(owner).file(fd).record(event);
    if waiting == 0 {
        return table(owner).ignore(fd);
    }
    for _ in 0..waiting {
        let interests = table(owner);
        if let Some(waiting) = interests.file(fd).take_first(event) {
            interests.waiting -= 1;
            proceed(owner, waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::ptr::NonNull;
    use std::time::Duration;

    use rustix::event::epoll::CreateFlags;

    use super::*;
    use crate::driver::events::{EVENTS_MAX, Events};
    use crate::resource::descriptor::FdState;

    /// Returns a table in which this end of a connection is registered.
    fn table_with(ours: &UnixStream) -> InterestTable<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let mut table = InterestTable::new(epoll);
        let descriptor = Descriptor {
            fd: ours.as_fd(),
            state: &FdState::new(),
        };
        assert_eq!(table.register(descriptor), Ok(true));
        table
    }

    /// Makes an operation wait for bytes.
    #[allow(unsafe_code, reason = "an operation without content")]
    fn wait(table: &mut InterestTable<()>, ours: &UnixStream, token: u64) {
        // SAFETY: nothing accesses the operation.
        let waiting = unsafe { Waiting::new(NonNull::dangling(), Token(token)) };
        table.wait(ours.as_raw_fd(), Interest::IN, waiting);
    }

    /// Takes the events that have occurred, and returns the number of those, and of the operations
    /// that they concern.
    fn take_events(table: &mut InterestTable<()>) -> (usize, usize) {
        let (mut events, mut ended) = (Events::new(), 0);
        let events = events.wait(table.epoll(), Some(Duration::ZERO), EVENTS_MAX);
        for event in &*events {
            let event = (event.data.u64() as RawFd, event.flags);
            on_event(table, |table| table, event, |_, _| ended += 1);
        }
        (events.len(), ended)
    }

    #[test]
    fn events_end_while_nobody_waits_for_them() {
        let (mut ours, mut peer) = UnixStream::pair().unwrap();
        let mut table = table_with(&ours);
        let mut events = 0;
        for _ in 0..100 {
            peer.write_all(&[1]).unwrap();
            events += take_events(&mut table).0;
            ours.read_exact(&mut [0]).unwrap();
        }
        assert!((1..50).contains(&events), "{events} events");

        for token in 0..3 {
            wait(&mut table, &ours, token);
            take_events(&mut table); // There is room to send.
            peer.write_all(&[1]).unwrap();
            assert_eq!(take_events(&mut table).1, 1, "the operation waits on");
            ours.read_exact(&mut [0]).unwrap();
        }
    }

    #[test]
    fn an_event_that_occurred_before_the_wait_is_reported() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let mut table = table_with(&ours);
        for _ in 0..100 {
            peer.write_all(&[1]).unwrap();
            take_events(&mut table);
        }
        wait(&mut table, &ours, 1);
        assert_eq!(take_events(&mut table).1, 1, "the bytes are not seen");
    }
}

//! The readiness of a descriptor, and the operations that wait for it: one state machine for all
//! drivers that are notified of readiness by edges.
//!
//! ```text
//!               an event
//!   unready -----------------> ready     every operation is tried at once
//!      ^                         |
//!      +-------------------------+
//!        `EAGAIN`, or fewer bytes transferred than requested
//! ```
//!
//! An operation on an unready descriptor waits without a system call, as an event will announce new
//! data. After a final event this does not hold: bytes or errors may arrive without another event.
//! From then on every operation is tried.
//!
//! Both the epoll driver and the ring take the events from an epoll instance.

use std::collections::VecDeque;
use std::ptr::NonNull;

use rustix::event::PollFlags;
use rustix::io::retry_on_intr;

use super::native::socket::Call;
use super::{Token, native};
use crate::cache;
use crate::op::Operation;

/// The readiness that an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interest(u8);

impl Interest {
    pub(super) const NONE: Interest = Interest(0);
    pub(super) const IN: Interest = Interest(1);
    pub(super) const OUT: Interest = Interest(2);
    pub(super) const BOTH: Interest = Interest(3);

    /// Returns the readiness that one of these events would be.
    #[inline]
    pub(super) fn of(events: PollFlags) -> Interest {
        let directions = (
            events.intersects(PollFlags::IN | PollFlags::PRI),
            events.contains(PollFlags::OUT),
        );
        match directions {
            (true, false) => Interest::IN,
            (false, true) => Interest::OUT,
            _ => Interest::BOTH,
        }
    }

    fn intersects(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }

    fn contains(self, other: Interest) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An edge: the readiness that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    ready: Interest,
    is_final: bool,
}

impl Event {
    /// Flags after which data may arrive without another event. After urgent data, this is the data
    /// after its mark, at which a receive stops short.
    const FINAL: PollFlags = PollFlags::RDHUP
        .union(PollFlags::HUP)
        .union(PollFlags::ERR)
        .union(PollFlags::PRI);

    #[inline]
    pub(super) fn new(flags: PollFlags) -> Event {
        let is_final = flags.intersects(Event::FINAL);
        let mut ready = Interest::NONE;
        if is_final || flags.contains(PollFlags::IN) {
            ready.0 |= Interest::IN.0;
        }
        if is_final || flags.contains(PollFlags::OUT) {
            ready.0 |= Interest::OUT.0;
        }
        Event { ready, is_final }
    }
}

/// An operation of type `O` that is not complete.
pub(super) struct Waiting<O> {
    pub(super) token: Token,
    operation: NonNull<O>,
}

#[allow(unsafe_code, reason = "a reference without a lifetime")]
// SAFETY: the holder alone accesses the operation until its completion is reaped, by the contract
// of `new`.
unsafe impl<O: Send> Send for Waiting<O> {}

impl<O> Waiting<O> {
    /// Creates the record of a waiting operation.
    ///
    /// # Safety
    ///
    /// The pointer is to an operation of this type, except for lifetimes, which stays alive and is
    /// not accessed until its completion is reaped.
    #[allow(unsafe_code, reason = "the operation is kept by address")]
    pub(super) unsafe fn new(operation: NonNull<O>, token: Token) -> Waiting<O> {
        Waiting { token, operation }
    }

    /// Prefetches the operation.
    fn prefetch(&self) {
        cache::prefetch(self.operation);
    }

    /// Returns the operation, which is not accessed elsewhere.
    #[allow(unsafe_code, reason = "the operation is there by promise")]
    pub(super) fn operation(&mut self) -> &mut O {
        // SAFETY: its completion was not reaped, so it is alive and not accessed elsewhere, by the
        // contract of `new`.
        unsafe { self.operation.as_mut() }
    }
}

/// Waiting operations in order of arrival.
type Queue<O> = VecDeque<(Interest, Waiting<O>)>;

/// The readiness of one descriptor. Usually a single operation waits, and half a cache line here is
/// all that its event needs.
#[repr(align(32))]
pub(super) struct Readiness<O> {
    /// `true` if the kernel reports events.
    is_armed: bool,
    /// The readiness that an attempt has found missing, without an event since.
    unready: Interest,
    /// `true` once a final event has occurred.
    is_final: bool,
    /// The readiness that the first operation waits for.
    first_interest: Interest,
    /// Number of events since the last wait, or [`MUTED`].
    unused: u8,
    /// The operation that has waited longest.
    first: Option<Waiting<O>>,
    /// The others; empty if there is no first one. Bounded by the number of fibers.
    #[allow(clippy::box_collection, reason = "mostly absent, and then a word")]
    others: Option<Box<Queue<O>>>,
}

const _: () = assert!(size_of::<Readiness<Operation<'_>>>() == 32);

/// Number of events for which nothing waits, after which the kernel need not report others: the
/// connection is used by another worker now, or has much data to be taken.
const MUTED: u8 = 16;

impl<O> Readiness<O> {
    /// Creates the readiness of a descriptor for which the kernel does not report events yet.
    pub(super) const fn new() -> Readiness<O> {
        Readiness {
            is_armed: false,
            unready: Interest::NONE,
            is_final: false,
            first_interest: Interest::NONE,
            unused: 0,
            first: None,
            others: None,
        }
    }

    /// Records that the kernel starts to report events. It reports the current readiness as the
    /// first event.
    pub(super) fn arm(&mut self) {
        self.is_armed = true;
    }

    /// Discards the state, which is that of another file.
    pub(super) fn reset(&mut self) {
        self.is_final = false;
        self.unready = Interest::NONE;
        self.unused = 0;
    }

    /// Prefetches the operation that has waited longest.
    #[inline]
    pub(super) fn prefetch(&self) {
        if let Some(first) = &self.first {
            first.prefetch();
        }
    }

    /// Records an event. Returns the number of waiting operations.
    #[inline]
    pub(super) fn record(&mut self, event: Event) -> usize {
        self.unready.0 &= !event.ready.0;
        self.is_final |= event.is_final;
        self.waiting()
    }

    /// Counts an event for which nothing waits. Returns `true` if it is to be the last one for now.
    #[cold]
    #[inline(never)]
    pub(super) fn count_unused(&mut self) -> bool {
        let is_counted = self.unused < MUTED;
        self.unused += u8::from(is_counted);
        is_counted && self.unused == MUTED
    }

    /// Records that an operation is about to wait. Returns `true` if the kernel has to report events
    /// again.
    #[inline]
    pub(super) fn end_unused(&mut self) -> bool {
        self.unused != 0 && std::mem::take(&mut self.unused) == MUTED
    }

    /// Makes the next operation be tried without an event.
    pub(super) fn assume_ready(&mut self) {
        self.unready = Interest::NONE;
    }

    /// Returns `true` if an attempt would fail, as the next event has not occurred yet.
    #[inline]
    pub(super) fn is_unready(&self, interest: Interest) -> bool {
        self.is_armed && !self.is_final && self.unready.contains(interest)
    }

    /// Records that an attempt has failed, or that the next one will.
    pub(super) fn mark_unready(&mut self, interest: Interest) {
        self.unready.0 |= interest.0;
    }

    /// Tries a call on a socket. Returns `None` if it has to wait for an event.
    #[inline]
    pub(super) fn attempt<'a>(
        &mut self,
        call: &mut impl Call<'a>,
    ) -> Option<rustix::io::Result<u32>> {
        let Some(result) = native::socket::try_now(call) else {
            self.mark_unready(Interest::of(call.events()));
            return self.at_end(call);
        };
        // If the kernel does not report events, it does not report later data either.
        if self.is_armed
            && let Ok(count) = result
            && call.has_drained(count as usize)
        {
            self.mark_unready(Interest::of(call.events()));
        }
        Some(result)
    }

    /// Returns the result of a call that finds nothing after a final event. For a shut down
    /// listener or datagram socket, the kernel reports the end only to calls that block.
    pub(super) fn at_end<'a>(&self, call: &mut impl Call<'a>) -> Option<rustix::io::Result<u32>> {
        if !self.is_final {
            return None;
        }
        let fd = call.target().fd;
        let ready = retry_on_intr(|| native::ready_now(fd, PollFlags::RDHUP));
        if ready.is_ok_and(|ready| ready.contains(PollFlags::RDHUP)) {
            call.result_at_end()
        } else {
            None
        }
    }

    /// Makes an operation wait for an event.
    #[inline]
    pub(super) fn wait(&mut self, interest: Interest, waiting: Waiting<O>) {
        match self.first {
            None => self.set_first(Some((interest, waiting))),
            Some(_) => {
                let others = self.others.get_or_insert_default();
                others.push_back((interest, waiting));
            }
        }
    }

    /// Removes a waiting operation. Returns `false` if it does not wait.
    pub(super) fn cancel(&mut self, token: Token) -> bool {
        if self
            .first
            .as_ref()
            .is_some_and(|first| first.token == token)
        {
            self.first = None;
            self.advance();
            return true;
        }
        let Some(others) = &mut self.others else {
            return false;
        };
        let index = others
            .iter()
            .position(|(_, waiting)| waiting.token == token);
        index.and_then(|index| others.remove(index)).is_some()
    }

    /// Removes an operation that waits for an earlier file with the same number.
    pub(super) fn take_orphan(&mut self) -> Option<Token> {
        let waiting = self.first.take()?;
        self.advance();
        Some(waiting.token)
    }

    #[inline]
    fn set_first(&mut self, first: Option<(Interest, Waiting<O>)>) {
        if let Some((interest, waiting)) = first {
            self.first_interest = interest;
            self.first = Some(waiting);
        }
    }

    /// Makes the next operation the first one, as there is no first one.
    #[inline]
    fn advance(&mut self) {
        if let Some(others) = &mut self.others {
            let next = others.pop_front();
            self.set_first(next);
        }
    }

    /// Returns the number of waiting operations.
    #[inline]
    fn waiting(&self) -> usize {
        let others = self.others.as_ref().map_or(0, |others| others.len());
        usize::from(self.first.is_some()) + others
    }

    /// Examines the first waiting operation: removes it if the event may concern it, and moves it
    /// to the end otherwise.
    #[inline]
    pub(super) fn take_first(&mut self, event: Event) -> Option<Waiting<O>> {
        let (interest, waiting) = (self.first_interest, self.first.take()?);
        self.advance();
        if interest.intersects(event.ready) {
            return Some(waiting);
        }
        self.wait(interest, waiting);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::op::net;
    use crate::resource::descriptor::{Descriptor, FdState};

    type Readiness = super::Readiness<net::Receive<'static>>;

    const READABLE: Event = Event {
        ready: Interest::IN,
        is_final: false,
    };

    /// Receives up to four bytes.
    fn receive(readiness: &mut Readiness, stream: &UnixStream, state: &FdState) -> Option<u32> {
        let mut receive = net::Receive {
            socket: Descriptor {
                fd: stream.as_fd(),
                state,
            },
            buffer: &mut [0; 4],
            peek: false,
            drains: true,
        };
        let result = readiness.attempt(&mut receive)?;
        Some(result.unwrap())
    }

    fn on_edge(readiness: &mut Readiness, event: Event) {
        assert_eq!(readiness.record(event), 0, "nothing waits");
    }

    #[test]
    fn an_edge_makes_ready_and_a_short_receive_unready() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let (mut readiness, state) = (Readiness::new(), FdState::of_tcp());
        readiness.arm();
        assert!(!readiness.is_unready(Interest::IN));
        assert_eq!(receive(&mut readiness, &ours, &state), None);
        assert!(readiness.is_unready(Interest::IN));
        assert!(!readiness.is_unready(Interest::OUT));
        peer.write_all(b"and more").unwrap();
        on_edge(&mut readiness, READABLE);
        assert_eq!(receive(&mut readiness, &ours, &state), Some(4));
        assert!(!readiness.is_unready(Interest::IN), "there may be more");
        peer.write_all(b"!").unwrap();
        assert_eq!(receive(&mut readiness, &ours, &state), Some(4));
        assert_eq!(receive(&mut readiness, &ours, &state), Some(1));
        assert!(readiness.is_unready(Interest::IN));
    }

    #[test]
    fn after_a_final_event_and_without_events_every_receive_is_tried() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let state = FdState::of_tcp();
        let mut readiness = Readiness::new();
        peer.write_all(b"one").unwrap();
        assert_eq!(receive(&mut readiness, &ours, &state), Some(3));
        assert!(!readiness.is_unready(Interest::IN), "no event would come");
        readiness.arm();
        drop(peer);
        on_edge(&mut readiness, Event::new(PollFlags::IN | PollFlags::RDHUP));
        readiness.mark_unready(Interest::BOTH);
        assert!(!readiness.is_unready(Interest::IN));
        assert_eq!(receive(&mut readiness, &ours, &state), Some(0));
    }
}

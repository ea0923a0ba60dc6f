//! Readiness, by one request for all that is to come.

use std::fmt;
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;

use super::repeated::{Next, Repeated};
use crate::op::Operation;
use crate::op::multishot::MultishotOperation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::multishot_queue::Decode;
use crate::sched::wait;

/// What a descriptor is ready for: the kernel's `POLL*`. See the example of [`poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Events(u16);

impl Events {
    /// There is something to read, or an end of it.
    pub const READABLE: Events = Events(PollFlags::IN.bits());
    /// There is room to write.
    pub const WRITABLE: Events = Events(PollFlags::OUT.bits());
    /// There is something exceptional, as urgent data.
    pub const PRIORITY: Events = Events(PollFlags::PRI.bits());
    /// The other side will send no more.
    pub const READ_CLOSED: Events = Events(PollFlags::RDHUP.bits());
    /// It is closed on both sides. Told unasked.
    pub const HANG_UP: Events = Events(PollFlags::HUP.bits());
    /// There is an error. Told unasked.
    pub const ERROR: Events = Events(PollFlags::ERR.bits());

    /// Whether one of `others` is among them; see the example of [`poll`].
    #[must_use]
    pub fn intersects(self, others: Events) -> bool {
        self.0 & others.0 != 0
    }

    /// As the kernel has them.
    ///
    /// ```
    /// use uthread::ring::Events;
    ///
    /// assert_eq!((Events::READABLE | Events::WRITABLE).bits(), 0x1 | 0x4); // POLLIN, POLLOUT
    /// ```
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

/// The events of a descriptor as they come, without end, by one request to the kernel for all (multishot poll). Where
/// there is no ring, or the kernel knows no such request, each wait is a request by itself.
///
/// An item says what has become ready since the last one was taken: events that came meanwhile are one item. It may
/// come again without anything new: whoever is told tries without waiting, until there is no more.
///
/// # Errors
///
/// Items are errors of the kernel; `ECANCELED` at the end of the runtime.
///
/// ```
/// use std::io::Write;
/// use uthread::ring::{self, Events};
///
/// uthread::run(|| {
///     let (reader, mut writer) = std::io::pipe()?;
///     writer.write_all(b"x")?;
///     let mut events = ring::poll(&reader, Events::READABLE);
///     assert!(events.next().unwrap()?.intersects(Events::READABLE));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn poll<F: AsFd>(descriptor: &F, events: Events) -> Poll<'_> {
    Poll {
        fd: descriptor.as_fd(),
        events: PollFlags::from_bits_retain(events.0),
        state: FdState::new(),
        repeated: Repeated::new(Readiness),
    }
}

/// The events of a descriptor; see the example of [`poll`]. Dropping it ends the request.
///
/// It stays with the fiber that has made it, as its worker has the request:
///
/// ```compile_fail,E0277
/// let (reader, _writer) = std::io::pipe().unwrap();
/// let mut events = uthread::ring::poll(&reader, uthread::ring::Events::READABLE);
/// uthread::scope(|scope| {
///     scope.spawn(move || events.next());
/// });
/// ```
///
/// The descriptor outlives it:
///
/// ```compile_fail,E0505
/// let (reader, _writer) = std::io::pipe().unwrap();
/// let mut events = uthread::ring::poll(&reader, uthread::ring::Events::READABLE);
/// drop(reader);
/// events.next();
/// ```
pub struct Poll<'a> {
    fd: BorrowedFd<'a>,
    events: PollFlags,
    state: FdState,
    repeated: Repeated<Readiness>,
}

impl fmt::Debug for Poll<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Poll")
            .field("fd", &self.fd)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Iterator for Poll<'_> {
    type Item = io::Result<Events>;

    fn next(&mut self) -> Option<io::Result<Events>> {
        let (events, descriptor) = (
            self.events,
            Descriptor {
                fd: self.fd,
                state: &self.state,
            },
        );
        let poll = || MultishotOperation::Poll { descriptor, events };
        let operation = || Some(Operation::Multishot(poll()));
        Some(match self.repeated.next(operation, None) {
            Next::Item(events) => Ok(events),
            Next::Single => {
                let single = SocketOperation::Poll { descriptor, events };
                let ready = wait::perform(&mut Operation::Socket(single), None);
                ready.map(|ready| Events(ready as u16))
            }
            Next::Failed(error) => Err(error),
        })
    }
}

struct Readiness;

impl Decode for Readiness {
    type Item = Events;

    /// Never reached: there is one at most.
    const BACKLOG_MAX: usize = 2;

    fn decode(&self, result: u32, _: Option<u16>, newest: Option<&mut Events>) -> Option<Events> {
        let events = Events(result as u16);
        match newest {
            Some(newest) => {
                *newest = *newest | events;
                None
            }
            None => Some(events),
        }
    }
}

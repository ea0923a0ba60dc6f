//! Readiness of a descriptor through one multishot request, or through a request for one event.

use std::fmt;
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;

use super::repeated::{Next, Repeated};
use crate::op::Operation;
use crate::op::multishot::MultishotOperation;
use crate::op::net::{self, SocketOperation};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::wait;
use crate::sched::features::multishot_queue::Decode;

/// Events that a descriptor is ready for: the kernel's `POLL*` bits. See the example of [`poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Events(u16);

impl Events {
    /// Data can be read, or the end was reached.
    pub const READABLE: Events = Events(PollFlags::IN.bits());
    /// Data can be written.
    pub const WRITABLE: Events = Events(PollFlags::OUT.bits());
    /// An exceptional condition exists, such as urgent data.
    pub const PRIORITY: Events = Events(PollFlags::PRI.bits());
    /// The peer has shut down writing.
    pub const READ_CLOSED: Events = Events(PollFlags::RDHUP.bits());
    /// Both directions are closed. Reported even if not requested.
    pub const HANG_UP: Events = Events(PollFlags::HUP.bits());
    /// An error has occurred. Reported even if not requested.
    pub const ERROR: Events = Events(PollFlags::ERR.bits());

    /// Returns `true` if the two sets have an event in common. See the example of [`poll`].
    #[must_use]
    pub fn intersects(self, others: Events) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the kernel's `POLL*` bits.
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

/// Returns an endless iterator over the readiness events of a descriptor, through a single
/// multishot request. Without a ring, or if the kernel does not support the request, each wait is a
/// request of its own.
///
/// An item contains the events since the previous item. An event may be reported again without new
/// data, so read or write without waiting until the call returns `WouldBlock`.
///
/// # Errors
///
/// The items are `ECANCELED` if the fiber is cancelled, and any other error that the kernel reports
/// for the request.
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

/// Waits until a descriptor is ready for one of the events, and returns those that it is ready for. For
/// a wait that is not repeated soon this takes less than [`poll`], whose request has to be cancelled.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if the caller may not wait, and any other error that the kernel reports
/// for the request.
///
/// ```
/// use std::io::Write;
/// use uthread::ring::{self, Events};
///
/// uthread::run(|| {
///     let (reader, mut writer) = std::io::pipe()?;
///     uthread::spawn(move || writer.write_all(b"x"));
///     let events = ring::poll_once(&reader, Events::READABLE)?;
///     assert!(events.intersects(Events::READABLE));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn poll_once<F: AsFd>(descriptor: &F, events: Events) -> io::Result<Events> {
    let descriptor = Descriptor {
        fd: descriptor.as_fd(),
        state: &FdState::new(),
    };
    await_events(descriptor, PollFlags::from_bits_retain(events.0))
}

fn await_events(descriptor: Descriptor<'_>, events: PollFlags) -> io::Result<Events> {
    let poll = SocketOperation::Poll(net::Poll { descriptor, events });
    let ready = wait::perform(&mut Operation::Socket(poll), None)?;
    Ok(Events(ready as u16))
}

/// An iterator over the readiness events of a descriptor. See the example of [`poll`]. Dropping it
/// cancels the request.
///
/// It is not `Send`, as the request belongs to the worker of its fiber:
///
/// ```compile_fail,E0277
/// let (reader, _writer) = std::io::pipe().unwrap();
/// let mut events = uthread::ring::poll(&reader, uthread::ring::Events::READABLE);
/// uthread::scope(|scope| {
///     scope.spawn(move || events.next());
/// });
/// ```
///
/// It borrows the descriptor:
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
            Next::Single => await_events(descriptor, events),
            Next::Failed(error) => Err(error),
        })
    }
}

struct Readiness;

impl Decode for Readiness {
    type Item = Events;

    /// Maximum number of events that wait. It is not reached, as events are merged into one item.
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

//! How an operation on a ring starts.
//!
//! ```text
//!   a send                       tried at once; a request where there is no room
//!   a receive from a connection  tried at once where something may be there; else it waits for the standing poll
//!     that lasts
//!   any other                    a request, which reaches the kernel with the next flush
//! ```
//!
//! Where others than the worker reap, all are requests: nothing may happen before the flush.

use crate::driver::{Start, Token, in_one, native};
use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::{Descriptor, FdState};

use super::devices::{self, Devices};
use super::polls::{self, Due, Started};
use super::user_data::{Target, UserData};
use super::{Uring, encode};

impl Uring {
    /// Starts an operation.
    ///
    /// # Safety
    ///
    /// As [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    #[inline]
    pub(super) unsafe fn start_any(
        &mut self,
        operation: &mut Operation<'_>,
        token: Token,
    ) -> Start {
        if self.is_own {
            match operation {
                Operation::Socket(send @ SocketOperation::Send { .. })
                    if self.registered.slot_of(send.target()).is_none() =>
                {
                    self.counts.enters += 1;
                    if let Some(result) = native::socket::try_now(send) {
                        return Start::Done(in_one(result));
                    }
                }
                _ => {
                    if let Some(key) = self.poll_for(operation)
                        // SAFETY: promised by the caller.
                        && let Some(start) = unsafe { self.start_receive(key, operation, token) }
                    {
                        return start;
                    }
                }
            }
        }
        // SAFETY: promised by the caller.
        unsafe { self.submit(operation, token) }
    }

    /// The key of the poll by which an operation receives, if it does; it may be new.
    fn poll_for(&mut self, operation: &Operation<'_>) -> Option<u32> {
        let connection = polls::connection(operation)?;
        match self.registered.poll_of(connection) {
            Some(key) => key.ok(),
            None if connection.state.lasts() && native::tcp::drains(connection) => {
                self.add_poll(connection)
            }
            None => None,
        }
    }

    /// Starts a receive from a connection with a poll; none where it goes by a request of its own.
    ///
    /// # Safety
    ///
    /// As [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn start_receive(
        &mut self,
        key: u32,
        operation: &mut Operation<'_>,
        token: Token,
    ) -> Option<Start> {
        let has_room = || self.submissions.has_room(1);
        // SAFETY: promised by the caller.
        let started = unsafe { self.ring.polls.start(key, operation, token, has_room) };
        Some(match started {
            Started::Done(result) => Start::Done(result),
            Started::Waits => Start::Pending,
            Started::WaitsUnarmed => {
                let entry = self.ring.polls.arm(key);
                // SAFETY: a poll request points to no memory.
                unsafe { self.submissions.push([&entry]) };
                Start::Pending
            }
            Started::Full => Start::Full,
            Started::Request => return None,
        })
    }

    /// Has the kernel carry an operation out.
    ///
    /// # Safety
    ///
    /// As [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn submit(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        if !self.has_room(operation.entries()) {
            return Start::Full;
        }
        if let Operation::Raw(operation) = operation {
            // SAFETY: promised by the caller.
            unsafe { self.ring.raws.begin(operation, token) };
            let entries = operation.requests.iter().map(|request| &request.entry);
            // SAFETY: promised by the caller.
            unsafe { self.submissions.push(entries) };
            return Start::Pending;
        }
        // SAFETY: promised by the caller; there is one `Uring` to a ring, borrowed mutably here.
        let submit_polled = |devices: &Devices| unsafe { devices.submit(operation, token) };
        if self.ring.devices.as_ref().is_some_and(submit_polled) {
            return Start::Pending;
        }
        if devices::fd_state(operation).is_some_and(FdState::is_direct) {
            self.batch_sizer.count();
        }
        let user_data = UserData::Entry(Target::Operation(token)).encode();
        let entry = encode::encode(operation, &self.registered).user_data(user_data);
        // SAFETY: the caller keeps what the entry points to alive.
        unsafe { self.submissions.push([&entry]) };
        Start::Pending
    }

    pub(super) fn has_room(&mut self, entries: usize) -> bool {
        self.submissions.has_room(entries)
    }

    /// Submits what the end that reaps has left to this one.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) fn push_due(&mut self) {
        while self.ring.polls.are_due()
            && self.has_room(1)
            && let Some(due) = self.ring.polls.take_due()
        {
            match due {
                Due::Poll(key) => {
                    let entry = self.ring.polls.arm(key);
                    // SAFETY: a poll request points to no memory.
                    unsafe { self.submissions.push([&entry]) };
                }
                Due::Receive(mut waiting) => {
                    let token = waiting.token;
                    // SAFETY: its completion was not reaped, so it is as promised when it started.
                    let start = unsafe { self.submit(waiting.operation(), token) };
                    debug_assert_eq!(start, Start::Pending, "there is room");
                }
            }
        }
    }

    /// The key of a poll for a connection that has none.
    fn add_poll(&mut self, connection: Descriptor<'_>) -> Option<u32> {
        if self.registered.slot_of(connection).is_some() {
            return None;
        }
        // Whoever else drops the connection must not wait for the worker.
        self.registered.set_wake(&self.waker).ok()?;
        let key = self.ring.polls.add(connection);
        connection.state.set_poll(self.registered.add_poll(key));
        matches!(self.registered.poll_of(connection), Some(Ok(of)) if of == key).then_some(key)
    }
}

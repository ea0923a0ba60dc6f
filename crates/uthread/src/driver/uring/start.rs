//! Starting an operation on a ring.
//!
//! ```text
//!   a send                       tried at once; a request if there is no space
//!   a receive from a long-lived  tried at once if data may be available; otherwise it waits for the multishot poll
//!     connection
//!   any other operation          a request, which reaches the kernel with the next flush
//! ```
//!
//! If other threads than the worker reap, all operations are requests: nothing may happen before the flush.

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
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
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

    /// Returns the key of the poll by which an operation receives, if it uses one. The poll may be new.
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

    /// Starts a receive from a connection with a poll. Returns `None` if it uses a request of its own.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
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

    /// Submits an operation to the kernel.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
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
        // SAFETY: by the caller's contract; there is one `Uring` per ring, borrowed mutably here.
        let submit_polled = |devices: &Devices| unsafe { devices.submit(operation, token) };
        if self.ring.devices.as_ref().is_some_and(submit_polled) {
            return Start::Pending;
        }
        if devices::fd_state(operation).is_some_and(FdState::is_direct) {
            self.batch_sizer.count();
        }
        let user_data = UserData::Entry(Target::Operation(token)).encode();
        let entry = encode::encode(operation, &self.registered).user_data(user_data);
        // SAFETY: the caller keeps the memory that the entry points to alive.
        unsafe { self.submissions.push([&entry]) };
        Start::Pending
    }

    pub(super) fn has_room(&mut self, entries: usize) -> bool {
        self.submissions.has_room(entries)
    }

    /// Submits the entries that the reaping end has left to this one.
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
                    // SAFETY: its completion was not reaped, so the contract of its start still holds.
                    let start = unsafe { self.submit(waiting.operation(), token) };
                    debug_assert_eq!(start, Start::Pending, "there is room");
                }
            }
        }
    }

    /// Adds a poll for a connection without one, and returns its key.
    fn add_poll(&mut self, connection: Descriptor<'_>) -> Option<u32> {
        if self.registered.slot_of(connection).is_some() {
            return None;
        }
        // Another thread that drops the connection must not wait for the worker.
        self.registered.set_wake(&self.waker).ok()?;
        let key = self.ring.polls.add(connection);
        connection.state.set_poll(self.registered.add_poll(key));
        matches!(self.registered.poll_of(connection), Some(Ok(of)) if of == key).then_some(key)
    }
}

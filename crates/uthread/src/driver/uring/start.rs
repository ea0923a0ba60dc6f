//! Starting an operation on a ring.
//!
//! ```text
//!   a send                       tried at once; a request if there is no space, or if many short ones gather
//!   a receive from a long-lived  tried at once if data may be available; otherwise it waits for an event
//!     connection
//!   any other operation          a request, which reaches the kernel with the next flush
//! ```
//!
//! If other threads than the worker reap, all operations are requests: nothing may happen before the flush.

use std::time::Instant;

use crate::driver::{Start, Token, in_one, native};
use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::FdState;

use super::connections;
use super::devices::{self, Devices};
use super::user_data::{Target, UserData};
use super::{Uring, encode};

/// Length of the longest send that gathers with others. Copying a longer one takes longer than its system call, and many of
/// them in one flush would delay all other connections.
const GATHERED_BYTES_MAX: usize = 4096;

#[inline(always)]
fn is_long(operation: &SocketOperation<'_>) -> bool {
    matches!(operation, SocketOperation::Send { buffer, .. } if buffer.len() > GATHERED_BYTES_MAX)
}

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
                    if self.registered.slot_of(send.target()).is_none()
                        && (is_long(send) || !self.send_batcher.gathers(Instant::now)) =>
                {
                    self.counts.enters += 1;
                    if let Some(result) = native::socket::try_now(send) {
                        return Start::Done(in_one(result));
                    }
                }
                _ => {
                    // SAFETY: promised by the caller.
                    if let Some(start) = unsafe { self.start_receive(operation, token) } {
                        return start;
                    }
                }
            }
        }
        // SAFETY: promised by the caller.
        unsafe { self.submit(operation, token) }
    }

    /// Starts a receive from a long-lived connection. Returns `None` for any other operation.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    #[inline]
    unsafe fn start_receive(
        &mut self,
        operation: &mut Operation<'_>,
        token: Token,
    ) -> Option<Start> {
        let connection = connections::connection(operation)?;
        if self.registered.slot_of(connection).is_some() {
            return None;
        }
        let connections = self.ring.connections.as_ref()?;
        // SAFETY: promised by the caller.
        unsafe { connections.start(&self.ring.io, connection, operation, token) }
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
        let priority = self.submissions.priority();
        // SAFETY: by the caller's contract; there is one `Uring` per ring, borrowed mutably here.
        let submit_polled =
            |devices: &Devices| unsafe { devices.submit(operation, token, priority) };
        if self.ring.devices.as_ref().is_some_and(submit_polled) {
            return Start::Pending;
        }
        if devices::fd_state(operation).is_some_and(FdState::is_direct) {
            self.batch_sizer.count();
        }
        let user_data = UserData::Entry(Target::Operation(token)).encode();
        let entry = encode::encode(operation, &self.registered, priority).user_data(user_data);
        // SAFETY: the caller keeps the memory that the entry points to alive.
        unsafe { self.submissions.push([&entry]) };
        Start::Pending
    }

    pub(super) fn has_room(&mut self, entries: usize) -> bool {
        self.submissions.has_room(entries)
    }
}

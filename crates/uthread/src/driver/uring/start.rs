//! Starting an operation on a ring.
//!
//! ```text
//!   a send                       a request, for which many short ones gather; if the ring has deferred task work,
//!                                  tried at once, and a request if there is no space, or if it gathers
//!   a receive from a long-lived  tried at once if data may be available; otherwise it waits for an event
//!     connection
//!   any other operation          a request, which reaches the kernel with the next flush
//! ```
//!
//! If a thread of the kernel takes the submissions, all operations are requests: they cost the
//! worker no system call. Where fibers move to other workers, all are requests, too.

use std::time::Instant;

use io_uring::squeue::Entry;

use crate::driver::{Start, Token, native};
use crate::op::Awaited;
use crate::op::fs::FileOperation;
use crate::op::multishot::MultishotOperation;
use crate::op::net::{self, Receive, SocketOperation};
use crate::op::raw::RawOperation;
use crate::resource::descriptor::FdState;

use super::devices::{self, Devices};
use super::registered::Registered;
use super::user_data::{Target, UserData};
use super::{Uring, encode};

/// One function per kind of operation.
impl Uring {
    /// Starts a send.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    #[inline]
    pub(super) unsafe fn start_send(&mut self, send: &mut net::Send<'_>, token: Token) -> Start {
        let gathers = self.send_batcher.gathers(send.buffer.len(), Instant::now);
        if self.tries_sends && self.registered.slot_of(send.socket).is_none() {
            if gathers {
                send.socket.state.record_gathered();
            } else {
                self.counts.enters += 1;
                if let Some(result) = native::socket::try_now(send) {
                    return Start::Done(result);
                }
            }
        }
        let awaited = send.socket.into();
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe { self.submit(|registered| encode::send(send, registered), token, awaited) }
    }

    /// Starts a receive.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    #[inline]
    pub(super) unsafe fn start_receive(
        &mut self,
        receive: &mut Receive<'_>,
        token: Token,
    ) -> Start {
        if receive.drains
            && self.registered.slot_of(receive.socket).is_none()
            && let Some(connections) = &mut self.connections
        {
            // SAFETY: the caller keeps the operation in place until its completion.
            let started = unsafe { connections.start(&self.submissions.ring, receive, token) };
            if let Some(start) = started {
                return start;
            }
            // The fiber has waited for its turn since a send that has gathered, and the next
            // message may be here. A request would complete at once, and the fiber wait for
            // another turn.
            if receive.socket.state.take_gathered() {
                self.counts.enters += 1;
                if let Some(result) = native::socket::try_now(receive) {
                    return Start::Done(result);
                }
            }
        }
        let awaited = receive.socket.into();
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe {
            self.submit(
                |registered| encode::receive(receive, registered),
                token,
                awaited,
            )
        }
    }

    /// Starts any other operation on a socket.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn start_socket(
        &mut self,
        operation: &mut SocketOperation<'_>,
        token: Token,
    ) -> Start {
        let awaited = operation.awaited();
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe {
            self.submit(
                |registered| encode::socket(operation, registered),
                token,
                awaited,
            )
        }
    }

    /// Starts an operation on a file.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn start_file(
        &mut self,
        operation: &mut FileOperation<'_>,
        token: Token,
    ) -> Start {
        if !self.has_room(1) {
            return Start::Full;
        }
        let awaited = operation.awaited();
        let priority = self.submissions.priority();
        // SAFETY: by the caller's contract.
        let submit_polled =
            |devices: &mut Devices| unsafe { devices.submit(operation, token, priority) };
        if self.devices.as_mut().is_some_and(submit_polled) {
            return Start::Pending(awaited);
        }
        if devices::fd_state(operation).is_some_and(FdState::is_direct) {
            self.batch_sizer.count();
        }
        let entry = encode::file(operation, &self.registered, priority);
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe { self.push(entry, token) };
        Start::Pending(awaited)
    }

    /// Starts a multishot operation.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn start_multishot(
        &mut self,
        operation: &MultishotOperation<'_>,
        token: Token,
    ) -> Start {
        if !self.has_room(1) {
            return Start::Full;
        }
        let entry = with_token(encode::multishot(operation, &self.registered), token);
        // Not marked as urgent: its operation lives until the flush, and so cannot be submitted
        // again. SAFETY: the caller keeps the operation in place until the flush.
        unsafe { self.submissions.push([&entry]) };
        Start::Pending(operation.awaited())
    }

    /// Starts a raw operation.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn start_raw(
        &mut self,
        operation: &mut RawOperation<'_>,
        token: Token,
    ) -> Start {
        if !self.has_room(operation.requests.len()) {
            return Start::Full;
        }
        let awaited = operation.awaited();
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe { self.in_flight.raws.begin(operation, token) };
        let entries = operation.requests.iter().map(|request| &request.entry);
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe { self.submissions.push(entries) };
        Start::Pending(awaited)
    }

    /// Submits an operation as the entry that `encode` returns.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`](crate::driver::Driver::start), for the operation of the
    /// entry.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn submit(
        &mut self,
        encode: impl FnOnce(&Registered) -> Entry,
        token: Token,
        awaited: Awaited,
    ) -> Start {
        if !self.has_room(1) {
            return Start::Full;
        }
        let entry = encode(&self.registered);
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe { self.push(entry, token) };
        Start::Pending(awaited)
    }

    /// Adds the entry of an operation, for which there must be room.
    ///
    /// # Safety
    ///
    /// The memory that the entry points to remains valid until the completion.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn push(&mut self, entry: Entry, token: Token) {
        let entry = with_token(entry, token);
        #[cfg(uthread_urgent)]
        let entry = self.marked(entry, token);
        // SAFETY: the caller keeps the operation in place until its completion.
        unsafe { self.submissions.push([&entry]) };
    }

    pub(super) fn has_room(&mut self, entries: usize) -> bool {
        self.submissions.has_room(entries)
    }
}

fn with_token(entry: Entry, token: Token) -> Entry {
    entry.user_data(UserData::Entry(Target::Operation(token)).encode())
}

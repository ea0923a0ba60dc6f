//! Direct I/O whose completions are found by polling the device.
//!
//! These operations use a ring of their own, which does not announce completions: they are found by
//! a call that polls for them. So a worker does not sleep while it has such operations. A device
//! without polling queues refuses them; refused operations, and later ones on the same descriptor,
//! use the ordinary ring.

use std::io;
use std::ptr::NonNull;

use io_uring::squeue::Entry;
use io_uring::{EnterFlags, IoUring};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use super::registered::Registered;
use super::{Uring, check, encode, setup};
use crate::driver::Token;
use crate::op::fs::FileOperation;
use crate::priorities::Priority;
use crate::resource::descriptor::FdState;

/// Maximum number of operations in flight: the queue depth of devices. Others use the ordinary
/// ring.
const IN_FLIGHT_MAX: usize = 128;

/// The polled operations of one worker.
pub(super) struct Devices {
    ring: IoUring,
    /// Empty: memory and files are registered with the ordinary ring.
    registered: Registered,
    in_flight: FxHashMap<Token, Polled>,
    /// Refused entries, to be submitted to the ordinary ring.
    refused: Vec<Entry>,
}

struct Polled {
    entry: Entry,
    fd_state: NonNull<FdState>,
}

#[allow(unsafe_code, reason = "a reference without a lifetime")]
// SAFETY: the descriptor outlives the operation, by the contract of `submit`, and its state is
// `Sync`.
unsafe impl Send for Polled {}

impl Devices {
    /// Creates a ring whose completions are polled for.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the kernel has no memory; `EINVAL` if it does not support such rings.
    pub(super) fn new() -> io::Result<Devices> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_iopoll();
        Ok(Devices {
            ring: setup::build_with(&builder, IN_FLIGHT_MAX as u32)?,
            registered: Registered::new(),
            in_flight: FxHashMap::default(),
            refused: Vec::new(),
        })
    }

    /// Adds an operation of this priority if it may be polled for and there is space. It is
    /// submitted with the next poll.
    ///
    /// # Safety
    ///
    /// Everything that the operation borrows stays alive until its completion.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn submit(
        &mut self,
        operation: &mut FileOperation<'_>,
        token: Token,
        priority: Priority,
    ) -> bool {
        let Some(fd_state) = fd_state(operation).filter(|fd_state| fd_state.may_poll_device())
        else {
            return false;
        };
        if self.in_flight.len() + self.refused.len() == IN_FLIGHT_MAX {
            return false;
        }
        let fd_state = NonNull::from(fd_state);
        let entry = encode::file(operation, &self.registered, priority);
        let entry = entry.user_data(token.0);
        // SAFETY: by the caller's contract.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(
            pushed.is_ok(),
            "the queue has room for all operations in flight"
        );
        let polled = Polled { entry, fd_state };
        self.in_flight.insert(token, polled);
        true
    }

    /// Returns `true` if an operation is in flight or refused.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || !self.refused.is_empty()
    }

    /// Submits the added operations, and polls for completions once.
    #[allow(
        unsafe_code,
        reason = "the crate's own calls cannot ask for GETEVENTS alone"
    )]
    pub(super) fn poll(&mut self) -> io::Result<usize> {
        let pending = self.ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        let submitter = self.ring.submitter();
        // SAFETY: there is no argument.
        unsafe { submitter.enter::<libc::sigset_t>(pending, 0, flags, None) }
    }

    /// Hands out the results of at most `max` completions, whose number it returns. An operation
    /// that the device has refused uses the ordinary ring.
    #[allow(unsafe_code, reason = "the descriptor state is alive by promise")]
    pub(super) fn hand_out(&mut self, max: usize, mut hand_out: impl FnMut(Token, i32)) -> usize {
        let mut count = 0;
        for entry in self.ring.completion().take(max) {
            count += 1;
            // The ring has nothing but operations.
            let (token, result) = (Token(entry.user_data()), entry.result());
            let polled = self.in_flight.remove(&token);
            let polled = polled.expect("the operation is in flight");
            if result == -Errno::OPNOTSUPP.raw_os_error() {
                // SAFETY: the state is alive by the contract of `submit`, as the operation has not
                // ended.
                unsafe { polled.fd_state.as_ref() }.refuse_device_polling();
                self.refused.push(polled.entry);
            } else {
                hand_out(token, result);
            }
        }
        count
    }

    /// Returns `true` if there are completions to hand out.
    #[cfg(test)]
    pub(super) fn has_results(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Takes the entry of an operation that uses the ordinary ring.
    pub(super) fn take_refused(&mut self) -> Option<Entry> {
        self.refused.pop()
    }
}

impl Uring {
    /// Polls devices for completions, and submits operations that they have refused to the ring.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) fn poll_devices(&mut self) {
        let devices = self.devices.as_mut();
        let Some(devices) = devices.filter(|devices| devices.is_busy()) else {
            return;
        };
        while self.submissions.has_room(1)
            && let Some(entry) = devices.take_refused()
        {
            // SAFETY: its completion was not reaped, so its submitter still keeps the memory that
            // it points to.
            unsafe { self.submissions.push([&entry]) };
        }
        self.counts.enters += 1;
        check(devices.poll());
    }
}

/// Returns the state of the descriptor of a read or a write.
pub(super) fn fd_state<'a>(operation: &FileOperation<'a>) -> Option<&'a FdState> {
    match operation {
        FileOperation::Read { file, .. }
        | FileOperation::Write { file, .. }
        | FileOperation::ReadVectored { file, .. }
        | FileOperation::WriteVectored { file, .. } => Some(file.state),
        FileOperation::Open { .. } | FileOperation::Sync { .. } => None,
    }
}

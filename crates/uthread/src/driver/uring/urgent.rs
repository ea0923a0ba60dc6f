//! Entries that the kernel issues before others, where it has the flag of the patches in `kernel`.
//!
//! Compiled with `--cfg uthread_urgent` only: Linux may give the bit of the flag another meaning.
//!
//! A flush publishes entries in the order of their priorities. But what earlier flushes have
//! published, and a polling kernel thread has not taken yet, only the kernel can order. So rings
//! with kernel polling use the flag for single entries of urgent operations, if a request at their
//! setup has shown that they may.
//!
//! ```text
//!   an urgent operation    its entry gets the flag, and a copy without it is kept
//!   completed with EPERM   the copy is submitted with the next flush, and a request tests the flag again;
//!                          until that succeeds, no entry gets the flag
//!   any other completion   the copy is dropped
//! ```
//!
//! The permission may be withdrawn at any time, and an entry that is refused has not started. An
//! operation that fails with `EPERM` for another reason fails again, without the flag.

use std::collections::VecDeque;
use std::io;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use super::user_data::UserData;
use super::{InFlight, Uring, setup};
use crate::driver::{Completion, Token};
use crate::op;
use crate::priorities::Priority;

/// `IOSQE_URGENT`.
const URGENT: Flags = Flags::from_bits_retain(1 << 7);

/// The use of the flag by one ring.
pub(super) struct UrgentEntries {
    /// The error of an entry that is refused for its flag.
    refusal: Errno,
    /// `true` while entries get the flag.
    is_used: bool,
    /// The copies of entries with the flag. Bounded by the operations in flight.
    in_flight: FxHashMap<Token, Entry>,
    /// The copies of refused entries, to be submitted. Bounded likewise.
    refused: VecDeque<Entry>,
    /// `true` if an entry was refused since the flag was tested.
    must_test: bool,
}

impl UrgentEntries {
    /// Tests the flag on a new ring. Returns the ring, and `None` if it does not use the flag.
    ///
    /// # Errors
    ///
    /// Any error that `io_uring_enter(2)` reports.
    pub(super) fn of(mut ring: setup::Made) -> io::Result<(setup::Made, Option<UrgentEntries>)> {
        let io = &mut ring.0;
        let may_use = io.params().is_setup_sqpoll() && setup::complete(io, &test())? == 0;
        let urgent = may_use.then(|| UrgentEntries::refused_by(Errno::PERM));
        Ok((ring, urgent))
    }

    /// Uses the flag until entries fail with this error.
    pub(super) fn refused_by(refusal: Errno) -> UrgentEntries {
        UrgentEntries {
            refusal,
            is_used: true,
            in_flight: FxHashMap::default(),
            refused: VecDeque::new(),
            must_test: false,
        }
    }

    /// Returns `true` while entries get the flag.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Adds the flag to the entry of an urgent operation, which is not part of a chain.
    pub(super) fn mark(&mut self, entry: Entry, token: Token) -> Entry {
        if !self.is_used() {
            return entry;
        }
        self.in_flight.insert(token, entry.clone());
        entry.flags(URGENT)
    }

    /// Handles the completion of an operation. Returns the entry to submit again if it was refused.
    fn take_refused(&mut self, token: Token, result: i32) -> Option<Entry> {
        if self.in_flight.is_empty() {
            return None;
        }
        let entry = self.in_flight.remove(&token)?;
        (result == -self.refusal.raw_os_error()).then_some(entry)
    }

    /// Submits an entry that was refused with the next flush.
    fn resubmit(&mut self, entry: Entry) {
        self.is_used = false;
        self.refused.push_back(entry);
        self.must_test = true;
    }

    /// Handles the completion of the request that tests the flag.
    pub(super) fn on_test(&mut self, result: i32) {
        if result == 0 {
            self.is_used = true;
        }
    }

    /// Returns `true` if there is an entry to submit.
    pub(super) fn is_any_refused(&self) -> bool {
        self.must_test || !self.refused.is_empty()
    }

    /// Takes an entry to submit.
    fn take(&mut self) -> Option<Entry> {
        let entry = self.refused.pop_front();
        entry.or_else(|| std::mem::take(&mut self.must_test).then(test))
    }
}

/// Returns a request that does nothing, with the flag.
fn test() -> Entry {
    let test = opcode::Nop::new().build().flags(URGENT);
    test.user_data(UserData::UrgentTest.encode())
}

impl Uring {
    /// Adds the flag to the entry of an operation if it is urgent and the ring uses the flag.
    pub(super) fn marked(&mut self, entry: Entry, token: Token) -> Entry {
        match &mut self.in_flight.urgent {
            Some(urgent) if self.submissions.priority() == Priority::Urgent => {
                urgent.mark(entry, token)
            }
            _ => entry,
        }
    }

    /// Submits operations again that were refused for the flag. Returns `true` if some are left,
    /// for lack of room.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) fn resubmit_refused(&mut self) -> bool {
        let urgent = self.in_flight.urgent.as_mut();
        let Some(urgent) = urgent.filter(|urgent| urgent.is_any_refused()) else {
            return false;
        };
        let before = self.submissions.priority();
        self.submissions.set_priority(Priority::Urgent);
        while self.submissions.has_room(1)
            && let Some(entry) = urgent.take()
        {
            // SAFETY: its completion was not handed out, so its submitter still keeps the memory
            // that it points to.
            unsafe { self.submissions.push([&entry]) };
        }
        self.submissions.set_priority(before);
        urgent.is_any_refused()
    }
}

impl InFlight {
    /// Returns the completion to hand out for an operation, or `None` if it is submitted again.
    pub(super) fn unless_refused(
        &mut self,
        token: Token,
        completion: Completion,
    ) -> Option<Completion> {
        let urgent = self.urgent.as_mut();
        let refused = urgent.and_then(|urgent| {
            let entry = urgent.take_refused(token, completion.result)?;
            Some((urgent, entry))
        });
        let Some((urgent, entry)) = refused else {
            return Some(completion);
        };
        // Its cancellation may have been answered, as it has found nothing.
        if self.cancellations.is_awaited(token) {
            return Some(Completion::last(-op::CANCELLED));
        }
        urgent.resubmit(entry);
        None
    }
}

//! Reads and writes past the page cache whose completions are found by polling the device.
//!
//! They go by a ring of their own, whose completions nobody announces: they are there after a call that has polled for them.
//! So a worker does not sleep while it has such operations. A device without queues to be polled refuses each; what was
//! refused goes by the ordinary ring, and so does all that comes later by the same descriptor.

use std::collections::HashMap;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io_uring::squeue::Entry;
use io_uring::{CompletionQueue, EnterFlags, IoUring};
use rustix::io::Errno;

use super::encode::encode;
use super::registered::Registered;
use super::user_data::{Target, UserData};
use crate::driver::Token;
use crate::op::Operation;
use crate::op::fs::FileOperation;
use crate::resource::descriptor::FdState;

/// Operations under way: what devices have at a time. Others go by the ordinary ring.
const IN_FLIGHT_MAX: usize = 128;

/// Of one worker. Both ends of its driver use it, the one that reaps maybe on another thread.
pub(super) struct Devices {
    ring: IoUring,
    /// Nothing: memory and files are registered with the ordinary ring.
    registered: Registered,
    state: Mutex<State>,
    /// How many operations are under way or refused. Relaxed: who reaps is locked against the worker's wait (`Reactor`).
    count: AtomicUsize,
}

#[derive(Default)]
struct State {
    in_flight: HashMap<Token, Polled>,
    /// What was refused, to go by the ordinary ring.
    refused: Vec<Entry>,
}

struct Polled {
    entry: Entry,
    fd_state: NonNull<FdState>,
}

#[allow(unsafe_code, reason = "a reference without a lifetime")]
// SAFETY: the descriptor outlives the operation, as promised to `submit`, and its state may be shared.
unsafe impl Send for Polled {}

impl Devices {
    /// # Errors
    ///
    /// The kernel's: `ENOMEM`, `EINVAL` where it knows no such rings.
    pub(super) fn new() -> io::Result<Devices> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_iopoll();
        Ok(Devices {
            ring: builder.build(IN_FLIGHT_MAX as u32)?,
            registered: Registered::new(),
            state: Mutex::default(),
            count: AtomicUsize::new(0),
        })
    }

    /// Takes an operation, if it may be polled for, and there is room. It reaches the kernel with the next poll.
    ///
    /// # Safety
    ///
    /// All that the operation borrows stays alive until its completion. Only the worker calls this.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn submit(&self, operation: &mut Operation<'_>, token: Token) -> bool {
        let Some(fd_state) = fd_state(operation).filter(|fd_state| fd_state.may_poll_device())
        else {
            return false;
        };
        if self.count.load(Ordering::Relaxed) == IN_FLIGHT_MAX {
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let fd_state = NonNull::from(fd_state);
        let entry = encode(operation, &self.registered);
        let entry = entry.user_data(UserData::Entry(Target::Operation(token)).encode());
        // SAFETY: nobody else submits, as the caller promises.
        let mut queue = unsafe { self.ring.submission_shared() };
        // SAFETY: promised by the caller.
        let pushed = unsafe { queue.push(&entry) };
        assert!(pushed.is_ok(), "it has room for all that are under way");
        let polled = Polled { entry, fd_state };
        self.lock().in_flight.insert(token, polled);
        true
    }

    /// Whether something is under way, or refused.
    pub(super) fn are_busy(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Submits what gathered, and has the kernel look for completions once.
    ///
    /// # Safety
    ///
    /// Only the worker calls this.
    #[allow(
        unsafe_code,
        reason = "the crate's own calls cannot ask for GETEVENTS alone"
    )]
    pub(super) unsafe fn poll(&self) -> io::Result<usize> {
        // SAFETY: nobody else submits, as the caller promises.
        let pending = unsafe { self.ring.submission_shared() }.len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        let submitter = self.ring.submitter();
        // SAFETY: there is no argument.
        unsafe { submitter.enter::<libc::sigset_t>(pending, 0, flags, None) }
    }

    /// # Safety
    ///
    /// One caller at a time.
    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    pub(super) unsafe fn completions(&self) -> CompletionQueue<'_> {
        // SAFETY: promised by the caller.
        unsafe { self.ring.completion_shared() }
    }

    /// Takes a completion; false if it is the refusal of the device, and the operation goes by the ordinary ring.
    #[allow(unsafe_code, reason = "the descriptor state is alive by promise")]
    pub(super) fn complete(&self, token: Token, result: i32) -> bool {
        let mut state = self.lock();
        let polled = state.in_flight.remove(&token).expect("it is in flight");
        if result != -Errno::OPNOTSUPP.raw_os_error() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        // SAFETY: it is alive, as promised to `submit`, as the operation has not ended.
        unsafe { polled.fd_state.as_ref() }.refuse_device_polling();
        state.refused.push(polled.entry);
        false
    }

    /// Hands out the entry of an operation that goes by the ordinary ring.
    pub(super) fn take_refused(&self) -> Option<Entry> {
        let entry = self.lock().refused.pop()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(entry)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept beside the descriptor of a read or a write.
pub(super) fn fd_state<'a>(operation: &Operation<'a>) -> Option<&'a FdState> {
    let Operation::File(
        FileOperation::Read { file, .. }
        | FileOperation::Write { file, .. }
        | FileOperation::ReadVectored { file, .. }
        | FileOperation::WriteVectored { file, .. },
    ) = operation
    else {
        return None;
    };
    Some(file.state)
}

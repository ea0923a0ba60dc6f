//! Taking a worker from the thread that runs it, for another one to go on with: the fiber that it
//! runs has thread-local storage of its own, and blocks the thread, or computes for long.
//!
//! ```text
//!   the monitor finds it stuck, outside of the library  [`Handover::take`], by the protocol of `tls/claim.rs`
//!   a fiber is about to block                           [`Handover::give`]
//! ```
//!
//! The worker itself does not change, and with it none of its other fibers. That one runs on alone;
//! when it needs the worker again, it suspends, and its thread mails it there.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::atomic::lock;
use crate::tls::record::Record;

/// A worker that no thread runs.
pub(crate) struct Moved(NonNull<()>);

#[allow(unsafe_code, reason = "a worker between two threads")]
// SAFETY: only the owner of the value uses the worker, and its fibers have thread-local storage of
// their own.
unsafe impl Send for Moved {}

impl Moved {
    /// Returns the address of the worker.
    pub(in crate::sched) fn into_raw(self) -> NonNull<()> {
        self.0
    }
}

/// The part of one worker by which it is taken.
#[derive(Default)]
pub(in crate::sched) struct Handover {
    /// The record of the fiber that has run last; null if that has none, or has left the worker
    /// with its runner.
    record: AtomicPtr<Record>,
    /// The thread of the worker. Its lock keeps the record alive.
    bound: Mutex<Option<Bound>>,
}

struct Bound {
    worker: NonNull<()>,
    /// The thread pointer of the thread.
    thread: usize,
}

#[allow(unsafe_code, reason = "the address of a worker")]
// SAFETY: the address is used only by the thread that takes the worker.
unsafe impl Send for Bound {}

/// The side of the worker.
impl Handover {
    /// Allows others to take the worker with this address from the calling thread, which has this
    /// thread pointer.
    pub(in crate::sched) fn bind(&self, worker: NonNull<()>, thread: usize) {
        *lock(&self.bound) = Some(Bound { worker, thread });
    }

    /// Forbids it again, as the worker ends.
    pub(in crate::sched) fn unbind(&self) {
        self.forget_record();
        *lock(&self.bound) = None;
    }

    /// Records the fiber that is about to run.
    #[inline]
    pub(in crate::sched) fn set_record(&self, record: &Record) {
        // Release pairs with the acquire in `take`.
        let record = ptr::from_ref(record).cast_mut();
        self.record.store(record, Ordering::Release);
    }

    /// Forgets the fiber that has run last, whose runner may go elsewhere or end; or the next one
    /// has no record.
    pub(in crate::sched) fn forget_record(&self) {
        // Under the lock: nobody looks at the record afterwards.
        let _bound = lock(&self.bound);
        self.record.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Gives the worker away, whose running fiber is the caller, in a call, and has this record.
    pub(in crate::sched) fn give(&self, record: &Record) -> Option<Moved> {
        let Bound { worker, thread } = lock(&self.bound).take()?;
        self.record.store(ptr::null_mut(), Ordering::Relaxed);
        record.give_worker(thread);
        Some(Moved(worker))
    }
}

/// The side of the monitor.
impl Handover {
    /// Takes the worker, unless its fiber is in a call of the library. Calls `prepare` before, and
    /// takes nothing if that returns `false`.
    #[allow(unsafe_code, reason = "a record that the lock keeps alive")]
    pub(in crate::sched) fn take(&self, prepare: impl FnOnce() -> bool) -> Option<Moved> {
        let mut bound = lock(&self.bound);
        let &Bound { worker, thread } = bound.as_ref()?;
        // Acquire pairs with the release in `set_record`.
        let record = NonNull::new(self.record.load(Ordering::Acquire))?;
        // SAFETY: the worker forgets it, under the lock, before it goes.
        let record = unsafe { record.as_ref() };
        if record.claim.is_in_call()
            || !prepare()
            || !record.take_worker(worker.as_ptr(), thread, barrier)
        {
            return None;
        }
        self.record.store(ptr::null_mut(), Ordering::Relaxed);
        *bound = None;
        Some(Moved(worker))
    }
}

/// Orders the memory accesses of all running threads of the process before or after it. Returns
/// `false` if the kernel refuses that.
#[allow(unsafe_code, reason = "a call that no crate offers")]
fn barrier() -> bool {
    // SAFETY: the call has no pointers.
    let call = |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, of `linux/membarrier.h`.
    const BARRIER: libc::c_int = 1 << 3;
    const REGISTER: libc::c_int = 1 << 4;
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    *IS_REGISTERED.get_or_init(|| call(REGISTER) == 0) && call(BARRIER) == 0
}

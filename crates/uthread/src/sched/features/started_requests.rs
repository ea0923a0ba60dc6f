//! Operations that a fiber starts, and waits for later.
//!
//! ```text
//!   fiber    begin -> .. -> take, or park -> take
//!   reactor            push --wakes--> the fiber
//! ```
//!
//! The operation is in memory that the fiber and the reactor share: a fiber that leaks its half
//! frees nothing that the kernel needs. The buffers are the caller's, and not the operation's.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::{io, mem};

use crate::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, lock};
use crate::driver::Completion;
use crate::fiber::WakeHandle;
use crate::op::raw::{RawOperation, RawRequest};
use crate::op::{CANCELLED, CANCELLED_RESULTS, Operation};
use crate::resource::descriptor::FdState;
use crate::sched::caller::{self, cancellation, wait};
use crate::sched::reactor::operations::{Accepted, CompletionSink, OperationId};
use crate::sched::worker::{Worker, current};

/// What the requests of one fiber share.
pub(crate) struct Origin {
    fiber: WakeHandle,
    /// Set while the fiber waits, and taken by whoever wakes it.
    is_waiting: AtomicBool,
    /// The keys of the requests that have ended, of those that are to be told.
    told: Mutex<VecDeque<usize>>,
}

impl Origin {
    pub(crate) fn new() -> Arc<Origin> {
        Arc::new(Origin {
            fiber: caller::wake_handle(),
            is_waiting: AtomicBool::new(false),
            told: Mutex::default(),
        })
    }

    /// Returns the key of the request that has ended first, of those to be told and not yet taken.
    pub(crate) fn next_told(&self) -> Option<usize> {
        lock(&self.told).pop_front()
    }

    /// Returns `true` if requests are in flight on workers, and end without the caller.
    pub(crate) fn is_on_worker(&self) -> bool {
        matches!(self.fiber, WakeHandle::Fiber(_)) && caller::is_on_worker()
    }

    /// Waits until a key is told. Returns `false`, at once, if the caller may not wait.
    pub(crate) fn await_told(&self) -> bool {
        self.wait_until(|| self.is_told())
    }

    /// Waits until a key is told.
    pub(crate) fn await_end_told(&self) {
        self.wait_in_any_case_until(|| self.is_told());
    }

    fn is_told(&self) -> bool {
        !lock(&self.told).is_empty()
    }

    /// Waits until a request has ended that makes this true. Returns `false`, at once, if the caller may
    /// not wait.
    fn wait_until(&self, done: impl Fn() -> bool) -> bool {
        while !self.is_done_without_waiting(&done) {
            if !wait::park_unless_cancelled() {
                return false;
            }
        }
        true
    }

    fn wait_in_any_case_until(&self, done: impl Fn() -> bool) {
        wait::park_until(|| self.is_done_without_waiting(&done));
    }

    /// Announces a wait unless this is true.
    fn is_done_without_waiting(&self, done: &impl Fn() -> bool) -> bool {
        done() || {
            // SeqCst: the reactor stores the result and then looks whether the fiber waits.
            self.is_waiting.store(true, Ordering::SeqCst);
            done()
        }
    }
}

/// An operation and its result.
pub(crate) struct StartedRequest {
    origin: Arc<Origin>,
    /// [`PENDING`] until the end.
    result: AtomicU32,
    /// The key under which the end is told, or [`NO_KEY`]. Whoever takes it tells it.
    key: AtomicUsize,
    memory: UnsafeCell<Memory>,
}

const PENDING: u32 = i32::MIN.cast_unsigned();
const NO_KEY: usize = usize::MAX;

/// Accessed by the driver between the start and the result, and by the fiber before and after.
struct Memory {
    operation: Option<Operation<'static>>,
    /// That of the operation's descriptor.
    fd_state: FdState,
    raw: Vec<RawRequest>,
    is_complete: bool,
}

#[allow(unsafe_code, reason = "memory that has one owner at a time")]
// SAFETY: the memory is accessed by the driver until the result was stored, and by the fiber after it
// has loaded that. An operation is `Send`.
unsafe impl Send for StartedRequest {}
#[allow(unsafe_code, reason = "memory that has one owner at a time")]
// SAFETY: see above; the other fields are `Sync`.
unsafe impl Sync for StartedRequest {}

/// Where an operation is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In flight, or it was.
    Worker(OperationId),
    /// It has a result since its start.
    Done,
    /// With the caller, which is no fiber on a worker, and carries it out when it waits.
    Caller,
}

impl StartedRequest {
    fn new(origin: &Arc<Origin>, raw: Vec<RawRequest>) -> Arc<StartedRequest> {
        Arc::new(StartedRequest {
            origin: Arc::clone(origin),
            result: AtomicU32::new(PENDING),
            key: AtomicUsize::new(NO_KEY),
            memory: UnsafeCell::new(Memory {
                operation: None,
                fd_state: FdState::new(),
                raw,
                is_complete: false,
            }),
        })
    }

    /// Starts the operation that `make` returns for this driver state of its descriptor. `waits` is
    /// false for one that a caller outside of a worker carries out at once.
    ///
    /// # Safety
    ///
    /// What the operation borrows, apart from the state, stays alive and untouched until
    /// [`is_done`](StartedRequest::is_done) has returned true.
    #[allow(unsafe_code, reason = "references that the caller keeps valid")]
    pub(crate) unsafe fn begin(
        origin: &Arc<Origin>,
        waits: bool,
        make: impl FnOnce(&'static FdState) -> Operation<'static>,
    ) -> (Arc<StartedRequest>, Place) {
        let request = StartedRequest::new(origin, Vec::new());
        // SAFETY: nobody else has the request. The state lives as long as the operation, which is
        // beside it.
        let memory = unsafe { &mut *request.memory.get() };
        let operation = memory.operation.insert(make(&memory.fd_state));
        // SAFETY: the request keeps the operation in place, and is kept by its reactor; the
        // caller's contract covers the rest.
        let mut place = unsafe { request.start(operation) };
        if let Place::Caller = place
            && !waits
        {
            request.perform();
            place = Place::Done;
        }
        (request, place)
    }

    /// Starts raw requests together. The caller is a fiber on a worker with a ring.
    ///
    /// # Safety
    ///
    /// As for [`begin`](StartedRequest::begin), for what the entries point to.
    #[allow(unsafe_code, reason = "references that the caller keeps valid")]
    pub(crate) unsafe fn begin_raw(
        origin: &Arc<Origin>,
        raw: Vec<RawRequest>,
    ) -> (Arc<StartedRequest>, Place) {
        let request = StartedRequest::new(origin, raw);
        // SAFETY: nobody else has the request. The entries live as long as the operation, which is
        // beside them.
        let memory = unsafe { &mut *request.memory.get() };
        let raw = RawOperation {
            requests: &mut memory.raw,
            is_complete: &mut memory.is_complete,
        };
        let operation = memory.operation.insert(Operation::Raw(raw));
        // SAFETY: as in `begin`.
        let place = unsafe { request.start(operation) };
        (request, place)
    }

    /// # Safety
    ///
    /// The contract of `Io::begin`.
    #[allow(unsafe_code, reason = "references that the caller keeps valid")]
    unsafe fn start(self: &Arc<Self>, operation: &mut Operation<'static>) -> Place {
        if cancellation::is_cancelled() {
            self.store(-CANCELLED);
            return Place::Done;
        }
        let sink = Arc::clone(self) as Arc<dyn CompletionSink>;
        // SAFETY: the caller's contract.
        let begin = |worker: &Worker, fiber| unsafe {
            let queues = &worker.queues;
            worker.io.try_begin(queues, fiber, operation, sink)
        };
        match current::with_running(begin) {
            Some(Ok(id)) => Place::Worker(id),
            Some(Err(result)) => {
                let result = result.map_or_else(|errno| -errno.raw_os_error(), u32::cast_signed);
                self.store(result);
                Place::Done
            }
            None => Place::Caller,
        }
    }

    /// Carries out an operation on the thread of the caller.
    #[allow(unsafe_code, reason = "memory that nobody else has")]
    fn perform(&self) {
        // SAFETY: no driver has the operation, and the caller is its only owner.
        let operation = unsafe { (*self.memory.get()).operation.as_mut() };
        let operation = operation.expect("an operation that has begun");
        let result = match wait::perform(operation, None) {
            Ok(result) => result.cast_signed(),
            Err(error) => -error.raw_os_error().expect("the kernel's error"),
        };
        self.store(result);
    }

    fn store(&self, result: i32) {
        // SeqCst: `tell` stores the key and then looks for the result.
        self.result.store(result.cast_unsigned(), Ordering::SeqCst);
        self.tell_of_end();
    }

    fn tell_of_end(&self) {
        let key = self.key.swap(NO_KEY, Ordering::SeqCst);
        if key != NO_KEY {
            lock(&self.origin.told).push_back(key);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.result.load(Ordering::SeqCst) != PENDING
    }

    /// Has the end told under this key.
    pub(crate) fn tell(&self, key: usize) {
        self.key.store(key, Ordering::SeqCst);
        if self.is_done() {
            self.tell_of_end();
        }
    }

    /// Waits for the end. If the caller may not wait, the operation is cancelled.
    pub(crate) fn wait(&self, place: Place) {
        if let Place::Caller = place
            && !self.is_done()
        {
            self.perform();
        }
        if !self.origin.wait_until(|| self.is_done()) {
            self.end(place);
        }
    }

    /// Cancels the operation, and waits for its end.
    pub(crate) fn end(&self, place: Place) {
        self.cancel(place);
        self.origin.wait_in_any_case_until(|| self.is_done());
    }

    /// Requests the end of the operation, unless it has ended.
    pub(crate) fn cancel(&self, place: Place) {
        match place {
            Place::Worker(id) if !self.is_done() => {
                current::with_fiber(|worker| worker.io.end(&worker.queues, id));
            }
            Place::Caller if !self.is_done() => self.store(-CANCELLED),
            _ => {}
        }
    }

    /// Returns the result of an operation that has ended.
    ///
    /// # Errors
    ///
    /// That of the operation.
    pub(crate) fn result(&self) -> io::Result<u32> {
        let result = self.result.load(Ordering::Acquire);
        debug_assert_ne!(result, PENDING, "it has ended");
        let result = result.cast_signed();
        u32::try_from(result).map_err(|_| error_of(result))
    }

    /// Returns the raw requests of an operation that has ended.
    #[allow(unsafe_code, reason = "memory that nobody else has")]
    pub(crate) fn take_raw(&self) -> Vec<RawRequest> {
        assert!(self.is_done());
        // SAFETY: the driver no longer accesses the operation.
        let memory = unsafe { &mut *self.memory.get() };
        memory.operation = None;
        mem::take(&mut memory.raw)
    }
}

#[cold]
fn error_of(result: i32) -> io::Error {
    let is_cancelled = CANCELLED_RESULTS.contains(&result);
    let refusal = is_cancelled.then(cancellation::refusal).flatten();
    let errno = if is_cancelled { CANCELLED } else { -result };
    refusal.unwrap_or_else(|| io::Error::from_raw_os_error(errno))
}

impl CompletionSink for StartedRequest {
    fn push(&self, completion: Completion) -> Accepted {
        self.store(completion.result);
        let origin = &self.origin;
        let waiter = match &origin.fiber {
            WakeHandle::Fiber(fiber) if origin.is_waiting.load(Ordering::SeqCst) => {
                let is_waiting = origin.is_waiting.swap(false, Ordering::SeqCst);
                is_waiting.then(|| fiber.clone())
            }
            _ => None,
        };
        Accepted {
            waiter,
            is_full: false,
        }
    }
}

//! The record of a thread, and its end.
//!
//! ```text
//!   phase   JOINABLE --detach--> DETACHED
//!           JOINABLE --join----> JOINED
//! ```
//!
//! A `uthread_t` is the address of a record. The fiber holds one reference to it, and another is
//! released by whoever joins or detaches the thread: so the record of a detached thread lives until
//! its end.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_ulong, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;
use std::{io, process, ptr};

use uthread::sync::{Mutex, futex};
use uthread::thread::{Cancelled, JoinHandle};

use crate::signals;

/// A thread: a fiber, or a thread of the system that has asked for itself.
pub type uthread_t = c_ulong;

/// The function that a thread runs.
pub type uthread_start = unsafe extern "C-unwind" fn(argument: *mut c_void) -> *mut c_void;

/// The result of a thread that was cancelled.
pub(crate) const CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

pub(crate) const JOINABLE: u32 = 0;
const JOINED: u32 = 1;
pub(crate) const DETACHED: u32 = 2;

const RUNS: u32 = 0;
const HAS_ENDED: u32 = 1;

/// Number of fibers of this library that have not ended, which the end of `main` waits for.
static LIVE: AtomicU32 = AtomicU32::new(0);

/// The largest number that there was.
static PEAK: AtomicU32 = AtomicU32::new(0);

/// A clean-up handler, in a variable of the function that has pushed it.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_cleanup {
    pub(crate) routine: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    pub(crate) argument: *mut c_void,
    pub(crate) outer: *mut uthread_cleanup,
}

/// The record of a thread.
pub(crate) struct Thread {
    phase: AtomicU32,
    end: AtomicU32,
    result: AtomicPtr<c_void>,
    /// What `pthread_self(3)` returns in the thread, once it runs.
    native: AtomicUsize,
    /// `None` for a thread of the system. Locked while the fiber is spawned.
    pub(crate) fiber: Mutex<Option<JoinHandle<()>>>,
    own: Own,
}

/// What only the thread itself accesses.
struct Own {
    is_fiber: Cell<bool>,
    keeps_cancellation: Cell<bool>,
    exits_with: Cell<*mut c_void>,
    handlers: Cell<*mut uthread_cleanup>,
}

#[allow(unsafe_code, reason = "cells of one thread")]
// SAFETY: only the thread that the record is about uses it.
unsafe impl Sync for Own {}
#[allow(unsafe_code, reason = "cells of one thread")]
// SAFETY: the pointer is used by that thread alone.
unsafe impl Send for Own {}

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    /// Releases the record of a thread of the system at its end.
    static OUTSIDE: Cell<Option<Arc<Thread>>> = const { Cell::new(None) };
}

/// Returns the record of the calling thread, if there is one. Not inlined: the address of a
/// thread-local value must not be kept across a wait.
#[inline(never)]
#[allow(unsafe_code, reason = "a reference to the record of the caller")]
pub(crate) fn current() -> Option<&'static Thread> {
    // SAFETY: null, or the record of the caller, which it holds a reference to. No reference is
    // used after its end.
    unsafe { CURRENT.get().as_ref() }
}

/// Returns the record of the calling thread. One of the system gets it now, if it has none.
pub(crate) fn here() -> &'static Thread {
    current().unwrap_or_else(|| {
        let outside = Thread::new(false, DETACHED);
        CURRENT.set(Arc::as_ptr(&outside));
        outside.record_native();
        OUTSIDE.set(Some(outside));
        current().expect("it was set")
    })
}

/// Returns the thread of the C library that this one is to it, if it has begun to run.
///
/// # Safety
///
/// The thread has not been released.
#[allow(unsafe_code, reason = "an address that the program passes")]
pub unsafe fn native(thread: uthread_t) -> Option<libc::pthread_t> {
    // SAFETY: the caller's contract.
    unsafe { Thread::of(thread) }.native()
}

/// Returns the largest number of fibers that were there at once.
pub fn peak() -> u32 {
    PEAK.load(Ordering::Relaxed)
}

/// Returns `true` if the caller is a fiber of this library that may be suspended: it is not in a handler of
/// a signal.
pub fn is_fiber() -> bool {
    suspendable().is_some()
}

/// Returns the record of the calling fiber, or `None` on a thread of the system, and in a handler of a
/// signal.
fn suspendable() -> Option<&'static Thread> {
    fiber().filter(|_| !signals::is_handler())
}

/// Returns the record of the calling fiber, or `None` on a thread of the system.
fn fiber() -> Option<&'static Thread> {
    current().filter(|thread| thread.own.is_fiber.get())
}

/// Returns a number of the calling thread that no other living thread has, and that is not zero.
#[inline(never)]
pub(crate) fn number() -> usize {
    CURRENT.with(|current| ptr::from_ref(current).addr())
}

/// Makes a call that is a cancellation point.
///
/// # Errors
///
/// The errors of the call.
pub(crate) fn point<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(thread) = suspendable() else {
        return call();
    };
    if thread.own.keeps_cancellation.get() {
        return uthread::shield(call);
    }
    let result = call();
    if result.is_err() {
        test_cancel();
    }
    result
}

/// Ends the calling thread if it was cancelled, and allows that.
pub(crate) fn test_cancel() {
    if let Some(thread) = suspendable()
        && !thread.own.keeps_cancellation.get()
        && uthread::thread::is_cancelled()
    {
        exit(CANCELED);
    }
}

/// Lets others run in the middle of a call that is a cancellation point. Nothing unwinds the caller
/// without its clean-up handlers, or where it is code of another language.
pub(crate) fn let_others_run() {
    if signals::is_handler() {
        return;
    }
    uthread::shield(uthread::yield_now);
    test_cancel();
}

/// The payload that unwinds a thread which exits.
struct Exit(*mut c_void);

#[allow(
    unsafe_code,
    reason = "a value that the program passes between threads"
)]
// SAFETY: the library does not use what it points to.
unsafe impl Send for Exit {}

/// Ends the calling thread: calls the clean-up handlers, and unwinds its stack.
pub(crate) fn exit(result: *mut c_void) -> ! {
    let Some(thread) = fiber() else {
        exit_outside(result);
    };
    thread.own.keeps_cancellation.set(true);
    thread.own.exits_with.set(result);
    go_on_to_exit(thread)
}

/// Calls the rest of the clean-up handlers, and unwinds the stack. A handler may jump to its function,
/// which then calls this again.
fn go_on_to_exit(thread: &Thread) -> ! {
    while let Some(handler) = thread.pop() {
        run(handler);
    }
    panic::resume_unwind(Box::new(Exit(thread.own.exits_with.get())));
}

/// Goes on with the exit of the calling thread after a handler that has jumped to its function.
pub fn continue_exit() -> ! {
    go_on_to_exit(here())
}

/// Ends a thread of the system. The main thread ends the process once all fibers have ended.
#[allow(unsafe_code, reason = "the end of a thread by the C library")]
fn exit_outside(result: *mut c_void) -> ! {
    // SAFETY: the calls have no preconditions.
    let is_main = unsafe { libc::getpid() } == unsafe { libc::gettid() };
    if !is_main {
        // SAFETY: as of the thread's own call.
        unsafe { libc::pthread_exit(result) };
    }
    loop {
        match LIVE.load(Ordering::Acquire) {
            0 => process::exit(0),
            count => {
                let _ = futex::wait(&LIVE, count, None);
            }
        }
    }
}

#[allow(unsafe_code, reason = "a function of the program")]
pub(crate) fn run((routine, argument): (unsafe extern "C-unwind" fn(*mut c_void), *mut c_void)) {
    // SAFETY: the contract of `uthread_cleanup_push`.
    unsafe { routine(argument) };
}

impl Thread {
    pub(crate) fn new(is_fiber: bool, phase: u32) -> Arc<Thread> {
        Arc::new(Thread {
            phase: AtomicU32::new(phase),
            end: AtomicU32::new(RUNS),
            result: AtomicPtr::new(CANCELED),
            native: AtomicUsize::new(0),
            fiber: Mutex::new(None),
            own: Own {
                is_fiber: Cell::new(is_fiber),
                keeps_cancellation: Cell::new(false),
                exits_with: Cell::new(CANCELED),
                handlers: Cell::new(ptr::null_mut()),
            },
        })
    }

    /// Returns the record of this thread.
    ///
    /// # Safety
    ///
    /// The thread has not been released.
    #[allow(unsafe_code, reason = "an address that the program passes")]
    pub(crate) unsafe fn of<'a>(thread: uthread_t) -> &'a Thread {
        // SAFETY: the caller's contract.
        unsafe { &*ptr::with_exposed_provenance(thread as usize) }
    }

    /// Releases the reference that the program has.
    ///
    /// # Safety
    ///
    /// Called once.
    #[allow(
        unsafe_code,
        reason = "a reference that the program holds by its address"
    )]
    pub(crate) unsafe fn release(&self) {
        // SAFETY: `uthread_create` has leaked the reference, and the caller's contract.
        drop(unsafe { Arc::from_raw(ptr::from_ref(self)) });
    }

    /// Removes the handler that was pushed last.
    #[allow(unsafe_code, reason = "handlers in variables of the program")]
    pub(crate) fn pop(&self) -> Option<(unsafe extern "C-unwind" fn(*mut c_void), *mut c_void)> {
        // SAFETY: null, or a variable of a function that has not returned.
        let handler = unsafe { self.own.handlers.get().as_ref() }?;
        self.own.handlers.set(handler.outer);
        handler.routine.map(|routine| (routine, handler.argument))
    }

    #[allow(unsafe_code, reason = "a call of the C library")]
    fn record_native(&self) {
        // SAFETY: the call has no preconditions.
        let native = unsafe { libc::pthread_self() };
        self.native.store(native as usize, Ordering::Relaxed);
    }

    /// Returns the thread of the C library that the fiber is to it, if it has begun to run.
    pub(crate) fn native(&self) -> Option<libc::pthread_t> {
        match self.native.load(Ordering::Relaxed) {
            0 => None,
            native => Some(native as libc::pthread_t),
        }
    }

    /// Returns the number of the thread.
    pub(crate) fn id(&self) -> uthread_t {
        ptr::from_ref(self).expose_provenance() as uthread_t
    }

    /// Makes cancellations wait, or not; returns `true` if they did. Called by the thread.
    pub(crate) fn keep_cancellation(&self, keeps: bool) -> bool {
        self.own.keeps_cancellation.replace(keeps)
    }

    /// Makes this handler the first one, and returns the one before. Called by the thread.
    pub(crate) fn push(&self, handler: *mut uthread_cleanup) -> *mut uthread_cleanup {
        self.own.handlers.replace(handler)
    }

    /// Makes the thread release what it leaves at its end; `false` if it is joined or detached.
    pub(crate) fn detach(&self) -> bool {
        self.change_phase(DETACHED)
    }

    fn change_phase(&self, to: u32) -> bool {
        let changed =
            (self.phase).compare_exchange(JOINABLE, to, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Waits for the end of the fiber, and returns its result.
    pub(crate) fn join(&self, deadline: Option<Instant>) -> io::Result<*mut c_void> {
        if ptr::eq(self, CURRENT.get()) {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        if !self.change_phase(JOINED) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A cancelled or late caller leaves the thread joinable.
        let joined = point(|| {
            let ended = self.await_end(deadline);
            if ended.is_err() {
                self.phase.store(JOINABLE, Ordering::Release);
            }
            ended
        });
        joined?;
        let fiber = self.fiber.lock().ok().and_then(|mut fiber| fiber.take());
        // What is left of it is the destruction of its thread-locals.
        let _ = uthread::shield(|| fiber.map(JoinHandle::join));
        Ok(self.result.load(Ordering::Acquire))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.load(Ordering::Acquire) == HAS_ENDED
    }

    fn await_end(&self, deadline: Option<Instant>) -> io::Result<()> {
        while self.end.load(Ordering::Acquire) == RUNS {
            match futex::wait(&self.end, RUNS, deadline) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => result?,
            }
        }
        Ok(())
    }
}

/// The end of a fiber, also if it has never run.
pub(crate) struct Ending(Arc<Thread>);

impl Ending {
    /// Counts a fiber that is about to be spawned.
    pub(crate) fn new(thread: Arc<Thread>) -> Ending {
        let live = LIVE.fetch_add(1, Ordering::Relaxed) + 1;
        if live > PEAK.load(Ordering::Relaxed) {
            PEAK.fetch_max(live, Ordering::Relaxed);
        }
        Ending(thread)
    }

    #[allow(unsafe_code, reason = "a function of the program")]
    pub(crate) fn run(&self, start: uthread_start, argument: *mut c_void) {
        CURRENT.set(Arc::as_ptr(&self.0));
        self.0.record_native();
        // SAFETY: the contract of `uthread_create`.
        let body = AssertUnwindSafe(|| unsafe { start(argument) });
        let result = match panic::catch_unwind(body) {
            Ok(result) => result,
            Err(payload) => result_of(payload),
        };
        self.0.result.store(result, Ordering::Release);
        // The destructors of keys are called after the record is released.
        CURRENT.set(ptr::null());
    }
}

/// Returns the result of a thread that was unwound.
fn result_of(payload: Box<dyn Any + Send>) -> *mut c_void {
    match payload.downcast::<Exit>() {
        Ok(exit) => exit.0,
        Err(payload) if payload.is::<Cancelled>() => CANCELED,
        // A panic of the program, whose message is printed: a thread has nobody to pass it on to.
        Err(_) => process::abort(),
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end.store(HAS_ENDED, Ordering::Release);
        futex::wake(&self.0.end, usize::MAX);
        if LIVE.fetch_sub(1, Ordering::Release) == 1 {
            futex::wake(&LIVE, 1);
        }
    }
}

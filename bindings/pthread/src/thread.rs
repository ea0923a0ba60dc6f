//! Threads, which are fibers: create, join, detach, exit.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Arc;
use std::time::Instant;

use uthread::thread::Builder;

use crate::attributes::uthread_attr_t;
use crate::record::{self, DETACHED, Ending, JOINABLE, Thread, uthread_start, uthread_t};
use crate::{deadline, errno, process};

/// The argument of a thread.
struct Argument(*mut c_void);

#[allow(
    unsafe_code,
    reason = "a value that the program passes between threads"
)]
// SAFETY: the library does not use what it points to.
unsafe impl Send for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Creates a thread that calls `start`. The thread is a fiber of a runtime with as many workers as
/// there are CPUs, or as `uthread_setconcurrency` or the variable `UTHREAD_WORKERS` says.
///
/// Returns 0; `EAGAIN` if there is no memory or the runtime cannot start; `EINVAL` for a stack of more
/// than 1 GiB, or if `UTHREAD_WORKERS` is no number; `ENOTSUP` where fibers have no thread-local
/// storage of their own, so that they are no threads to code in C, as with `UTHREAD_LEAN=1`.
///
/// # Safety
///
/// `thread` points to where the thread is stored, `attr` is null or points to attributes, and the
/// function may be called with the argument by another thread.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_create(
    thread: *mut uthread_t,
    attr: *const uthread_attr_t,
    start: uthread_start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let attributes = unsafe { attr.as_ref() }.copied().unwrap_or_default();
    let detached = attributes.is_detached();
    let made = Thread::new(true, if detached { DETACHED } else { JOINABLE });
    // SAFETY: the caller's contract. The fiber may find its own number in it.
    unsafe { thread.write(made.id()) };
    match spawn(&made, &attributes, start, Argument(argument)) {
        Ok(()) => {
            if !detached {
                let _ = Arc::into_raw(made);
            }
            0
        }
        Err(error) => match errno::number(&error) {
            known @ (libc::EINVAL | libc::ENOTSUP) => known,
            _ => libc::EAGAIN,
        },
    }
}

fn spawn(
    thread: &Arc<Thread>,
    attributes: &uthread_attr_t,
    start: uthread_start,
    argument: Argument,
) -> io::Result<()> {
    let builder = match attributes.stack_size() {
        Some(bytes) => Builder::new().stack_size(bytes),
        None => Builder::new(),
    };
    // Who is told of the fiber meanwhile waits for its handle.
    let mut fiber = thread.fiber.lock().map_err(|_| io::ErrorKind::Other)?;
    let ending = Ending::new(Arc::clone(thread));
    let body = move || ending.run(start, argument.get());
    let spawned = if record::is_fiber() {
        builder.spawn(body)
    } else {
        process::runtime().and_then(|runtime| builder.spawn_on(runtime, body))
    };
    *fiber = Some(spawned?);
    Ok(())
}

/// Waits for the end of a thread, and stores its result if `result` is not null. A cancellation point.
///
/// Returns 0; `EINVAL` if the thread is detached or joined already; `EDEADLK` if it is the caller.
///
/// # Safety
///
/// The thread was neither joined nor detached, and `result` is null or points to where the result is
/// stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_join(thread: uthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { join(thread, result, None) }
}

/// Waits for the end of a thread like `uthread_join`, until a time of `CLOCK_REALTIME`. Returns
/// `ETIMEDOUT` after that; the thread is still to be joined then.
///
/// # Safety
///
/// As for `uthread_join`; `time` points to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_timedjoin_np(
    thread: uthread_t,
    result: *mut *mut c_void,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, time) }
}

/// Waits for the end of a thread like `uthread_join`, until a time of this clock, `CLOCK_REALTIME` or
/// `CLOCK_MONOTONIC`. Returns `ETIMEDOUT` after that; the thread is still to be joined then.
///
/// # Safety
///
/// As for `uthread_join`; `time` points to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_clockjoin_np(
    thread: uthread_t,
    result: *mut *mut c_void,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    match deadline::of(clock, unsafe { &*time }) {
        // SAFETY: the caller's contract.
        Ok(deadline) => unsafe { join(thread, result, deadline) },
        Err(error) => errno::number(&error),
    }
}

/// Joins a thread like `uthread_join` if it has ended, and returns `EBUSY` otherwise.
///
/// # Safety
///
/// As for `uthread_join`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_tryjoin_np(
    thread: uthread_t,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    if !unsafe { Thread::of(thread) }.has_ended() {
        // Lets it run: the caller may try in a loop.
        uthread::yield_now();
        return libc::EBUSY;
    }
    // SAFETY: the caller's contract.
    unsafe { join(thread, result, None) }
}

/// # Safety
///
/// As for `uthread_join`.
#[allow(unsafe_code, reason = "a thread that the program passes")]
unsafe fn join(thread: uthread_t, result: *mut *mut c_void, deadline: Option<Instant>) -> c_int {
    // SAFETY: the caller's contract.
    let thread = unsafe { Thread::of(thread) };
    match thread.join(deadline) {
        Ok(value) => {
            if !result.is_null() {
                // SAFETY: the caller's contract.
                unsafe { result.write(value) };
            }
            // SAFETY: the thread was joinable, and is joined now.
            unsafe { thread.release() };
            0
        }
        Err(error) => errno::number(&error),
    }
}

/// Makes a thread release what it leaves at its end. Returns 0, or `EINVAL` if it is detached or
/// joined already.
///
/// # Safety
///
/// The thread was neither joined nor detached.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_detach(thread: uthread_t) -> c_int {
    // SAFETY: the caller's contract.
    let thread = unsafe { Thread::of(thread) };
    if !thread.detach() {
        return libc::EINVAL;
    }
    // SAFETY: the thread was joinable, and is detached now.
    unsafe { thread.release() };
    0
}

/// Ends the calling thread: calls its clean-up handlers, and unwinds its stack. The main thread waits
/// until all other threads have ended, and then ends the process.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_exit(result: *mut c_void) -> ! {
    record::exit(result)
}

/// Returns the calling thread.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_self() -> uthread_t {
    record::here().id()
}

/// Returns a number other than zero if both are the same thread.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_equal(one: uthread_t, other: uthread_t) -> c_int {
    c_int::from(one == other)
}

/// Returns the number of workers, which run fibers at the same time; or what was set, if no thread was
/// created yet.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_getconcurrency() -> c_int {
    c_int::try_from(process::count_workers()).unwrap_or(c_int::MAX)
}

/// Sets the number of workers; zero for as many as `UTHREAD_WORKERS` says, or as there are CPUs.
///
/// Before the first thread is created, any number may be set. Later the number is a hint: the largest
/// is what was set then, or the number for zero if that is larger. Returns 0, or `EINVAL` for a
/// negative number.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_setconcurrency(level: c_int) -> c_int {
    let workers = usize::try_from(level).map_err(|_| io::ErrorKind::InvalidInput.into());
    errno::code(workers.and_then(process::set_workers))
}

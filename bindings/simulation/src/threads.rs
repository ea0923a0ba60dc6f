//! Threads: one that a fiber with virtual time creates is a fiber of its runtime.
//!
//! The number of such a thread is odd. Those of the C library are addresses, and even.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, ptr};

use uthread::interposition;
use uthread::thread::{Builder, JoinHandle};

use crate::counter::with_real_counter;
use crate::lock::lock;
use crate::real::real;
use crate::world::Shared;

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// What `pthread_join(3)` stores for a thread that was cancelled.
const CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// A pointer that the program passes between threads.
struct Passed(*mut c_void);

#[allow(unsafe_code, reason = "the program's pointer")]
// SAFETY: nothing here uses what it points to.
unsafe impl Send for Passed {}

impl Passed {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// The fibers that are neither joined nor detached, by their numbers.
static THREADS: Mutex<BTreeMap<libc::pthread_t, JoinHandle<Passed>>> = Mutex::new(BTreeMap::new());

static NEXT: AtomicU64 = AtomicU64::new(1);

fn take(thread: libc::pthread_t) -> Option<JoinHandle<Passed>> {
    lock(&THREADS).remove(&thread)
}

/// Does what `pthread_create(3)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    type Call = unsafe extern "C" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        Start,
        *mut c_void,
    ) -> c_int;
    if !interposition::has_virtual_time() {
        if !interposition::is_spawning()
            && let Some(world) = Shared::current()
            && world.leave("creates a thread of the system", None).is_err()
        {
            return libc::EPERM;
        }
        // SAFETY: this is the type of the function.
        let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"pthread_create")) };
        // SAFETY: the contract of the call is the caller's.
        return with_real_counter(|| unsafe { call(thread, attributes, start, argument) });
    }
    // SAFETY: by the caller's contract.
    let (bytes, is_detached) = unsafe { settings(attributes) };
    let number = NEXT.fetch_add(2, Ordering::Relaxed);
    // Before the fiber runs, as it may look.
    // SAFETY: by the caller's contract.
    unsafe { thread.write(number) };
    let argument = Passed(argument);
    let builder = Builder::new().stack_size(bytes);
    let Ok(fiber) = builder.spawn(move || Passed(start(argument.get()))) else {
        return libc::EAGAIN;
    };
    if !is_detached {
        lock(&THREADS).insert(number, fiber);
    }
    0
}

/// Returns the size of the stack, and whether the thread is detached.
///
/// # Safety
///
/// The attributes are null, or initialized.
#[allow(unsafe_code, reason = "functions of the C library")]
unsafe fn settings(attributes: *const libc::pthread_attr_t) -> (usize, bool) {
    unsafe extern "C" {
        fn pthread_attr_getdetachstate(
            attributes: *const libc::pthread_attr_t,
            state: *mut c_int,
        ) -> c_int;
    }
    let mut default = MaybeUninit::uninit();
    let attributes = if attributes.is_null() {
        // SAFETY: there is room for the result.
        unsafe { libc::pthread_attr_init(default.as_mut_ptr()) };
        default.as_ptr()
    } else {
        attributes
    };
    let (mut bytes, mut state) = (0, 0);
    // SAFETY: the attributes are initialized.
    unsafe { libc::pthread_attr_getstacksize(attributes, &raw mut bytes) };
    // SAFETY: as above.
    unsafe { pthread_attr_getdetachstate(attributes, &raw mut state) };
    (bytes, state == libc::PTHREAD_CREATE_DETACHED)
}

/// Does what `pthread_join(3)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    type Call = unsafe extern "C" fn(libc::pthread_t, *mut *mut c_void) -> c_int;
    let Some(fiber) = take(thread) else {
        // SAFETY: this is the type of the function.
        let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"pthread_join")) };
        // SAFETY: the contract of the call is the caller's.
        return unsafe { call(thread, result) };
    };
    let ended = uthread::shield(|| fiber.join());
    if !result.is_null() {
        let value = ended.map_or(CANCELED, |value| value.get());
        // SAFETY: by the caller's contract.
        unsafe { result.write(value) };
    }
    0
}

/// Does what `pthread_detach(3)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(thread: libc::pthread_t) -> c_int {
    type Call = unsafe extern "C" fn(libc::pthread_t) -> c_int;
    if let Some(fiber) = take(thread) {
        drop(fiber);
        return 0;
    }
    // SAFETY: this is the type of the function.
    let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"pthread_detach")) };
    // SAFETY: the contract of the call is the caller's.
    unsafe { call(thread) }
}

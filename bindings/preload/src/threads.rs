//! Threads, and what is asked about them: of the thread that a fiber is to the C library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use uthread_pthread::record::{self, uthread_start, uthread_t};
use uthread_pthread::{thread, uthread_attr_t};

use crate::real::{initialize, real};
use crate::report;

/// `pthread_create`. The stack is as large as glibc would make it; one that the program provides is not
/// used.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_create(
    made: *mut uthread_t,
    attr: *const libc::pthread_attr_t,
    start: uthread_start,
    argument: *mut c_void,
) -> c_int {
    // A library may create threads before this one is initialized.
    initialize();
    report::count_thread();
    let (mut bytes, mut state) = (0, 0);
    let mut default = std::mem::MaybeUninit::uninit();
    let attr = if attr.is_null() {
        // SAFETY: the attributes have room for the result.
        unsafe { libc::pthread_attr_init(default.as_mut_ptr()) };
        default.as_ptr()
    } else {
        attr
    };
    // SAFETY: initialized above, or by the contract of the call.
    unsafe { libc::pthread_attr_getstacksize(attr, &raw mut bytes) };
    // SAFETY: as before.
    unsafe { pthread_attr_getdetachstate(attr, &raw mut state) };
    let attr = uthread_attr_t::new(bytes, state == libc::PTHREAD_CREATE_DETACHED);
    // SAFETY: the contract of the call is the caller's.
    unsafe { thread::uthread_create(made, &raw const attr, start, argument) }
}

#[allow(unsafe_code, reason = "functions of the C library")]
unsafe extern "C" {
    fn pthread_attr_getdetachstate(attr: *const libc::pthread_attr_t, state: *mut c_int) -> c_int;
}

/// Defines what takes the place of functions that are about a thread.
macro_rules! about_threads {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            #[allow(unsafe_code, reason = "a C function")]
            pub(crate) unsafe extern "C" fn $name(
                thread: uthread_t,
                $($argument: $kind),*
            ) -> c_int {
                // SAFETY: the contract of the call is the caller's.
                let Some(native) = (unsafe { record::native(thread) }) else {
                    return libc::ESRCH;
                };
                let call = real!($name: fn(libc::pthread_t, $($kind),*) -> c_int);
                // SAFETY: the contract of the call is the caller's.
                unsafe { call(native, $($argument),*) }
            }
        )*
    };
}

about_threads! {
    pthread_getattr_np(attr: *mut libc::pthread_attr_t);
    pthread_getcpuclockid(clock: *mut libc::clockid_t);
    pthread_setschedparam(policy: c_int, parameters: *const libc::sched_param);
    pthread_getschedparam(policy: *mut c_int, parameters: *mut libc::sched_param);
    pthread_setschedprio(priority: c_int);
    pthread_setaffinity_np(bytes: usize, cpus: *const libc::cpu_set_t);
    pthread_getaffinity_np(bytes: usize, cpus: *mut libc::cpu_set_t);
}

/// `pthread_setname_np`: a fiber that names itself would name its worker.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_setname_np(
    _thread: uthread_t,
    _name: *const c_char,
) -> c_int {
    0
}

/// `pthread_getname_np`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_getname_np(
    _thread: uthread_t,
    name: *mut c_char,
    bytes: usize,
) -> c_int {
    if bytes == 0 {
        return libc::ERANGE;
    }
    // SAFETY: the contract of the call is the caller's.
    unsafe { ptr::write(name, 0) };
    0
}

/// `pthread_kill`: the signal is for the process, as a fiber has no thread that could be interrupted.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_kill(_thread: uthread_t, signal: c_int) -> c_int {
    if signal == 0 {
        return 0;
    }
    // SAFETY: the call has no preconditions.
    let process = unsafe { libc::getpid() };
    // SAFETY: any number may be passed.
    match unsafe { libc::kill(process, signal) } {
        0 => 0,
        _ => libc::EINVAL,
    }
}

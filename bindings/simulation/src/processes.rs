//! The functions of the C library that start a process: a simulated world has none.

use std::ffi::{c_char, c_int, c_void};
use std::{mem, ptr};

use uthread_interpose::set_errno;

use crate::counter::{send_signals, with_real_counter};
use crate::real::real;
use crate::world::Shared;

const WHAT: &str = "starts a process";

/// Tells the world of the caller. Returns the error number if it denies that.
fn refusal() -> Option<c_int> {
    let error = Shared::current()?.leave(WHAT, None).err()?;
    error.raw_os_error()
}

/// Does what `fork(2)` does.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> libc::pid_t {
    type Call = unsafe extern "C" fn() -> libc::pid_t;
    if let Some(number) = refusal() {
        set_errno(number);
        return -1;
    }
    // SAFETY: this is the type of the function.
    let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"fork")) };
    // SAFETY: the contract of the call is the caller's.
    let number = with_real_counter(|| unsafe { call() });
    if number == 0 {
        send_signals(false);
    }
    number
}

/// Does what `vfork(2)` does, of which POSIX says that it may do what `fork` does.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> libc::pid_t {
    // SAFETY: the contract of the call is the caller's.
    unsafe { fork() }
}

/// Does what `system(3)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn system(command: *const c_char) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char) -> c_int;
    if let Some(number) = refusal() {
        set_errno(number);
        return -1;
    }
    // SAFETY: this is the type of the function.
    let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"system")) };
    // SAFETY: the contract of the call is the caller's.
    with_real_counter(|| unsafe { call(command) })
}

/// Does what `popen(3)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    type Call = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
    if let Some(number) = refusal() {
        set_errno(number);
        return ptr::null_mut();
    }
    // SAFETY: this is the type of the function.
    let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"popen")) };
    // SAFETY: the contract of the call is the caller's.
    with_real_counter(|| unsafe { call(command, mode) })
}

/// Defines functions that start a program.
macro_rules! starting {
    ($($name:ident, $text:literal;)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                process: *mut libc::pid_t,
                path: *const c_char,
                actions: *const libc::posix_spawn_file_actions_t,
                attributes: *const libc::posix_spawnattr_t,
                arguments: *const *mut c_char,
                environment: *const *mut c_char,
            ) -> c_int {
                type Call = unsafe extern "C" fn(
                    *mut libc::pid_t,
                    *const c_char,
                    *const libc::posix_spawn_file_actions_t,
                    *const libc::posix_spawnattr_t,
                    *const *mut c_char,
                    *const *mut c_char,
                ) -> c_int;
                if let Some(number) = refusal() {
                    return number;
                }
                // SAFETY: this is the type of the function.
                let call = unsafe { mem::transmute::<*mut c_void, Call>(real($text)) };
                // SAFETY: the contract of the call is the caller's.
                with_real_counter(|| unsafe { call(process, path, actions, attributes, arguments, environment) })
            }
        )*
    };
}

starting! {
    posix_spawn, c"posix_spawn";
    posix_spawnp, c"posix_spawnp";
}

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
        return failed(number);
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

/// Defines functions that start a process, each with what it returns if the world denies that.
macro_rules! starting {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $text:literal, $refused:expr;)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                type Call = unsafe extern "C" fn($($kind),*) -> $result;
                if let Some(number) = refusal() {
                    return $refused(number);
                }
                // SAFETY: this is the type of the function.
                let call = unsafe { mem::transmute::<*mut c_void, Call>(real($text)) };
                // SAFETY: the contract of the call is the caller's.
                with_real_counter(|| unsafe { call($($argument),*) })
            }
        )*
    };
}

starting! {
    popen(command: Text, mode: Text) -> *mut libc::FILE, c"popen", |number| {
        set_errno(number);
        ptr::null_mut()
    };
    posix_spawn(process: *mut libc::pid_t, path: Text, actions: Actions, attributes: Attributes, arguments: Texts, environment: Texts) -> c_int, c"posix_spawn", |number| number;
    posix_spawnp(process: *mut libc::pid_t, path: Text, actions: Actions, attributes: Attributes, arguments: Texts, environment: Texts) -> c_int, c"posix_spawnp", |number| number;
    system(command: Text) -> c_int, c"system", failed;
}

type Text = *const c_char;
type Texts = *const *mut c_char;
type Actions = *const libc::posix_spawn_file_actions_t;
type Attributes = *const libc::posix_spawnattr_t;

/// Returns what a function does that fails with this error number.
fn failed(number: c_int) -> c_int {
    set_errno(number);
    -1
}

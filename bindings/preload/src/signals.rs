//! How handlers of signals are installed.

use std::ffi::c_int;

use uthread_pthread::signals::{install, uthread_sigaction};

use crate::real::{initialize, real};

/// `sigaction`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // A library may install a handler before this one is initialized.
    initialize();
    // SAFETY: the contract of the call is the caller's.
    unsafe { uthread_sigaction(signal, action, old) }
}

/// Defines what takes the place of the older functions.
macro_rules! older {
    ($($name:ident)*) => {
        $(
            #[allow(unsafe_code, reason = "a C function")]
            pub(crate) unsafe extern "C-unwind" fn $name(
                signal: c_int,
                handler: libc::sighandler_t,
            ) -> libc::sighandler_t {
                initialize();
                install(signal, handler, |handler| {
                    let call = real!($name: fn(c_int, libc::sighandler_t) -> libc::sighandler_t);
                    // SAFETY: the contract of the call is the caller's.
                    unsafe { call(signal, handler) }
                })
            }
        )*
    };
}

older!(signal bsd_signal ssignal sysv_signal __sysv_signal sigset);

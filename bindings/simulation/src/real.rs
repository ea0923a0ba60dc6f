//! The functions of the C library whose names this crate takes.

use std::ffi::{CStr, c_void};

/// Returns the function of the C library with this name, which exists.
#[allow(unsafe_code, reason = "a call of the loader")]
pub(crate) fn real(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a string of C.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has this function");
    found
}

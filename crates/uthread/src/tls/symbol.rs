//! Symbols of the C library that no header declares.

use std::ffi::CStr;

/// Returns the address of a symbol of the program or its libraries.
#[allow(unsafe_code, reason = "looking a symbol up")]
pub(super) fn symbol<T>(name: &CStr) -> Option<*const T> {
    // SAFETY: the name ends with a zero.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const().cast())
}

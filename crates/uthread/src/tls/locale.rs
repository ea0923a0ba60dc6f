//! The locale of a thread (`uselocale(3)`), which the C library keeps in variables of its own.

use std::ptr;

/// `LC_GLOBAL_LOCALE` of `uselocale(3)`.
const GLOBAL_LOCALE: usize = usize::MAX;

/// Gives the calling fiber the locale of the process.
#[inline(never)]
#[allow(unsafe_code, reason = "the locale of a thread without one of its own")]
pub(super) fn reset() {
    // SAFETY: the argument is the value that stands for the locale of the process.
    unsafe { libc::uselocale(ptr::without_provenance_mut(GLOBAL_LOCALE)) };
}

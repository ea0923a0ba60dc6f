//! CPU caches: the size of a line, and prefetching.

use std::ptr::NonNull;

/// The size of a cache line on all supported CPUs.
pub(crate) const LINE_BYTES: usize = 64;

/// Prefetches a value.
pub(crate) fn prefetch<T>(value: NonNull<T>) {
    prefetch_bytes(value.cast(), size_of::<T>());
}

/// Prefetches `count` bytes, at least one. Reads nothing and never faults, whatever the address.
pub(crate) fn prefetch_bytes(start: NonNull<u8>, count: usize) {
    // The last byte is on a line of its own unless the first is at the start of one.
    for offset in (0..count.saturating_sub(1)).step_by(LINE_BYTES) {
        prefetch_line(start.as_ptr().wrapping_add(offset));
    }
    prefetch_line(start.as_ptr().wrapping_add(count.saturating_sub(1)));
}

#[allow(unsafe_code, reason = "an instruction that Rust has no safe name for")]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

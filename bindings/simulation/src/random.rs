//! The functions of the C library that return random bytes. `std` takes the keys of its hash maps from
//! one.

use std::ffi::{c_int, c_uint, c_void};

use uthread::interposition;

/// Does what `getrandom(2)` does.
///
/// # Safety
///
/// `buffer` is valid for writes of `length` bytes.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    // SAFETY: the contract of the call is the caller's.
    if unsafe { fill(buffer, length) } {
        return length.cast_signed();
    }
    // SAFETY: as above.
    (unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) }) as isize
}

/// Does what `getentropy(3)` does.
///
/// # Safety
///
/// `buffer` is valid for writes of `length` bytes.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
    // SAFETY: the contract of the call is the caller's.
    let filled = unsafe { getrandom(buffer, length, 0) };
    if filled == length.cast_signed() {
        0
    } else {
        -1
    }
}

/// Writes what the seed decides. Returns `false` if there is none.
///
/// # Safety
///
/// `buffer` is valid for writes of `length` bytes.
#[allow(unsafe_code, reason = "memory of the caller's")]
unsafe fn fill(buffer: *mut c_void, length: usize) -> bool {
    let mut rest = length;
    loop {
        let Some(number) = interposition::random() else {
            return false;
        };
        let bytes = number.to_ne_bytes();
        let count = rest.min(bytes.len());
        // SAFETY: so many bytes are left, by the caller's contract.
        let place = unsafe { buffer.byte_add(length - rest) }.cast::<u8>();
        // SAFETY: as above.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), count) };
        rest -= count;
        if rest == 0 {
            return true;
        }
    }
}

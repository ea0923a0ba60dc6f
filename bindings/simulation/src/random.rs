//! The functions of the C library that return random bytes. `std` takes the keys of its hash maps from
//! one.

use std::ffi::{c_int, c_uint, c_void};

use uthread::interposition;
use uthread_interpose::system_call;

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
    unsafe { system_call(libc::SYS_getrandom, [buffer.addr(), length, flags as usize]) }
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

/// Writes what the seed decides. Returns `false` if there is none, or no byte: a crate that looks once in a
/// process whether there is such a call takes no number from the seed.
///
/// # Safety
///
/// `buffer` is valid for writes of `length` bytes.
#[allow(unsafe_code, reason = "memory of the caller's")]
unsafe fn fill(buffer: *mut c_void, length: usize) -> bool {
    let mut rest = length;
    while rest > 0 {
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
    }
    length > 0
}

#[cfg(test)]
mod tests {
    use uthread::Runtime;

    use super::getrandom;

    #[allow(unsafe_code, reason = "a function of the C library")]
    fn number(tries: u32) -> u64 {
        let runtime = crate::seeded(Runtime::builder(), 7).build().unwrap();
        runtime.run(|| {
            for _ in 0..tries {
                // SAFETY: no byte is written.
                assert_eq!(unsafe { getrandom(std::ptr::null_mut(), 0, 0) }, 0);
            }
            let mut number = 0_u64;
            // SAFETY: there is room for the bytes.
            let length = unsafe { getrandom((&raw mut number).cast(), 8, 0) };
            assert_eq!(length, 8);
            number
        })
    }

    #[test]
    fn a_look_whether_there_is_such_a_call_changes_nothing() {
        assert_eq!(number(0), number(3));
    }
}

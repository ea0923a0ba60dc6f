//! System calls, as the C library makes them: its functions cannot be called, as those of this crate
//! have their names.

use std::arch::asm;
use std::ffi::c_long;

/// The largest number of an error, which the kernel returns negated.
const ERRORS_MAX: isize = 4095;

/// Makes a system call. Returns its result, or -1 with the error number in `errno`.
///
/// # Safety
///
/// The contract of the system call.
#[allow(unsafe_code, reason = "a system call")]
pub unsafe fn call<const N: usize>(number: c_long, arguments: [usize; N]) -> isize {
    // SAFETY: the caller's contract.
    returned(unsafe { result_of(number, arguments) })
}

/// Makes a system call. Returns what the kernel returns.
///
/// # Safety
///
/// The contract of the system call.
#[allow(unsafe_code, reason = "a system call")]
pub(crate) unsafe fn result_of<const N: usize>(number: c_long, arguments: [usize; N]) -> isize {
    let [a, b, c, d, e, f] = std::array::from_fn(|at| arguments.get(at).copied().unwrap_or(0));
    let result: isize;
    // SAFETY: the caller's contract. The kernel changes these registers only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Returns -1 with the number in `errno` for an error, and the result otherwise.
fn returned(result: isize) -> isize {
    if (-ERRORS_MAX..0).contains(&result) {
        set_errno(-result as i32);
        return -1;
    }
    result
}

/// Sets `errno`. Not inlined: the address is that of the thread-local storage of the caller's fiber.
#[inline(never)]
#[allow(unsafe_code, reason = "a variable of the C library")]
pub fn set_errno(number: i32) {
    // SAFETY: the call has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of a variable of the calling thread.
    unsafe { place.write(number) };
}

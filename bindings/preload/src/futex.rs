//! The system call `futex` by `syscall(2)`, which programs make that have locks of their own. All other
//! system calls go to the C library.

use std::arch::naked_asm;
use std::ffi::{c_int, c_long};

use uthread_pthread::futex::{Arguments, call};
use uthread_pthread::record;

use crate::functions::Function;
use crate::real::{REAL, real};
use crate::report::{self, Reason};

/// `syscall`, which takes as many arguments as the system call: they stay as they are once the function
/// of the C library is known.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(naked)]
pub(crate) extern "C-unwind" fn syscall() {
    naked_asm!(
        "cmp rdi, {number}",
        "je 2f",
        "mov r11, qword ptr [rip + {real} + 8 * {function}]",
        "test r11, r11",
        "je 2f",
        "jmp r11",
        "2: jmp {futex}",
        number = const libc::SYS_futex,
        real = sym REAL,
        function = const Function::syscall as usize,
        futex = sym futex,
    );
}

/// # Safety
///
/// The arguments are those of the system call; the program may have passed fewer.
#[allow(unsafe_code, reason = "a C function")]
unsafe extern "C-unwind" fn futex(
    number: c_long,
    word: *mut u32,
    operation: c_int,
    value: u32,
    time: *const libc::timespec,
    other: *mut u32,
    third: u32,
) -> c_long {
    let arguments = Arguments {
        word,
        operation,
        value,
        time,
        other,
        third,
    };
    if number == libc::SYS_futex {
        // SAFETY: the caller's contract.
        let result = unsafe { call(arguments) };
        if record::is_fiber() {
            count(operation, result.is_some());
        }
        if let Some(result) = result {
            return result;
        }
    }
    let call = real!(syscall: fn(c_long, *mut u32, c_int, u32, *const libc::timespec, *mut u32, u32) -> c_long);
    // SAFETY: the caller's contract.
    unsafe { call(number, word, operation, value, time, other, third) }
}

/// Counts a call of a fiber if it waits.
fn count(operation: c_int, is_carried: bool) {
    match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if is_carried => {
            report::carry(Function::syscall);
        }
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            report::fall_back(Function::syscall, Reason::SharedWord);
        }
        libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 | libc::FUTEX_WAIT_REQUEUE_PI => {
            report::fall_back(Function::syscall, Reason::InheritingWord);
        }
        _ => {}
    }
}

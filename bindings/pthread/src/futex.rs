//! `futex(2)` on words that only this process uses, for programs that make the system call themselves.
//!
//! The waiters are those of [`uthread::sync::futex`], whether they are fibers or threads. The kernel
//! finds none of them; so each operation that wakes private waiters is here:
//!
//! | operation | here |
//! | --- | --- |
//! | `WAIT`, `WAIT_BITSET` | a wait for any bit |
//! | `WAKE` | the same |
//! | `WAKE_BITSET` | wakes all unless it is for each bit: a waiter may be woken without a reason |
//! | `REQUEUE`, `CMP_REQUEUE` | wakes those that would be moved, for the same reason |
//! | `WAKE_OP` | the same |

use std::ffi::{c_int, c_long};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use uthread::sync::futex::{wait, wake};

use crate::deadline;
use crate::errno::returned;

/// The arguments of the system call.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The word.
    pub word: *mut u32,
    /// The operation, with its flags.
    pub operation: c_int,
    /// The expected value, or a number of waiters.
    pub value: u32,
    /// How long to wait; or a second number of waiters, in place of the address.
    pub time: *const libc::timespec,
    /// The second word.
    pub other: *mut u32,
    /// The bits of waiters, the expected value, or the operation on the second word.
    pub third: u32,
}

const ANY_BIT: u32 = u32::MAX;

/// Makes the call, or returns `None` if it is for the kernel.
///
/// # Safety
///
/// The addresses are those that the operation takes.
#[allow(unsafe_code, reason = "words of the program")]
pub unsafe fn call(arguments: Arguments) -> Option<c_long> {
    if arguments.operation & libc::FUTEX_PRIVATE_FLAG == 0 {
        return None;
    }
    // SAFETY: the caller's contract.
    let word = unsafe { at(arguments.word) }?;
    let operation = arguments.operation & libc::FUTEX_CMD_MASK;
    let count = arguments.value as usize;
    let second_count = arguments.time.addr() as u32 as usize;
    let result = match operation {
        libc::FUTEX_WAIT => {
            // SAFETY: the caller's contract.
            let time = unsafe { arguments.time.as_ref() };
            let time = time.map(|time| deadline::duration(time).map(deadline::after));
            time.transpose()
                .and_then(|deadline| wait_for(word, arguments.value, deadline.flatten()))
        }
        libc::FUTEX_WAIT_BITSET if arguments.third != 0 => {
            // SAFETY: the caller's contract.
            let time = unsafe { arguments.time.as_ref() };
            let time = time.map(|time| deadline::of(clock_of(arguments.operation), time));
            time.transpose()
                .and_then(|deadline| wait_for(word, arguments.value, deadline.flatten()))
        }
        libc::FUTEX_WAKE => Ok(wake(word, count)),
        libc::FUTEX_WAKE_BITSET if arguments.third == ANY_BIT => Ok(wake(word, count)),
        libc::FUTEX_WAKE_BITSET if arguments.third != 0 => Ok(wake(word, usize::MAX).min(count)),
        libc::FUTEX_REQUEUE => Ok(wake(word, count.saturating_add(second_count))),
        // Sequentially consistent, as the comparison of the kernel under its lock.
        libc::FUTEX_CMP_REQUEUE if word.load(Ordering::SeqCst) != arguments.third => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        libc::FUTEX_CMP_REQUEUE => Ok(wake(word, count.saturating_add(second_count))),
        libc::FUTEX_WAKE_OP => {
            // SAFETY: the caller's contract.
            let other = unsafe { at(arguments.other) }?;
            let also = change(other, arguments.third)?;
            let others = if also { wake(other, second_count) } else { 0 };
            Ok(wake(word, count) + others)
        }
        _ => return None,
    };
    Some(returned(result.map(|number| number as c_long)))
}

/// Returns a word of the program; `None` if the kernel would refuse its address.
///
/// # Safety
///
/// The word outlives the reference.
#[allow(unsafe_code, reason = "a word of the program")]
unsafe fn at<'a>(word: *mut u32) -> Option<&'a AtomicU32> {
    // SAFETY: the caller's contract; it is no null pointer, and aligned.
    (!word.is_null() && word.is_aligned()).then(|| unsafe { AtomicU32::from_ptr(word) })
}

fn clock_of(operation: c_int) -> libc::clockid_t {
    match operation & libc::FUTEX_CLOCK_REALTIME {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    }
}

/// Waits for a change. The system call is no cancellation point.
fn wait_for(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> io::Result<usize> {
    uthread::shield(|| wait(word, expected, deadline)).map(|()| 0)
}

/// Changes a word as `FUTEX_WAKE_OP` says it. Returns `true` if its waiters are to be woken; `None` for
/// an operation that the kernel would refuse.
fn change(word: &AtomicU32, encoded: u32) -> Option<bool> {
    let signed = |bits: u32| (bits << 20).cast_signed() >> 20;
    let (argument, compared) = (signed(encoded >> 12 & 0xfff), signed(encoded & 0xfff));
    let argument = match encoded >> 28 & 8 {
        0 => argument.cast_unsigned(),
        _ => 1 << (argument & 31),
    };
    let changed: fn(u32, u32) -> u32 = match encoded >> 28 & 7 {
        0 => |_, argument| argument,
        1 => u32::wrapping_add,
        2 => |old, argument| old | argument,
        3 => |old, argument| old & !argument,
        4 => |old, argument| old ^ argument,
        _ => return None,
    };
    let holds: fn(&i32, &i32) -> bool = match encoded >> 24 & 0xf {
        0 => i32::eq,
        1 => i32::ne,
        2 => i32::lt,
        3 => i32::le,
        4 => i32::gt,
        5 => i32::ge,
        _ => return None,
    };
    // Sequentially consistent, as the change by the kernel.
    let old = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
        Some(changed(old, argument))
    });
    let old = old.unwrap_or_default();
    Some(holds(&old.cast_signed(), &compared))
}

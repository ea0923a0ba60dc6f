//! `futex(2)` on words that only this process uses, for programs that make the system call themselves.
//!
//! Many programs do not tell the kernel that a word is private, among them those that wait for atomics
//! of C++. A fiber that waits for such a word looks whether its page is; then threads are woken here and
//! by the kernel.
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
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use uthread::sync::futex::{wait, wake};

use crate::deadline;
use crate::errno::returned;
use crate::record;

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
    // SAFETY: the caller's contract.
    let word = unsafe { at(arguments.word) }?;
    if arguments.operation & libc::FUTEX_PRIVATE_FLAG == 0 {
        // SAFETY: the caller's contract.
        return unsafe { call_on_any(word, arguments) };
    }
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

/// Makes a call on a word that processes may share, or returns `None` if it is for the kernel.
///
/// # Safety
///
/// As for `call`.
#[allow(unsafe_code, reason = "words of the program")]
unsafe fn call_on_any(word: &AtomicU32, arguments: Arguments) -> Option<c_long> {
    let mut private = arguments;
    private.operation |= libc::FUTEX_PRIVATE_FLAG;
    match arguments.operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            // Another value needs no look at the page.
            let waits = record::is_fiber() && word.load(Ordering::SeqCst) == arguments.value;
            // SAFETY: the caller's contract.
            (waits && is_private(word)).then(|| unsafe { call(private) })?
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            // SAFETY: the caller's contract.
            let woken = unsafe { call(private) }?;
            let rest = c_long::from(arguments.value) - woken;
            if rest <= 0 {
                return Some(woken);
            }
            let Arguments {
                operation, third, ..
            } = arguments;
            let (none, address) = (ptr::null::<u32>(), word.as_ptr());
            // SAFETY: the call uses the address only to compare it.
            let others = unsafe {
                libc::syscall(libc::SYS_futex, address, operation, rest, none, none, third)
            };
            Some(if woken > 0 {
                woken + others.max(0)
            } else {
                others
            })
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP => {
            wake(word, usize::MAX);
            // SAFETY: the caller's contract.
            if let Some(other) = unsafe { at(arguments.other) } {
                wake(other, usize::MAX);
            }
            None
        }
        _ => None,
    }
}

/// Bits of the kernel's record of a page: it is there; it is that of a file, or of memory that processes
/// share.
const PRESENT: u64 = 1 << 63;
const FILE_OR_SHARED: u64 = 1 << 61;

/// Returns `true` if the page of a word is known to be of this process alone.
fn is_private(word: &AtomicU32) -> bool {
    // SAFETY: the call has no preconditions.
    #[allow(unsafe_code, reason = "a call of the C library")]
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let page = word.as_ptr().addr() as u64 / page_bytes;
    let mut record = [0; 8];
    // Opened for each look: the program may close any descriptor.
    let offset = page * size_of_val(&record) as u64;
    let records = File::open("/proc/self/pagemap");
    let read = records.and_then(|records| records.read_exact_at(&mut record, offset));
    read.is_ok() && u64::from_ne_bytes(record) & (PRESENT | FILE_OR_SHARED) == PRESENT
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

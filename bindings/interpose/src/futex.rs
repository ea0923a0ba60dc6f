//! The system call `futex` by `syscall(2)`, by which `std` and crates wait that have locks of their
//! own. Of the others, those for a clock and for random bytes go to the functions of the C library, which
//! `uthread-simulation` may have replaced, and those that leave a simulated world are reported to that.
//!
//! A fiber waits in the library's queues, a thread in those of the kernel. A waker finds both:
//!
//! ```text
//!   fiber                             waker
//!     FIBERS[word] += 1                 changes the word
//!     the queue is locked               fence
//!       looks at the word               looks at FIBERS[word]
//!       enqueues itself                   zero: only the kernel is asked
//!     the queue is unlocked               otherwise the library's queue, too
//! ```
//!
//! *Claim:* no wake-up is lost. *Proof:* of the fiber's increment and the fence, one is first in the
//! order of sequentially consistent operations. If it is the increment, the waker looks into the
//! queue, and finds the fiber or comes before it has looked at the word. If it is the fence, the
//! fiber sees the changed word, and does not wait.

use std::arch::naked_asm;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use uthread::interposition;
use uthread_pthread::futex::{self, Arguments};

use crate::{outside, raw, rule};

/// Numbers of fibers that wait, by a hash of their word. Few fibers, of words that one of the library
/// rarely shares a number with: the library's own wake-ups mostly find zero.
static FIBERS: [AtomicU32; 1 << FIBERS_BITS] = [const { AtomicU32::new(0) }; 1 << FIBERS_BITS];
const FIBERS_BITS: u32 = 8;

/// How long a fiber with virtual time keeps its thread, in real time, while another thread may hold a lock
/// of the process. Most locks are held for microseconds, unless their thread waits for a CPU.
const OUTSIDE_TIME_MAX: Duration = Duration::from_millis(20);

/// Returns the number for this word.
fn fibers_at(word: *const u32) -> &'static AtomicU32 {
    /// Spreads neighbours: 2^64 divided by the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = (word.addr() as u64).wrapping_mul(SPREAD);
    &FIBERS[(hash >> (u64::BITS - FIBERS_BITS)) as usize]
}

/// `syscall`, which takes as many arguments as the system call. Not compiled to the intermediate code
/// in which a link-time optimization would compare it with the declaration of the C library.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {number}",
        "je {futex}",
        "jmp {plain}",
        number = const libc::SYS_futex,
        futex = sym futex,
        plain = sym plain,
    );
}

/// # Safety
///
/// The arguments are those of the system call; the program may have passed fewer.
#[allow(unsafe_code, reason = "a system call")]
unsafe extern "C" fn plain(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    match number {
        // SAFETY: the caller's contract.
        libc::SYS_getrandom => unsafe { libc::getrandom(a as *mut _, b, c as u32) as c_long },
        libc::SYS_clock_gettime => {
            // SAFETY: the caller's contract.
            c_long::from(unsafe { libc::clock_gettime(a as libc::clockid_t, b as *mut _) })
        }
        _ if outside::is_refused(number) => -1,
        // SAFETY: the caller's contract.
        _ => (unsafe { raw::call(number, [a, b, c, d, e, f]) }) as c_long,
    }
}

/// # Safety
///
/// As for `plain`.
#[allow(unsafe_code, reason = "words of the program")]
unsafe extern "C" fn futex(
    _number: c_long,
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
    if operation & libc::FUTEX_PRIVATE_FLAG == 0 {
        // SAFETY: the caller's contract.
        return unsafe { kernel(arguments) };
    }
    match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if rule::suspends() => {
            // SAFETY: the caller's contract.
            unsafe { wait(arguments) }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let count = if third == u32::MAX || operation & libc::FUTEX_CMD_MASK == libc::FUTEX_WAKE
            {
                value
            } else {
                // The library's waiters have no bits; one may be woken without a reason.
                u32::MAX
            };
            let woken = wake(word, count).min(value);
            if woken == value && value > 0 {
                return c_long::from(woken);
            }
            let rest = Arguments {
                value: value - woken,
                ..arguments
            };
            // SAFETY: the caller's contract.
            let others = unsafe { kernel(rest) };
            if others < 0 {
                others
            } else {
                others + c_long::from(woken)
            }
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP => {
            // SAFETY: the caller's contract.
            let result = unsafe { kernel(arguments) };
            // Those that would be moved are woken without a reason.
            wake(word, u32::MAX);
            if operation & libc::FUTEX_CMD_MASK == libc::FUTEX_WAKE_OP {
                wake(other, u32::MAX);
            }
            result
        }
        // SAFETY: the caller's contract.
        _ => unsafe { kernel(arguments) },
    }
}

/// Suspends the calling fiber.
///
/// # Safety
///
/// The arguments are those of the system call.
#[allow(unsafe_code, reason = "a word of the program")]
unsafe fn wait(arguments: Arguments) -> c_long {
    // SAFETY: the caller's contract.
    if arguments.time.is_null() && unsafe { has_changed_outside(arguments) } {
        return 0;
    }
    let fibers = fibers_at(arguments.word);
    // Sequentially consistent: pairs with the fence in `wake`.
    fibers.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the caller's contract.
    let waited = rule::within(|| Waited(unsafe { futex::call(arguments) }));
    // Release: stays after the wait.
    fibers.fetch_sub(1, Ordering::Release);
    // SAFETY: the caller's contract.
    waited.0.unwrap_or_else(|| unsafe { kernel(arguments) })
}

/// Waits in real time for a word that another thread may change, such as that of the lock of standard error:
/// if the fiber was suspended, its virtual time would go on meanwhile. Returns `false` if nothing has
/// changed.
///
/// # Safety
///
/// The arguments are those of the system call.
#[allow(unsafe_code, reason = "a system call")]
unsafe fn has_changed_outside(arguments: Arguments) -> bool {
    if !is_static(arguments.word) || !interposition::has_virtual_time() {
        return false;
    }
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: OUTSIDE_TIME_MAX.as_nanos() as c_long,
    };
    let words = [
        arguments.word.addr(),
        (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
        arguments.value as usize,
        (&raw const time).addr(),
    ];
    // SAFETY: the caller's contract.
    let result = unsafe { raw::result_of(libc::SYS_futex, words) };
    result != -(libc::ETIMEDOUT as isize)
}

/// Returns `true` for a word in a variable of the program, and not of one runtime.
#[allow(unsafe_code, reason = "symbols of the linker")]
fn is_static(word: *const u32) -> bool {
    unsafe extern "C" {
        static __executable_start: u8;
        static _end: u8;
    }
    let all = (&raw const __executable_start).addr()..(&raw const _end).addr();
    all.contains(&word.addr())
}

/// The result of a wait; `None` if it is for the kernel.
struct Waited(Option<c_long>);

impl From<i8> for Waited {
    fn from(result: i8) -> Waited {
        Waited(Some(c_long::from(result)))
    }
}

/// Wakes fibers. Called by any code, also the library's. Returns their number.
#[allow(unsafe_code, reason = "a word of the program")]
fn wake(word: *mut u32, count: u32) -> u32 {
    // Pairs with the increment in `wait`: the caller has changed the word before.
    fence(Ordering::SeqCst);
    let has_fibers = fibers_at(word).load(Ordering::Relaxed) > 0;
    if !has_fibers || word.is_null() || !word.is_aligned() {
        return 0;
    }
    // SAFETY: only the address is used.
    let word = unsafe { AtomicU32::from_ptr(word) };
    interposition::wake(word, count as usize) as u32
}

/// Makes the system call.
///
/// # Safety
///
/// The arguments are those of the system call.
#[allow(unsafe_code, reason = "a system call")]
unsafe fn kernel(arguments: Arguments) -> c_long {
    let words = [
        arguments.word.addr(),
        arguments.operation as usize,
        arguments.value as usize,
        arguments.time.addr(),
        arguments.other.addr(),
        arguments.third as usize,
    ];
    // SAFETY: the caller's contract.
    (unsafe { raw::call(libc::SYS_futex, words) }) as c_long
}

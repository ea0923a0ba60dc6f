//! The time-stamp counter, by which crates such as `quanta` read a clock without a system call: the kernel sends a
//! signal for each such instruction (`PR_SET_TSC`), whose handler takes its place.
//!
//! ```text
//!   of a fiber with virtual time -> virtual time, and some ticks for each read
//!   in the vDSO of the kernel    -> the counter
//!   of another thread            -> the counter, without a signal from then on
//! ```
//!
//! What a thread starts inherits that the kernel sends it signals: a thread takes them as above, and a process has no
//! handler, so that none is sent while it is started.

use std::arch::x86_64::_rdtsc;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use uthread::interposition;
use uthread_interpose::system_call;

use crate::instructions::code_around;

/// The instruction, and the one that returns the number of the CPU as well.
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// How long the rate is measured.
const MEASURED: Duration = Duration::from_millis(2);

/// Number of times that the time and the counter are read: the thread may lose its CPU in between. The fastest sample
/// counts.
const SAMPLES: u32 = 4;

/// The counter at a time, and its rate.
#[derive(Debug)]
struct Counter {
    ticks: u64,
    time: Duration,
    ticks_per_us: u64,
    vdso: Range<usize>,
}

static COUNTER: OnceLock<Counter> = OnceLock::new();

/// Makes the counter virtual for the fibers of the calling thread.
pub(crate) fn begin() {
    // It may have been made so for the thread that has started this one.
    send_signals(false);
    COUNTER.get_or_init(|| {
        let ticks_per_us = measure();
        let time = interposition::time(libc::CLOCK_MONOTONIC).unwrap_or_default();
        Counter {
            ticks: ticks(),
            time,
            ticks_per_us,
            vdso: vdso(),
        }
    });
    interposition::on_fault(handle);
    send_signals(true);
}

/// Calls `start`, which starts a process or a thread that inherits the real counter.
pub(crate) fn with_real_counter<R>(start: impl FnOnce() -> R) -> R {
    let is_virtual = sends_signals();
    if is_virtual {
        send_signals(false);
    }
    let result = start();
    if is_virtual {
        send_signals(true);
    }
    result
}

/// Returns whether the kernel sends a signal for the instruction on this thread.
#[allow(unsafe_code, reason = "a system call")]
fn sends_signals() -> bool {
    let mut mode = libc::PR_TSC_ENABLE;
    // SAFETY: the mode is valid for a write.
    unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    mode == libc::PR_TSC_SIGSEGV
}

/// Tells the kernel whether it sends a signal for the instruction on this thread.
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn send_signals(sends: bool) {
    let mode = if sends {
        libc::PR_TSC_SIGSEGV
    } else {
        libc::PR_TSC_ENABLE
    };
    // SAFETY: it takes numbers only. Each kernel for this CPU can do it.
    unsafe { libc::prctl(libc::PR_SET_TSC, mode) };
}

#[allow(unsafe_code, reason = "an instruction")]
fn ticks() -> u64 {
    // SAFETY: each CPU of this kind has it.
    unsafe { _rdtsc() }
}

/// Returns the rate of the counter in ticks per microsecond, to three digits: the same each time on a computer.
fn measure() -> u64 {
    let (start, before) = sample();
    let (mut end, mut after) = sample();
    while end - start < MEASURED {
        (end, after) = sample();
    }
    let passed = u128::from(after - before);
    let rate = (passed * 1000 / (end - start).as_nanos()) as u64;
    let step = if rate < 1000 { 1 } else { 10 };
    (rate + step / 2) / step * step
}

/// Returns the time of the system, and the counter then.
fn sample() -> (Duration, u64) {
    let samples = (0..SAMPLES).map(|_| {
        let (before, time, after) = (ticks(), now(), ticks());
        (after - before, time, after)
    });
    let shortest = samples.min_by_key(|(length, ..)| *length);
    let (_, time, ticks) = shortest.expect("there are samples");
    (time, ticks)
}

/// Returns the time of the system.
#[allow(unsafe_code, reason = "a system call")]
fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let words = [libc::CLOCK_MONOTONIC as usize, (&raw mut time).addr()];
    // SAFETY: the time is valid for a write. This clock exists.
    unsafe { system_call(libc::SYS_clock_gettime, words) };
    // Neither is negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[allow(unsafe_code, reason = "a value of the kernel")]
fn vdso() -> Range<usize> {
    // SAFETY: it has no preconditions.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    code_around(start).map_or(0..0, |(start, length)| start..start + length)
}

/// Takes the place of the instruction that the signal is for. Returns `false` if it is for another one.
#[allow(unsafe_code, reason = "the registers of the program")]
fn handle(info: *const libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the kernel passes it.
    let info = unsafe { &*info };
    if (info.si_signo, info.si_code) != (libc::SIGSEGV, libc::SI_KERNEL) {
        return false;
    }
    // SAFETY: the kernel passes it.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let address = registers[libc::REG_RIP as usize] as usize;
    let Some(length) = length_at(address) else {
        return false;
    };
    let now = interposition::time(libc::CLOCK_MONOTONIC);
    let (Some(now), Some(counter)) = (now, COUNTER.get()) else {
        send_signals(false);
        return true;
    };
    let value = if counter.vdso.contains(&address) {
        send_signals(false);
        let value = ticks();
        send_signals(true);
        value
    } else {
        interposition::note_read();
        let value = counter.at(now);
        interposition::count(value).unwrap_or(value)
    };
    registers[libc::REG_RAX as usize] = (value & u64::from(u32::MAX)).cast_signed();
    registers[libc::REG_RDX as usize] = (value >> u32::BITS).cast_signed();
    if length == RDTSCP.len() {
        registers[libc::REG_RCX as usize] = 0;
    }
    registers[libc::REG_RIP as usize] += length as i64;
    true
}

/// Returns the length of the instruction at an address, if it reads the counter.
#[allow(unsafe_code, reason = "code of the program")]
fn length_at(address: usize) -> Option<usize> {
    let byte = |at: usize| {
        let place = std::ptr::with_exposed_provenance::<u8>(address + at);
        // SAFETY: the CPU has begun to execute the instruction there, and a byte is only read if those before it are
        // of one that goes on.
        unsafe { place.read() }
    };
    let is = |code: &[u8]| code.iter().enumerate().all(|(at, one)| byte(at) == *one);
    [&RDTSC[..], &RDTSCP[..]]
        .into_iter()
        .find(|code| is(code))
        .map(<[u8]>::len)
}

impl Counter {
    /// Returns what the counter shows at this time.
    fn at(&self, now: Duration) -> u64 {
        let elapsed = now.saturating_sub(self.time).as_nanos();
        let ticks = elapsed * u128::from(self.ticks_per_us) / 1000;
        self.ticks.wrapping_add(ticks as u64)
    }
}

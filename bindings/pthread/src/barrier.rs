//! Barriers.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use uthread::sync::futex;

/// What one of the threads that pass a barrier together gets.
pub const UTHREAD_BARRIER_SERIAL_THREAD: c_int = -1;

/// A barrier.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_barrier_t {
    words: [u64; 4],
}

#[repr(C)]
struct Barrier {
    /// Number of threads that have come, of all rounds.
    arrived: AtomicU64,
    count: AtomicU32,
    /// Zero: where glibc's have a mark of those that processes share.
    _mark: AtomicU32,
    /// Number of rounds that are over, in which threads wait.
    rounds: AtomicU32,
    /// Number of threads between their arrival and their return.
    inside: AtomicU32,
}

const _: () = assert!(size_of::<Barrier>() <= size_of::<uthread_barrier_t>());

impl Barrier {
    /// Returns the barrier at this address.
    ///
    /// # Safety
    ///
    /// A barrier of the program, which outlives the reference.
    #[allow(unsafe_code, reason = "an object of the program")]
    unsafe fn at<'a>(barrier: *const uthread_barrier_t) -> &'a Barrier {
        // SAFETY: the caller's contract; all of its words are atomics.
        unsafe { &*barrier.cast() }
    }

    /// Returns `true` for the last thread of a round. No cancellation point.
    fn wait(&self) -> bool {
        self.inside.fetch_add(1, Ordering::Relaxed);
        let count = u64::from(self.count.load(Ordering::Relaxed));
        let position = self.arrived.fetch_add(1, Ordering::AcqRel);
        let round = (position / count) as u32;
        let is_last = position % count == count - 1;
        if is_last {
            self.rounds.fetch_add(1, Ordering::AcqRel);
            futex::wake(&self.rounds, usize::MAX);
        } else {
            uthread::shield(|| self.await_end(round));
        }
        // The last one to leave lets `uthread_barrier_destroy` return.
        if self.inside.fetch_sub(1, Ordering::Release) == 1 {
            futex::wake(&self.inside, usize::MAX);
        }
        is_last
    }

    fn await_end(&self, round: u32) {
        loop {
            let rounds = self.rounds.load(Ordering::Acquire);
            if rounds.wrapping_sub(round).cast_signed() > 0 {
                return;
            }
            let _ = futex::wait(&self.rounds, rounds, None);
        }
    }
}

/// Initializes a barrier for `count` threads. `attr` is not used. Returns 0, or `EINVAL` for no
/// threads.
///
/// # Safety
///
/// `barrier` points to where it is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_barrier_init(
    barrier: *mut uthread_barrier_t,
    _attr: *const c_void,
    count: c_uint,
) -> c_int {
    if count == 0 {
        return libc::EINVAL;
    }
    // SAFETY: the caller's contract.
    unsafe { barrier.write(uthread_barrier_t { words: [0; 4] }) };
    // SAFETY: initialized now.
    let barrier = unsafe { Barrier::at(barrier) };
    barrier.count.store(count, Ordering::Relaxed);
    0
}

/// Waits until all threads that pass the barrier have left it, so that its memory may be reused.
///
/// # Safety
///
/// `barrier` points to a barrier.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_barrier_destroy(barrier: *mut uthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    let barrier = unsafe { Barrier::at(barrier) };
    uthread::shield(|| {
        loop {
            match barrier.inside.load(Ordering::Acquire) {
                0 => break 0,
                inside => {
                    let _ = futex::wait(&barrier.inside, inside, None);
                }
            }
        }
    })
}

/// Waits until as many threads wait as the barrier is for. Not a cancellation point. Returns
/// `UTHREAD_BARRIER_SERIAL_THREAD` to one of them, and 0 to the others.
///
/// # Safety
///
/// `barrier` points to a barrier.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_barrier_wait(barrier: *mut uthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    if unsafe { Barrier::at(barrier) }.wait() {
        UTHREAD_BARRIER_SERIAL_THREAD
    } else {
        0
    }
}

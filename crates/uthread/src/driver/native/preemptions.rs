//! Preemptions of the calling thread.

use std::ffi::c_long;
use std::mem;

/// Returns how many times the kernel has given the CPU of the calling thread, which could have gone
/// on, to another one: the involuntary context switches of `getrusage(2)`.
#[allow(unsafe_code, reason = "getrusage, which no dependency offers")]
pub(in crate::driver) fn preemptions() -> c_long {
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // A failure leaves zeros: then none is known.
    // SAFETY: the call writes the usage.
    let _ = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use std::hint;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    /// Makes the calling thread run on one of its CPUs only.
    fn keep_to_one_cpu() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU)
            .find(|&cpu| allowed.is_set(cpu))
            .unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();
    }

    #[test]
    fn a_thread_that_shares_its_cpu_is_preempted() {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                keep_to_one_cpu();
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
            let computing = scope.spawn(|| {
                keep_to_one_cpu();
                let (begin, before) = (Instant::now(), preemptions());
                while preemptions() == before && begin.elapsed() < Duration::from_secs(60) {}
                is_over.store(true, Ordering::Relaxed);
                preemptions() - before
            });
            assert_ne!(computing.join().unwrap(), 0);
        });
    }
}

//! The end of a process while fibers wait. `exit` destroys the thread-locals of the thread that calls it: if a destructor
//! suspended its fiber, other fibers of the worker would go on with values that are gone. So from then on that thread is a
//! plain one, and its calls are ordinary blocking ones.
//!
//! `uthread::process::exit` makes the thread a plain one first. An `exit` of `std` or of the C library is detected by the
//! destructor of a thread-local of ours. Destructors run newest first, so a worker makes a new one from time to time.

use super::current;

/// Makes its thread a plain one when the thread's values are destroyed.
struct Sentinel;

impl Drop for Sentinel {
    fn drop(&mut self) {
        current::leave_for_good();
    }
}

macro_rules! sentinels {
    ($($name:ident)*) => {
        thread_local! {
            $(static $name: Sentinel = const { Sentinel };)*
        }

        /// Makes the sentinel of this number, newer than all values that the thread has.
        #[cold]
        fn make(number: u32) {
            let sentinels = [$(&$name),*];
            if let Some(sentinel) = sentinels.get(number as usize) {
                // It fails at the end of the thread only, which has been noticed then.
                let _ = sentinel.try_with(|_| ());
            }
        }
    };
}

// After so many powers of two a worker has slept for days; a program has long made its thread-locals by then.
sentinels!(S0 S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20 S21 S22 S23);

/// Called by a worker with the number of its sleeps: makes a new sentinel each time it has doubled.
#[inline]
pub(super) fn record_sleep(sleeps: u32) {
    if sleeps.is_power_of_two() {
        make(sleeps.trailing_zeros());
    }
}

/// Makes the calling thread a plain one, as the process is about to end on it.
pub(crate) fn begin() {
    current::leave_for_good();
}

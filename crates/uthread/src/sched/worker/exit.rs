//! The end of a process while fibers wait. `exit` destroys the thread-locals of its calling thread:
//! if a destructor suspended its fiber, other fibers of the worker would run with destroyed values.
//! So from then on that thread is a plain one, and its calls block.
//!
//! `uthread::process::exit` makes the thread a plain one first. A call of `exit` by `std` or the C
//! library is detected by the destructor of a thread-local. Destructors run newest first, so a
//! worker creates a new one from time to time.

use super::current;

/// Makes its thread a plain one when the thread-locals are destroyed.
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

        /// Creates the sentinel of this number, which is newer than all current values of the
        /// thread.
        #[cold]
        fn make(number: u32) {
            let sentinels = [$(&$name),*];
            if let Some(sentinel) = sentinels.get(number as usize) {
                // Fails only at the end of the thread, which has been detected then.
                let _ = sentinel.try_with(|_| ());
            }
        }
    };
}

// A worker gets to the last one after 2^23 sleeps. A program has created its thread-locals long
// before.
sentinels!(S0 S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20 S21 S22 S23);

/// Creates a new sentinel each time the number of sleeps has doubled. Called by a worker with that
/// number.
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

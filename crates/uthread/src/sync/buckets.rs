//! The parking lot's hash table: buckets that are locked one by one. The loom models have a table
//! of their own.

use std::sync::Mutex;

use super::bucket::Bucket;
use crate::forked::PerProcess;
use crate::sched::features::fork;

/// Number of buckets, enough that a contended lock seldom slows another one down: a bucket is
/// locked for a fraction of a microsecond. Together they take 8 KiB.
const BUCKETS: usize = 64;

/// On cache lines of its own: 128 bytes, as CPUs fetch lines in pairs.
#[repr(align(128))]
struct Padded(Mutex<Bucket>);

/// Empty in a child process: a parent's waiters are not there.
static TABLE: PerProcess<[Padded; BUCKETS]> = PerProcess::new(empty(), empty);

const fn empty() -> [Padded; BUCKETS] {
    [const { Padded(Mutex::new(Bucket::new())) }; BUCKETS]
}

/// Returns the bucket with the queue of `address`.
pub(super) fn bucket(address: usize) -> &'static Mutex<Bucket> {
    // Threads wait here without a runtime, too.
    fork::register_handlers();
    // The upper bits of this product depend on all bits of the address (Fibonacci hashing).
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (address as u64).wrapping_mul(GOLDEN_RATIO);
    &TABLE.get()[(mixed >> (u64::BITS - BUCKETS.ilog2())) as usize].0
}

//! The table of the lines, in parts that are locked one by one. The models bring one of their own.

use std::sync::Mutex;

use super::line::Lines;
use crate::forked::PerProcess;
use crate::sched::fork;

/// So many that a lock which many wait for seldom slows another one down: a part is locked for a fraction of a
/// microsecond. Together they take 8 KiB.
const PARTS: usize = 64;

/// On cache lines of its own: 128 bytes, as CPUs fetch lines in pairs.
#[repr(align(128))]
struct Part(Mutex<Lines>);

/// Whoever waits in a parent's is not in its children.
static TABLE: PerProcess<[Part; PARTS]> = PerProcess::new(empty(), empty);

const fn empty() -> [Part; PARTS] {
    [const { Part(Mutex::new(Lines::new())) }; PARTS]
}

/// The part in which those stand who wait at `address`.
pub(super) fn lines(address: usize) -> &'static Mutex<Lines> {
    // Threads wait here without a runtime, too.
    fork::attend();
    // The upper bits of this product depend on all bits of the address (Fibonacci hashing).
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (address as u64).wrapping_mul(GOLDEN_RATIO);
    &TABLE.get()[(mixed >> (u64::BITS - PARTS.ilog2())) as usize].0
}

//! Cheap random numbers, for fair choices among several that are ready.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u32> = const { Cell::new(SEED) };
}

/// First state of each thread: any number but zero. All threads may start alike, as it only matters
/// that no program runs in step with the sequence.
const SEED: u32 = 0x9e37_79b9;

/// Returns a number below `bound`, or zero if `bound` is zero. Never inlined, like every access to
/// a thread-local that fibers make.
#[inline(never)]
pub(crate) fn below(bound: usize) -> usize {
    // Xorshift: successive numbers have no correlation that a program's loop could meet.
    let mut state = STATE.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    STATE.set(state);
    ((u64::from(state) * bound as u64) >> u32::BITS) as usize
}

/// Restarts the sequence, so that a simulation can be repeated.
#[cfg(test)]
pub(crate) fn reseed() {
    STATE.set(SEED);
}

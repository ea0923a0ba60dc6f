//! Lots: which of several that are ready is looked at first.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u32> = const { Cell::new(SEED) };
}

/// Any but zero: threads may draw alike, as all that matters is that no program draws in step.
const SEED: u32 = 0x9e37_79b9;

/// A number below `bound`; zero if that is zero. Never inlined, as every access to a thread-local that
/// fibers make.
#[inline(never)]
pub(crate) fn draw(bound: usize) -> usize {
    // Xorshift: two draws in a row have nothing in common that a loop of a program could meet.
    let mut state = STATE.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    STATE.set(state);
    ((u64::from(state) * bound as u64) >> u32::BITS) as usize
}

/// Begins again, so that a simulation can be repeated.
#[cfg(test)]
pub(crate) fn begin_again() {
    STATE.set(SEED);
}

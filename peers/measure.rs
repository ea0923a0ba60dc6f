//! What the small programs measure with: the same for each.

use std::time::Instant;

/// Nanoseconds for each of the operations since `begin`.
pub(crate) fn per_operation(begin: Instant, operations: usize) -> f64 {
    begin.elapsed().as_nanos() as f64 / operations as f64
}

/// What of this process is in memory.
pub(crate) fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("proc is mounted");
    let pages: usize = text
        .split(' ')
        .nth(1)
        .expect("two fields")
        .parse()
        .expect("a number");
    pages * 4096
}

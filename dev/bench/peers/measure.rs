//! Measuring functions, the same for all small programs.

use std::time::Instant;

/// Prints the figures of a command in one line.
pub(crate) fn report<const FIGURES: usize>(figures: [f64; FIGURES]) {
    println!("{}", figures.map(|figure| format!("{figure:.1}")).join(" "));
}

/// Returns the nanoseconds for each of the operations since `begin`.
pub(crate) fn per_operation(begin: Instant, operations: usize) -> f64 {
    begin.elapsed().as_nanos() as f64 / operations as f64
}

/// Returns the resident memory of this process.
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

/// Returns by how many bytes the resident memory has grown since it was `before`, for each of
/// `count`.
pub(crate) fn growth_per(before: usize, count: usize) -> f64 {
    (resident_bytes() as f64 - before as f64) / count as f64
}

//! Finds the first seed that fails, by several processes.

use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::child;
use crate::faults;

/// Number of parts of the seeds that each process runs, one after another: a failure in an early part ends
/// the search soon.
const PARTS_EACH: u64 = 10;

/// Returns the first of these seeds with which a test fails.
pub(super) fn first_failing(test: &str, seeds: Range<u64>) -> Option<u64> {
    let processes = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let length = (seeds.end - seeds.start).div_ceil(processes * PARTS_EACH);
    let next = AtomicU64::new(seeds.start);
    let first = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for _ in 0..processes {
            scope.spawn(|| {
                loop {
                    // Relaxed: nothing else is passed by these, and the end of the scope is seen.
                    let start = next.fetch_add(length, Ordering::Relaxed);
                    if start >= seeds.end.min(first.load(Ordering::Relaxed)) {
                        return;
                    }
                    let part = start..seeds.end.min(start.saturating_add(length));
                    if let Some(seed) = failing_of(test, part) {
                        first.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Some(first.into_inner()).filter(|first| *first != u64::MAX)
}

fn failing_of(test: &str, seeds: Range<u64>) -> Option<u64> {
    let failure = child::run(test, &seeds, None)?;
    if failure.seed.is_some() {
        return failure.seed;
    }
    // The process has ended by itself, with one of them.
    let mut each = seeds.clone();
    let found = each.find_map(|seed| {
        let failure = child::run(test, &(seed..seed + 1), None)?;
        Some((seed, failure))
    });
    let Some((seed, failure)) = found else {
        panic!(
            "the test fails with the seeds {seeds:?} in one process, and with none of them alone:\n{}",
            failure.output
        );
    };
    // Past what a test captures, as this process ends like that, too.
    let line = super::failure(seed, faults::chosen().as_ref(), test);
    let _ = writeln!(io::stderr(), "{}{line}", failure.output);
    Some(seed)
}

//! The requests of a measurement, in their order.
//!
//! The request with a number is the same for every technique, independent of when and where it is
//! performed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::load::{Load, Pattern};

/// Share of reads in a mixed load, in percent.
pub(crate) const READS_PERCENT: u64 = 70;
/// Number of writes between two `fsync`, on average.
pub(crate) const WRITES_PER_SYNC: u64 = 32;
/// Requests of a mixed load from one sync to the next, with [`WRITES_PER_SYNC`] writes among them.
const REQUESTS_PER_SYNC: u64 = WRITES_PER_SYNC * 100 / (100 - READS_PERCENT) + 1;
/// An odd number without a pattern, which spreads the seeds of successive requests.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One request, by the number of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read(u64),
    Write(u64),
    Sync,
}

/// The requests, taken by all threads and fibers that share it.
#[derive(Debug)]
pub(crate) struct Walk {
    pattern: Pattern,
    /// Number of blocks of the file.
    blocks: u64,
    /// Number of requests.
    count: u64,
    /// The time from which on there are no more.
    end: Option<Instant>,
    seed: u64,
    taken: AtomicU64,
}

impl Walk {
    /// Begins the requests of a load to a file with so many blocks.
    pub(crate) fn new(load: &Load, blocks: u64) -> Walk {
        let seconds = load.seconds.map(Duration::from_secs);
        Walk {
            pattern: load.pattern,
            blocks,
            count: load.requests,
            end: seconds.map(|seconds| Instant::now() + seconds),
            seed: load.seed,
            taken: AtomicU64::new(0),
        }
    }

    /// Takes the next request, or returns `None` after the last one.
    pub(crate) fn next(&self) -> Option<Request> {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        let is_over = || index > 0 && self.end.is_some_and(|end| Instant::now() >= end);
        (index < self.count && !is_over()).then(|| self.at(index))
    }

    fn at(&self, index: u64) -> Request {
        let mut random = Rng::with_seed(self.seed.wrapping_add(index.wrapping_mul(STEP)));
        match self.pattern {
            Pattern::Sequential => Request::Read(index % self.blocks),
            Pattern::Random
            | Pattern::KeyValue
            | Pattern::UrgentReads(_)
            | Pattern::UrgentEchoes(_) => Request::Read(random.u64(..self.blocks)),
            Pattern::Mixed if index % REQUESTS_PER_SYNC == REQUESTS_PER_SYNC - 1 => Request::Sync,
            Pattern::Mixed => {
                let block = random.u64(..self.blocks);
                if random.u64(..100) < READS_PERCENT {
                    Request::Read(block)
                } else {
                    Request::Write(block)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: Pattern, count: u64, seed: u64) -> Vec<Request> {
        let load = Load {
            files: Vec::new(),
            pattern,
            requests: count,
            seconds: None,
            depth: 1,
            is_batched: false,
            seed,
        };
        let walk = Walk::new(&load, 100);
        std::iter::from_fn(|| walk.next()).collect()
    }

    #[test]
    fn a_walk_repeats_with_its_seed() {
        let [first, again, other] = [7, 7, 8].map(|seed| all(Pattern::Random, 1000, seed));
        assert_eq!(first.len(), 1000);
        assert_eq!(first, again);
        assert_ne!(first, other);
        let sequential = all(Pattern::Sequential, 102, 7);
        assert_eq!(sequential[99..], [99, 0, 1].map(Request::Read));
    }

    #[test]
    fn a_walk_ends_in_time() {
        let load = Load {
            files: Vec::new(),
            pattern: Pattern::Sequential,
            requests: u64::MAX,
            seconds: Some(0),
            depth: 1,
            is_batched: false,
            seed: 1,
        };
        let walk = Walk::new(&load, 100);
        assert_eq!(walk.next(), Some(Request::Read(0)), "there is at least one");
        assert_eq!(walk.next(), None);
    }

    #[test]
    fn random_blocks_are_spread_over_the_file() {
        let mut counts = [0; 100];
        for request in all(Pattern::Random, 10_000, 1) {
            let Request::Read(block) = request else {
                panic!("{request:?}")
            };
            counts[block as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (50..200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_mixed_load_has_its_shares() {
        let requests = all(Pattern::Mixed, 10_700, 1);
        let count = |is_one: fn(&Request) -> bool| requests.iter().filter(|r| is_one(r)).count();
        let reads = count(|request| matches!(request, Request::Read(_)));
        let writes = count(|request| matches!(request, Request::Write(_)));
        let syncs = count(|request| *request == Request::Sync);
        assert_eq!(syncs, 100);
        assert!((7_200..7_650).contains(&reads), "{reads}");
        assert!((2_950..3_400).contains(&writes), "{writes}");
    }
}

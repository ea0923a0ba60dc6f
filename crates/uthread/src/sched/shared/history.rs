//! When a worker had completed how many switches, from which follows for how long a fiber has been
//! suspended: a fiber has the number of its last switch, and no switch reads a clock.
//!
//! The monitor records, and any thread reads. There are samples for 10 ms and for a month: the gaps
//! between them grow with their age.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use super::counters::Counters;
use crate::driver::native;

/// Maximum number of samples. The gaps then are about a sixth of the age, after a month.
const LENGTH: usize = 128;

/// The least time between two samples that are kept.
const GAP_MIN: Duration = Duration::from_millis(10);

/// Number of times that a reader tries to read while the monitor writes, which takes less than a
/// microsecond each 10 ms.
const ATTEMPTS: u32 = 1000;

/// The samples of a worker.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct History {
    /// Odd while the samples are being changed.
    changes: AtomicU64,
    length: AtomicUsize,
    samples: [Sample; LENGTH],
}

/// A number of completed switches, and a time at which a worker had completed these and no more.
#[derive(Debug, Default)]
#[repr(C)]
struct Sample {
    switches: AtomicU64,
    /// The time, by the system's monotonic clock.
    time_ns: AtomicU64,
}

impl Default for History {
    fn default() -> History {
        History {
            changes: AtomicU64::new(0),
            length: AtomicUsize::new(0),
            samples: array::from_fn(|_| Sample::default()),
        }
    }
}

impl Sample {
    fn get(&self) -> (u64, u64) {
        let switches = self.switches.load(Ordering::Relaxed);
        (switches, self.time_ns.load(Ordering::Relaxed))
    }

    fn set(&self, (switches, time_ns): (u64, u64)) {
        self.switches.store(switches, Ordering::Relaxed);
        self.time_ns.store(time_ns, Ordering::Relaxed);
    }
}

impl History {
    /// Records what a worker has done until now. Called by the monitor.
    pub(in crate::sched) fn record(&self, counters: &Counters, now: Instant) {
        let switches = counters.switches.get();
        // The last switch has not completed while its fiber runs.
        let runs = counters.running.get() != 0;
        self.push(switches.wrapping_sub(runs.into()), time_ns(now));
    }

    fn push(&self, switches: u64, time_ns: u64) {
        let mut length = self.length.load(Ordering::Relaxed);
        let get = |index: usize| self.samples[index].get();
        if length > 0 && get(length - 1).0 == switches {
            return;
        }
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes + 1, Ordering::Relaxed);
        // Orders the change after the odd number; pairs with the fence in `since`.
        fence(Ordering::Release);
        let is_close = |last: u64| time_ns.saturating_sub(last) < GAP_MIN.as_nanos() as u64;
        if length > 1 && is_close(get(length - 2).1) {
            length -= 1;
        } else if length == LENGTH {
            self.remove(time_ns);
            length -= 1;
        }
        self.samples[length].set((switches, time_ns));
        self.length.store(length + 1, Ordering::Relaxed);
        // Pairs with the acquire in `since`.
        self.changes.store(changes + 2, Ordering::Release);
    }

    /// Removes the sample whose gap is the smallest in proportion to its age.
    fn remove(&self, now_ns: u64) {
        let gap = |index: &usize| {
            let time = |index: usize| self.samples[index].get().1;
            let gap = time(index + 1).saturating_sub(time(index - 1));
            let age = now_ns.saturating_sub(time(*index)).max(1);
            u128::from(gap) << 64 | u128::from(age)
        };
        let by_ratio = |one: &usize, other: &usize| {
            let parts = |value: u128| (value >> 64, value & u128::from(u64::MAX));
            let ((gap, age), (other_gap, other_age)) = (parts(gap(one)), parts(gap(other)));
            (gap * other_age).cmp(&(other_gap * age))
        };
        let removed = (1..LENGTH - 1).min_by(by_ratio).unwrap_or(1);
        for index in removed..LENGTH - 1 {
            self.samples[index].set(self.samples[index + 1].get());
        }
    }

    /// Returns the least time that has passed since this switch was completed. Zero if that is not
    /// known, or not yet.
    pub(in crate::sched) fn since(&self, switch: u64, now: Instant) -> Duration {
        for _ in 0..ATTEMPTS {
            // Acquire pairs with the release at the end of `push`.
            let changes = self.changes.load(Ordering::Acquire);
            let length = self.length.load(Ordering::Relaxed).min(LENGTH);
            let mut samples = self.samples[..length].iter().map(Sample::get);
            let found = samples.find(|sample| sample.0 >= switch);
            // Pairs with the fence in `push`.
            fence(Ordering::Acquire);
            if changes.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == changes {
                let passed = found.map_or(0, |(_, time)| time_ns(now).saturating_sub(time));
                return Duration::from_nanos(passed);
            }
        }
        Duration::ZERO
    }
}

/// Converts a time to that of the system's monotonic clock, of which `Instant` does not tell.
pub(in crate::sched) fn time_ns(time: Instant) -> u64 {
    static BASE: OnceLock<(Instant, u64)> = OnceLock::new();
    let base = BASE.get_or_init(|| (Instant::now(), native::monotonic_ns()));
    let since = time.saturating_duration_since(base.0);
    // 2^64 ns are 584 years.
    base.1.saturating_add(since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn since(history: &History, switch: u64, now_ns: u64) -> u64 {
        let base = Instant::now();
        let base_ns = time_ns(base);
        let now = base + Duration::from_nanos(now_ns.saturating_sub(base_ns));
        history.since(switch, now).as_nanos() as u64
    }

    /// A worker that switches each millisecond for a month.
    #[test]
    fn gaps_stay_small_beside_the_age() {
        let history = History::default();
        let start = time_ns(Instant::now());
        let end = 30 * 24 * 3600 * SECOND;
        let mut left = end;
        while left > 0 {
            history.push((end - left) / 1_000_000, start + end - left);
            left -= (left / 1000).max(500_000).min(left);
        }
        for age in [1, 60, 3600, 24 * 3600, 29 * 24 * 3600].map(|seconds| seconds * SECOND) {
            let known = since(&history, (end - age) / 1_000_000, start + end);
            assert!(known <= age, "{known} > {age}");
            assert!(known >= age - age / 5 - 20_000_000, "{known} of {age}");
        }
        assert_eq!(since(&history, end, start + end), 0);
    }

    #[test]
    fn a_running_fiber_has_not_completed_its_switch() {
        let (history, counters) = (History::default(), Counters::default());
        time_ns(Instant::now()); // Begins to count.
        let start = Instant::now();
        counters.switches.set(7);
        counters.running.set(1);
        history.record(&counters, start);
        let later = start + Duration::from_secs(1);
        assert_eq!(history.since(7, later), Duration::ZERO);
        counters.running.set(0);
        history.record(&counters, later);
        assert_eq!(
            history.since(7, later + Duration::from_secs(2)).as_secs(),
            2
        );
        assert_eq!(
            history.since(6, later + Duration::from_secs(2)).as_secs(),
            3
        );
    }
}

//! The scheduling delays of one worker, as its probes have measured them.
//!
//! The monitor sends a probe: the time, and a message that asks the worker to take it. The worker
//! gives it the place of a fiber that becomes ready at that moment
//! ([`probes`](crate::sched::worker)), and counts here when a fiber there would run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::counters::Counter;
use crate::atomic::lock;

/// The upper bounds of the buckets. A delay below the first is a queue that a worker keeps up with;
/// one above the last has been noticed by everyone.
pub(crate) const BOUNDS: [Duration; 16] = [
    Duration::from_micros(10),
    Duration::from_micros(25),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Number of buckets, with that of the delays beyond the last bound.
pub(crate) const BUCKETS: usize = BOUNDS.len() + 1;

/// Maximum number of probes that a worker has not recorded. At the shortest interval, a worker
/// reaches it after a second without a switch; later probes would only repeat that it is stuck.
const PROBES_MAX: usize = 1024;

/// The delays of one worker. Written by the worker, but for the probes on their way.
#[derive(Default)]
pub(crate) struct Delays {
    pub(crate) buckets: [Counter; BUCKETS],
    pub(crate) total_ns: Counter,
    pub(crate) max_ns: Counter,
    /// The times at which the probes were sent that the worker has not taken.
    sent: Mutex<Vec<Instant>>,
    /// Number of probes that are neither recorded nor discarded. Relaxed: it only limits them.
    under_way: AtomicUsize,
}

impl Delays {
    /// Adds a probe. Returns `true` if the worker has to be asked to take it. Called by the
    /// monitor.
    pub(in crate::sched) fn send(&self) -> bool {
        if self.under_way.load(Ordering::Relaxed) >= PROBES_MAX {
            return false;
        }
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let mut sent = lock(&self.sent);
        sent.push(Instant::now());
        sent.len() == 1
    }

    /// Takes the times of the probes that were sent. Called by the worker.
    pub(in crate::sched) fn take(&self) -> Vec<Instant> {
        std::mem::take(&mut *lock(&self.sent))
    }

    /// Counts the delay of a probe. Called by the worker.
    pub(in crate::sched) fn record(&self, delay: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < delay);
        self.buckets[bucket].add(1);
        // 2^64 ns are 584 years.
        let delay_ns = delay.as_nanos() as u64;
        self.total_ns.add(delay_ns);
        self.max_ns.set(self.max_ns.get().max(delay_ns));
        self.discard();
    }

    /// Forgets a probe. Called by the worker.
    pub(in crate::sched) fn discard(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_delays_up_to_its_bound() {
        let delays = Delays::default();
        let record = |delay| {
            delays.send();
            delays.record(delay);
        };
        record(Duration::ZERO);
        record(Duration::from_micros(10));
        record(Duration::from_nanos(10_001));
        record(Duration::from_secs(2));
        let buckets = delays.buckets.each_ref().map(Counter::get);
        assert_eq!((buckets[0], buckets[1], buckets[BUCKETS - 1]), (2, 1, 1));
        assert_eq!(buckets.iter().sum::<u64>(), 4);
        assert_eq!(delays.max_ns.get(), 2_000_000_000);
        assert_eq!(delays.total_ns.get(), 2_000_020_001);
    }

    #[test]
    fn a_worker_that_takes_none_is_sent_no_more() {
        let delays = Delays::default();
        let asked = (0..2 * PROBES_MAX).filter(|_| delays.send()).count();
        assert_eq!((asked, delays.take().len()), (1, PROBES_MAX));
        assert!(!delays.send(), "the probes have not been recorded");
        delays.record(Duration::ZERO);
        assert!(delays.send());
    }
}

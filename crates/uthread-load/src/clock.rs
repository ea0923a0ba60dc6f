//! The times of a run: its start, the start of the measurement, and the end of sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The end of a run, which other threads may move forward: one word, checked before each send.
#[derive(Clone, Debug)]
pub(crate) struct End(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    origin: Instant,
    /// Nanoseconds since the origin. No other data depends on it, so `Relaxed` is enough.
    at_ns: AtomicU64,
    stopped_ns: AtomicU64,
}

/// Later than any end.
const NEVER: u64 = u64::MAX;

impl End {
    pub(crate) fn new() -> End {
        End(Arc::new(Inside {
            origin: Instant::now(),
            at_ns: AtomicU64::new(NEVER),
            stopped_ns: AtomicU64::new(NEVER),
        }))
    }

    /// Ends the run at `end`, unless it has been stopped.
    pub(crate) fn set(&self, end: Instant) {
        let inside = &self.0;
        inside
            .at_ns
            .store(inside.since_origin(end), Ordering::Relaxed);
    }

    /// Ends the run now, even before it has started.
    pub(crate) fn stop(&self) {
        let inside = &self.0;
        let now = inside.since_origin(Instant::now());
        // Only the first stop counts.
        inside.stopped_ns.fetch_min(now, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped_ns.load(Ordering::Relaxed) != NEVER
    }

    /// Returns true if nothing is sent any more.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.since_origin(now) >= self.0.end_ns()
    }

    /// Returns the end as currently known.
    pub(crate) fn time(&self) -> Instant {
        self.0.origin + Duration::from_nanos(self.0.end_ns().min(i64::MAX as u64))
    }
}

impl Inside {
    fn since_origin(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.origin).as_nanos() as u64
    }

    fn end_ns(&self) -> u64 {
        let stopped_ns = self.stopped_ns.load(Ordering::Relaxed);
        self.at_ns.load(Ordering::Relaxed).min(stopped_ns)
    }
}

/// The times of one run.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) start: Instant,
    /// End of the warm-up.
    pub(crate) begin: Instant,
    pub(crate) end: End,
}

impl Clock {
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.end.is_over(now)
    }

    pub(crate) fn measured(&self) -> Duration {
        self.end.time().saturating_duration_since(self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_comes_before_any_end() {
        let end = End::new();
        let later = Instant::now() + Duration::from_secs(100);
        assert!(!end.is_over(later));
        end.set(later);
        assert!(end.is_over(later) && !end.is_over(Instant::now()) && !end.is_stopped());
        assert_eq!(end.time(), later);
        end.stop();
        assert!(end.is_over(Instant::now()) && end.is_stopped());
        let stopped = end.time();
        end.set(later);
        assert_eq!(end.time(), stopped);
    }
}

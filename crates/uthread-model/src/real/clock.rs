//! The time of the scenario, which passes faster than the real one by the scale.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(super) struct Clock {
    start: OnceLock<Instant>,
    scale: f64,
}

impl Clock {
    pub(super) fn new(scale: f64) -> Clock {
        let start = OnceLock::new();
        Clock { start, scale }
    }

    /// Starts the time. Until then it is zero.
    pub(super) fn start(&self) {
        self.start.get_or_init(Instant::now);
    }

    /// Returns the time of the scenario in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        let elapsed = self.start.get().map_or(Duration::ZERO, Instant::elapsed);
        (elapsed.as_nanos() as f64 * self.scale) as u64
    }

    /// Returns how long a time of the scenario, in nanoseconds, really takes.
    pub(super) fn real(&self, time: u64) -> Duration {
        Duration::from_nanos((time as f64 / self.scale) as u64)
    }

    /// Waits until a time of the scenario.
    pub(super) fn wait_until(&self, time: u64) {
        let left = time.saturating_sub(self.now());
        if left > 0 {
            uthread::sleep(self.real(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_by_the_scale() {
        let clock = Clock::new(10.0);
        assert_eq!(clock.now(), 0);
        assert_eq!(clock.real(50_000_000), Duration::from_millis(5));
        let before = Instant::now();
        clock.start();
        clock.wait_until(50_000_000);
        let now = clock.now();
        let most = 10 * before.elapsed().as_nanos() as u64;
        assert!((50_000_000..=most).contains(&now), "{now}, {most}");
    }
}

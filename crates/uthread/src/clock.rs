//! Virtual time: the clock of a runtime whose time stands still while one of its fibers can run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::ClockId;

/// A clock that only its worker moves.
#[derive(Debug, Default)]
pub(crate) struct VirtualClock {
    /// The times of the system's clocks when this one was first read.
    start: OnceLock<Start>,
    /// Nanoseconds since then. Relaxed: a fiber that is woken learns of the time by what wakes it.
    elapsed: AtomicU64,
}

#[derive(Debug)]
struct Start {
    monotonic: Duration,
    boot: Duration,
    real: Duration,
}

impl VirtualClock {
    /// Returns the time by a clock of the system (`clock_gettime(2)`), since its epoch. Returns
    /// `None` for a clock that runs on, such as one of CPU time.
    pub(crate) fn time(&self, clock: libc::clockid_t) -> Option<Duration> {
        let start = self.start.get_or_init(|| Start {
            monotonic: of_system(ClockId::Monotonic),
            boot: of_system(ClockId::Boottime),
            real: of_system(ClockId::Realtime),
        });
        let start = match clock {
            libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE => {
                start.monotonic
            }
            libc::CLOCK_BOOTTIME => start.boot,
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => start.real,
            _ => return None,
        };
        Some(start + Duration::from_nanos(self.elapsed.load(Ordering::Relaxed)))
    }

    /// Moves the clock. Called by its worker.
    pub(crate) fn advance(&self, time: Duration) {
        let elapsed = self.elapsed.load(Ordering::Relaxed);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.elapsed
            .store(elapsed.saturating_add(time), Ordering::Relaxed);
    }
}

fn of_system(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    // Neither is negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_but_those_of_cpu_time_move_by_the_same_time() {
        let clock = VirtualClock::default();
        let clocks = [
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_REALTIME,
        ];
        let before = clocks.map(|id| clock.time(id).unwrap());
        let hour = Duration::from_secs(3600);
        clock.advance(hour);
        assert_eq!(
            clocks.map(|id| clock.time(id).unwrap()),
            before.map(|time| time + hour)
        );
        assert_eq!(clock.time(libc::CLOCK_THREAD_CPUTIME_ID), None);
    }
}

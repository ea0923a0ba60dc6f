//! Waits until a message is due, with microsecond precision. The runtime's own sleep has ticks of
//! 131 us, longer than a response takes.
//!
//! A kernel timer wakes the fiber through its descriptor, with any driver. If the worker spins, the
//! fiber looks at the clock on each turn instead.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use uthread::io::PipeReader;
use uthread::yield_now;

/// Interval for noticing a stop: soon for a person who waits, and seldom.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Pacer {
    /// `None` if the worker spins. A timer is read like a pipe, 8 bytes for each expiry.
    timer: Option<PipeReader>,
}

impl Pacer {
    pub(crate) fn new(spins: bool) -> io::Result<Pacer> {
        let create = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let timer = (!spins).then(create).transpose()?.map(PipeReader::from);
        Ok(Pacer { timer })
    }

    /// Waits until `due` or somewhat earlier: the caller looks at the clock again.
    pub(crate) fn wait(&self, due: Instant) -> io::Result<()> {
        let Some(mut timer) = self.timer.as_ref() else {
            yield_now();
            return Ok(());
        };
        let wait = due.saturating_duration_since(Instant::now());
        // Zero would disarm the timer.
        let wait = wait.clamp(Duration::from_nanos(1), LOOK_EVERY);
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(wait).map_err(io::Error::other)?,
        };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
        timer.read_exact(&mut [0; 8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_not_over_much_too_early() {
        uthread::run(|| {
            for spins in [false, true] {
                let pacer = Pacer::new(spins).unwrap();
                let due = Instant::now() + Duration::from_millis(120);
                let mut waits = 0;
                while Instant::now() < due {
                    pacer.wait(due).unwrap();
                    waits += 1;
                }
                assert!(spins || waits >= 3, "{waits}");
                // A time in the past returns immediately.
                pacer.wait(due).unwrap();
            }
        });
    }
}

//! Waits until a message is due, to the microsecond: the runtime's own sleep has ticks of 131 us, longer than an answer takes.
//!
//! A timer of the kernel's, as a descriptor, wakes the fiber by whatever driver there is. Where the worker spins anyway, the
//! fiber looks at the clock each time it is its turn.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use uthread::io::PipeReader;
use uthread::yield_now;

/// At which a stop is looked for: soon for whoever waits, and seldom.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Pacer {
    /// None where the worker spins. A timer is read as a pipe is, 8 bytes for each expiry.
    timer: Option<PipeReader>,
}

impl Pacer {
    pub(crate) fn new(spins: bool) -> io::Result<Pacer> {
        let create = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let timer = (!spins).then(create).transpose()?.map(PipeReader::from);
        Ok(Pacer { timer })
    }

    /// Returns then, or somewhat before: the caller looks at the clock again.
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
                // One that is due already does not wait for ever.
                pacer.wait(due).unwrap();
            }
        });
    }
}

//! The clocks of hosts: a date that jumps, and an oscillator that is off.
//!
//! ```text
//!   the world's time    0 ----------------- 10 s ------------ 20 s
//!   a host's, +10 %     0 ----------------- 11 s ------------ 22 s
//! ```
//!
//! All clocks of a host go by its oscillator, and so do the timeouts of its calls: the library asks when the time
//! of the world is that at which one ends. Links and resolvers go by the time of the world.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use uthread::interposition;

use super::Shared;
use crate::lock::lock;

/// How far a rate can be off, in parts per million: as far as `adjtimex(2)` changes it by `tick`.
pub(super) const DRIFT_PPM_MAX: u32 = 100_000;

const MILLION: i128 = 1_000_000;

/// `true` once the clock of a host was changed: few tests do, and all read clocks often. Relaxed: one worker
/// uses the clocks of a world.
static IS_ANY_CHANGED: AtomicBool = AtomicBool::new(false);

/// The clock of a host.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    /// How far the date is ahead of the time, and behind it.
    date: (Duration, Duration),
    ppm: i32,
    /// The time of the world when the rate was changed last.
    since: Duration,
    /// Nanoseconds that the clock had gained by then.
    gained: i128,
}

/// The clocks that were changed, by the numbers of their hosts.
pub(super) type Clocks = BTreeMap<u32, Clock>;

impl Clock {
    /// Returns how many nanoseconds the clock is ahead at this time of the world.
    fn gained(&self, now: Duration) -> i128 {
        let elapsed = nanoseconds(now.saturating_sub(self.since));
        self.gained + (elapsed * i128::from(self.ppm)).div_euclid(MILLION)
    }

    fn set_drift(&mut self, now: Duration, ppm: i32) {
        self.gained = self.gained(now);
        (self.since, self.ppm) = (now, ppm);
    }

    fn rate(&self) -> i128 {
        MILLION + i128::from(self.ppm)
    }

    /// Returns the time of the world that passes in this one of the clock, at least.
    fn of_world(&self, own: Duration) -> Duration {
        duration(nanoseconds(own) * MILLION / self.rate() + 1)
    }

    /// Returns the time of the clock that passes in this one of the world, at least.
    fn own(&self, of_world: Duration) -> Duration {
        duration(nanoseconds(of_world) * self.rate() / MILLION + 1)
    }
}

impl Shared {
    /// Changes how far the date of a host is ahead, and behind.
    pub(super) fn set_date(&self, host: u32, date: (Duration, Duration)) {
        self.change_clock(host, |clock| clock.date = date);
    }

    /// Returns the rate of a host's clock, in parts per million.
    pub(super) fn drift(&self, host: u32) -> i32 {
        lock(&self.clocks).get(&host).map_or(0, |clock| clock.ppm)
    }

    /// Changes the rate of a host's clock from `now` on. Returns how the times until its timers change.
    pub(super) fn set_drift(
        &self,
        host: u32,
        now: Duration,
        ppm: i32,
    ) -> impl Fn(Duration) -> Duration + use<> {
        let (mut before, mut after) = (Clock::default(), Clock::default());
        self.change_clock(host, |clock| {
            before = *clock;
            clock.set_drift(now, ppm);
            after = *clock;
        });
        move |left| duration(nanoseconds(left) * before.rate() / after.rate())
    }

    /// Returns `true` if the clock of a host does not go by the time of the world, or has not.
    pub(super) fn has_drifted(&self, host: u32) -> bool {
        let clocks = lock(&self.clocks);
        clocks
            .get(&host)
            .is_some_and(|clock| clock.since > Duration::ZERO)
    }

    fn change_clock(&self, host: u32, change: impl FnOnce(&mut Clock)) {
        IS_ANY_CHANGED.store(true, Ordering::Relaxed);
        change(lock(&self.clocks).entry(host).or_default());
    }
}

/// Returns the clock of the caller's host, if that was changed.
fn of_caller() -> Option<Clock> {
    if !IS_ANY_CHANGED.load(Ordering::Relaxed) {
        return None;
    }
    let host = interposition::host()?;
    lock(&Shared::current()?.clocks).get(&host).copied()
}

/// Returns the time by a clock of `clock_gettime(2)`, as the caller's host shows it. Returns `None` for the clocks
/// of CPU time.
pub(crate) fn time(clock: libc::clockid_t) -> Option<Duration> {
    let time = interposition::time(clock)?;
    let Some(of_host) = of_caller() else {
        return Some(time);
    };
    let gained = of_host.gained(super::now());
    let time = duration((nanoseconds(time) + gained).max(0));
    if ![libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_COARSE].contains(&clock) {
        return Some(time);
    }
    let (ahead, behind) = of_host.date;
    Some((time + ahead).saturating_sub(behind))
}

/// Returns the monotonic time of the caller's host.
pub(super) fn own_now() -> Duration {
    time(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Returns the time that passes by the clock of the caller's host in this one of the world.
pub(super) fn own_time(of_world: Duration) -> Duration {
    match of_caller() {
        Some(clock) if !of_world.is_zero() => clock.own(of_world),
        Some(_) | None => of_world,
    }
}

/// Returns the time of the world at which the clock of the caller's host shows this one.
pub(super) fn of_world(own: Instant) -> Instant {
    let Some(clock) = of_caller() else {
        return own;
    };
    let now = Instant::now();
    let left = clock.of_world(own.saturating_duration_since(now));
    let gained = clock.gained(super::now());
    let ahead = duration(gained.max(0));
    now + left + duration((-gained).max(0)) - ahead
}

fn nanoseconds(time: Duration) -> i128 {
    time.as_nanos().cast_signed()
}

/// Returns a time of so many nanoseconds, which are not negative; at most 584 years.
fn duration(nanoseconds: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_where_it_was_when_its_rate_changes() {
        let mut clock = Clock::default();
        let (mut last, mut now) = (0, Duration::ZERO);
        for (step, ppm) in [100_000, -100_000, 500, 0, -1, 100_000]
            .into_iter()
            .enumerate()
        {
            clock.set_drift(now, ppm);
            for _ in 0..1000 {
                now += Duration::from_nanos(1 + step as u64 * 1_234_567);
                let own = nanoseconds(now) + clock.gained(now);
                assert!(own >= last, "{own} after {last}");
                last = own;
            }
        }
        let mut clock = Clock::default();
        clock.set_drift(Duration::from_secs(100), 100_000);
        clock.set_drift(Duration::from_secs(110), -50_000);
        assert_eq!(clock.gained(Duration::from_secs(120)), 500_000_000);
    }

    #[test]
    fn a_wait_is_long_enough_by_the_clock_of_its_host() {
        for ppm in [-100_000, -77_777, -1, 0, 1, 33_333, 100_000] {
            let clock = Clock {
                ppm,
                ..Clock::default()
            };
            for nanoseconds in [0, 1, 2, 999, 1_000_000_007, u64::MAX / 4] {
                let own = Duration::from_nanos(nanoseconds);
                let of_world = clock.of_world(own);
                let passed = of_world.as_nanos().cast_signed() + clock.gained(of_world);
                assert!(passed >= nanoseconds.into(), "{ppm}: {own:?}");
                assert!(passed <= i128::from(nanoseconds) + 3, "{ppm}: {own:?}");
                assert!(clock.of_world(clock.own(own)) >= own, "{ppm}: {own:?}");
            }
        }
    }
}

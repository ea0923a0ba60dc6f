//! Chooses whether the sends of a round gather until its end, or are system calls at once.
//!
//! Many connections that are ready together are served at less cost if their fibers run one after
//! the other and the kernel then sends one response after the other: each finds its code in the
//! cache, and the clients are woken once. But a response must not wait for long, nor for a fiber
//! that computes for long.
//!
//! ```text
//!             a round with SENDS_MIN sends, SEND_TIME_MAX or less for each
//!   direct  ----------------------------------------------------->  gathering
//!      ^                                                                |
//!      +----------------------------------------------------------------+
//!                         any other round
//! ```

use std::ffi::c_long;
use std::mem;
use std::time::{Duration, Instant};

use crate::driver::FLUSH_TIME_MAX;

/// Length of the longest send that gathers with others. Copying a longer one takes longer than its
/// system call, and many of them in one flush would delay all other connections.
const GATHERED_BYTES_MAX: usize = 4096;

/// Number of sends in a round from which those of the next one gather.
const SENDS_MIN: u32 = 4;

/// Mean time for each send of a round, above which a response does not wait for others: beside so
/// much work, its system call costs little.
const SEND_TIME_MAX: Duration = Duration::from_micros(50);

/// Number of sends that gather before a flush, at the pace of the last round.
const FLUSH_SENDS: u32 = 10;

/// A send may wait for this part of the time for which its connection has waited for its turn anyway.
const WAIT_SHARE: u32 = 10;

/// Maximum time for which [`FLUSH_SENDS`] gather before a flush.
const GATHER_TIME_MAX: Duration = Duration::from_micros(200);

/// A round with gathered sends has taken long after this many times the time after which the
/// scheduler ends it: a fiber has kept the worker, unless the kernel has preempted its thread.
const LONG_ROUND: u32 = 3;

/// Number of direct sends after a round in which a fiber has kept the worker, or after one with a
/// single send where gathering saves no system call. It doubles if the next such round comes soon,
/// up to a maximum. Each such round delays its own sends only: at the maximum, a few in a thousand.
const DIRECT_SENDS_MIN: u32 = 256;
const DIRECT_SENDS_MAX: u32 = 8 * 1024;

/// The choice of one driver.
#[derive(Debug)]
pub(super) struct SendBatcher {
    /// Mean time for each send of a round, below which sends do not gather. Zero if gathering saves
    /// a system call.
    send_time_min: Duration,
    /// Number of sends in this round.
    sends: u32,
    /// Time of the first of them or, in a round with few or direct ones, of the last
    /// of [`SENDS_MIN`]: reading the clock takes longer than counting.
    began: Option<Instant>,
    /// Number of sends before that time.
    untimed: u32,
    is_gathering: bool,
    /// Number of sends that are direct in any case.
    direct: u32,
    /// Number of such sends after the next round that takes long.
    direct_next: u32,
    /// Number of sends that have gathered since the last such round.
    gathered: u32,
    /// Time after which sends that gather in this round are flushed.
    gather_time: Duration,
    /// Number of preemptions of the thread at the end of the last round that took long.
    preemptions: c_long,
}

impl SendBatcher {
    /// Creates one that lets sends gather if each of a round took at least this time.
    pub(super) fn new(send_time_min: Duration) -> SendBatcher {
        SendBatcher {
            send_time_min,
            sends: 0,
            began: None,
            untimed: 0,
            is_gathering: false,
            direct: 0,
            direct_next: DIRECT_SENDS_MIN,
            gathered: 0,
            gather_time: FLUSH_TIME_MAX,
            preemptions: 0,
        }
    }

    /// Creates one whose first round gathers.
    #[cfg(test)]
    pub(super) fn gathering() -> SendBatcher {
        SendBatcher {
            is_gathering: true,
            ..SendBatcher::new(Duration::ZERO)
        }
    }

    /// Counts a send of this length. Returns `true` if it gathers.
    #[inline]
    pub(super) fn gathers(&mut self, length: usize, now: impl FnOnce() -> Instant) -> bool {
        if length > GATHERED_BYTES_MAX {
            return false;
        }
        self.sends += 1;
        if self.began.is_none() && (self.is_gathering || self.sends >= SENDS_MIN) {
            self.began = Some(now());
            self.untimed = self.sends - 1;
        }
        self.is_gathering
    }

    /// Returns the time within which the driver has to be flushed if `waiting` operations wait for
    /// that, or `None` if none does.
    pub(super) fn flush_within(&self, waiting: u32) -> Option<Duration> {
        if waiting == 0 {
            None
        } else if self.is_gathering && waiting == self.sends {
            // Each is a gathered send.
            Some(self.gather_time)
        } else {
            Some(FLUSH_TIME_MAX)
        }
    }

    /// Ends a round, before its gathered sends are submitted, and returns the number of its sends.
    /// `backlog` is the number of connections that wait for their turn, and `preemptions` returns how
    /// many times the kernel has preempted the thread.
    pub(super) fn end_round(
        &mut self,
        backlog: u32,
        now: impl FnOnce() -> Instant,
        preemptions: impl FnOnce() -> c_long,
    ) -> u32 {
        if self.sends == 0 {
            return 0;
        }
        self.direct = self.direct.saturating_sub(self.sends);
        let began = self.began.take();
        let is_worthwhile =
            began.is_some_and(|began| self.record_round(backlog, now() - began, preemptions));
        self.is_gathering = self.sends >= SENDS_MIN && is_worthwhile && self.direct == 0;
        mem::take(&mut self.sends)
    }

    /// Records a round whose timed sends took `time`. Returns `true` if its pace is one at which
    /// sends should gather.
    fn record_round(
        &mut self,
        backlog: u32,
        time: Duration,
        preemptions: impl FnOnce() -> c_long,
    ) -> bool {
        if self.is_gathering {
            self.record_gathered(time, preemptions);
        }
        let send_time = time / (self.sends - self.untimed);
        let gather_time = (FLUSH_SENDS * send_time).clamp(FLUSH_TIME_MAX, GATHER_TIME_MAX);
        self.gather_time = match backlog / WAIT_SHARE {
            0 => gather_time,
            sends => gather_time.max(sends * send_time),
        };
        (self.send_time_min..=SEND_TIME_MAX).contains(&send_time)
    }

    /// Records a round of gathered sends that took `time`.
    fn record_gathered(&mut self, time: Duration, preemptions: impl FnOnce() -> c_long) {
        self.gathered = self.gathered.saturating_add(self.sends);
        // Fibers that answer each other have nothing to gather.
        let is_vain = self.sends == 1 && !self.send_time_min.is_zero();
        let is_long = time > LONG_ROUND * self.gather_time;
        if is_vain || is_long && !self.was_preempted(preemptions()) {
            if self.gathered > DIRECT_SENDS_MAX {
                self.direct_next = DIRECT_SENDS_MIN;
            }
            self.direct = self.direct_next;
            self.direct_next = (2 * self.direct_next).min(DIRECT_SENDS_MAX);
            self.gathered = 0;
        }
    }

    /// Returns `true` if the thread was preempted since the last call, which excuses one long
    /// round. Where other threads share its CPU, direct sends would wake them one by one, and be
    /// preempted more often.
    fn was_preempted(&mut self, preemptions: c_long) -> bool {
        mem::replace(&mut self.preemptions, preemptions) != preemptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round in which the thread is not preempted, and returns `true` if its sends gather.
    fn round(batcher: &mut SendBatcher, sends: u32, time: Duration) -> bool {
        let preemptions = batcher.preemptions;
        round_until(batcher, sends, time, preemptions)
    }

    /// Runs a round at whose end the thread has been preempted so many times.
    fn round_until(
        batcher: &mut SendBatcher,
        sends: u32,
        time: Duration,
        preemptions: c_long,
    ) -> bool {
        let start = Instant::now();
        let gathered = (0..sends)
            .filter(|&index| batcher.gathers(16, || start + time * index / sends))
            .count() as u32;
        assert!(gathered == 0 || gathered == sends);
        batcher.end_round(0, || start + time, || preemptions);
        gathered > 0
    }

    #[test]
    fn sends_gather_after_rounds_with_many_in_quick_succession() {
        const QUICK: Duration = Duration::ZERO;
        const SLOW: Duration = Duration::from_millis(1);
        let mut batcher = SendBatcher::new(Duration::ZERO);
        let rounds = [
            (1, QUICK, false),
            (SENDS_MIN, QUICK, false),
            (SENDS_MIN - 1, QUICK, true),
            (SENDS_MIN, SLOW, false),
            (SENDS_MIN, QUICK, false),
            (0, SLOW, false),
            (1, QUICK, true),
            (1, QUICK, false),
        ];
        for (sends, time, gather) in rounds {
            assert_eq!(
                round(&mut batcher, sends, time),
                gather,
                "{sends} in {time:?}"
            );
        }
    }

    #[test]
    fn sends_that_are_quick_need_not_gather() {
        for (send_us, gathers) in [(15, false), (16, true), (50, true), (51, false)] {
            let mut batcher = SendBatcher::new(Duration::from_micros(16));
            round(&mut batcher, 8, 8 * Duration::from_micros(send_us));
            assert_eq!(
                round(&mut batcher, 1, Duration::ZERO),
                gathers,
                "{send_us} us"
            );
        }
    }

    #[test]
    fn after_a_send_that_gathered_alone_many_are_direct() {
        const SENDS: u32 = 64;
        let mut batcher = SendBatcher::new(Duration::from_micros(20));
        let time = SENDS * Duration::from_micros(30);
        let gathers_after_one = |batcher: &mut SendBatcher| {
            round(batcher, 1, Duration::from_micros(30));
            round(batcher, SENDS, time);
            round(batcher, SENDS, time)
        };
        assert!(!round(&mut batcher, SENDS, time));
        assert!(!gathers_after_one(&mut batcher));
        let mut batcher = SendBatcher::new(Duration::ZERO);
        assert!(!round(&mut batcher, SENDS, time));
        assert!(gathers_after_one(&mut batcher));
    }

    #[test]
    fn sends_gather_for_the_time_of_ten() {
        let mut batcher = SendBatcher::new(Duration::ZERO);
        assert_eq!(batcher.gather_time, FLUSH_TIME_MAX);
        for (send_us, gather_us) in [(1, 50), (5, 50), (12, 120), (20, 200), (50, 200), (51, 200)] {
            round(&mut batcher, 30, 30 * Duration::from_micros(send_us));
            assert_eq!(batcher.gather_time, Duration::from_micros(gather_us));
        }
    }

    #[test]
    fn sends_gather_for_a_tenth_of_the_wait_of_a_connection() {
        for (backlog, gather_us) in [(0, 200), (109, 200), (110, 220), (500, 1000)] {
            let (mut batcher, start) = (SendBatcher::gathering(), Instant::now());
            for _ in 0..30 {
                batcher.gathers(16, || start);
            }
            let sends = batcher.end_round(backlog, || start + 30 * Duration::from_micros(20), || 0);
            assert_eq!(sends, 30);
            assert_eq!(batcher.gather_time, Duration::from_micros(gather_us));
        }
    }

    #[test]
    fn after_a_round_that_took_long_many_sends_are_direct() {
        const SENDS: u32 = 64;
        let late = LONG_ROUND * GATHER_TIME_MAX + Duration::from_nanos(1);
        let mut batcher = SendBatcher::new(Duration::ZERO);
        assert!(!round(&mut batcher, SENDS, late), "sends gather too early");
        let mut late_round = |expected| {
            assert!(round(&mut batcher, SENDS, late));
            for _ in 0..expected / SENDS {
                assert!(!round(&mut batcher, SENDS, late));
            }
        };
        // One such round after the other.
        for expected in [1, 2, 4, 8, 16, 32, 32] {
            late_round(expected * DIRECT_SENDS_MIN);
        }
        // One after a long time.
        for _ in 0..DIRECT_SENDS_MAX / SENDS {
            assert!(round(&mut batcher, SENDS, Duration::ZERO));
        }
        assert!(round(&mut batcher, SENDS, late));
        for _ in 0..DIRECT_SENDS_MIN / SENDS {
            assert!(!round(&mut batcher, SENDS, late));
        }
        assert!(round(&mut batcher, SENDS, Duration::ZERO));
    }

    #[test]
    fn a_preemption_excuses_one_round_that_took_long() {
        const SENDS: u32 = 64;
        let late = LONG_ROUND * GATHER_TIME_MAX + Duration::from_nanos(1);
        let mut batcher = SendBatcher::new(Duration::ZERO);
        round(&mut batcher, SENDS, Duration::ZERO);
        for preemptions in [1, 2, 9] {
            assert!(round_until(&mut batcher, SENDS, late, preemptions));
            assert!(round_until(
                &mut batcher,
                SENDS,
                Duration::ZERO,
                preemptions + 1
            ));
        }
        assert!(round_until(&mut batcher, SENDS, late, 10));
        assert!(round_until(&mut batcher, SENDS, late, 10));
        assert!(!round_until(&mut batcher, SENDS, late, 10));
    }
}

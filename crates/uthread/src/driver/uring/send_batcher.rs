//! Chooses whether sends gather as requests, which one enter submits, or are system calls of their own.
//!
//! Many connections that are ready together are served at less cost if their fibers run one after the other
//! and the kernel then sends one response after the other: each finds its code in the cache. But a response
//! must not wait for a fiber that computes.
//!
//! ```text
//!             a round with SENDS_MIN sends in quick succession
//!   direct  ----------------------------------------------------->  gathering
//!      ^                                                                |
//!      +----------------------------------------------------------------+
//!                         any other round
//! ```

use std::time::{Duration, Instant};

/// Number of sends in a round from which those of the next one gather.
const SENDS_MIN: u32 = 4;

/// Mean time for each send of a round, above which fibers compute: twice the time of a message that is only
/// received and sent.
const SEND_TIME_MAX: Duration = Duration::from_micros(16);

/// Time after which a round with gathered sends has taken long. The scheduler ends it after a third of this,
/// unless a fiber keeps the worker.
const ROUND_TIME_MAX: Duration = Duration::from_micros(150);

/// Number of direct sends after such a round. As only the sends of one round are late, these are few in a
/// thousand.
const DIRECT_SENDS: u32 = 8 * 1024;

/// The choice of one ring.
#[derive(Debug, Default)]
pub(super) struct SendBatcher {
    /// Number of sends in this round.
    sends: u32,
    /// Time of the first of them.
    began: Option<Instant>,
    is_gathering: bool,
    /// Number of sends that are direct in any case.
    direct: u32,
}

impl SendBatcher {
    /// Counts a send. Returns `true` if it gathers.
    #[inline]
    pub(super) fn gathers(&mut self, now: impl FnOnce() -> Instant) -> bool {
        self.sends += 1;
        self.began.get_or_insert_with(now);
        self.is_gathering
    }

    /// Ends a round, before its gathered sends are submitted.
    pub(super) fn end_round(&mut self, now: impl FnOnce() -> Instant) {
        let Some(began) = self.began.take() else {
            return;
        };
        let time = now() - began;
        self.direct = self.direct.saturating_sub(self.sends);
        if self.is_gathering && time > ROUND_TIME_MAX {
            self.direct = DIRECT_SENDS;
        }
        let is_quick = time <= SEND_TIME_MAX * self.sends;
        self.is_gathering = self.sends >= SENDS_MIN && is_quick && self.direct == 0;
        self.sends = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round, and returns `true` if its sends gather.
    fn round(batcher: &mut SendBatcher, sends: u32, time: Duration) -> bool {
        let start = Instant::now();
        let gathered = (0..sends).filter(|_| batcher.gathers(|| start)).count() as u32;
        assert!(gathered == 0 || gathered == sends);
        batcher.end_round(|| start + time);
        gathered > 0
    }

    #[test]
    fn sends_gather_after_rounds_with_many_in_quick_succession() {
        const QUICK: Duration = Duration::ZERO;
        const SLOW: Duration = Duration::from_millis(1);
        let mut batcher = SendBatcher::default();
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
    fn after_a_round_that_took_long_many_sends_are_direct() {
        const SENDS: u32 = 64;
        let late = ROUND_TIME_MAX + Duration::from_nanos(1);
        let mut batcher = SendBatcher::default();
        assert!(!round(&mut batcher, SENDS, late), "it does not gather yet");
        assert!(round(&mut batcher, SENDS, late));
        for _ in 0..DIRECT_SENDS / SENDS {
            assert!(!round(&mut batcher, SENDS, late));
        }
        assert!(round(&mut batcher, SENDS, late));
    }
}

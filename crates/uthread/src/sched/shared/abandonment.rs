//! The decision whether the remaining fibers of a runtime are awaited or abandoned; and, in the same
//! byte, whether started fibers have moved, so that a wake-up tests both at once.

use std::sync::atomic::{AtomicU8, Ordering};

/// How the remaining fibers are treated when the runtime has shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abandonment {
    /// They are cancelled and awaited.
    None,
    /// They are not resumed, as the program has requested.
    Quiet,
    /// They are not resumed, as they would not end, and are reported.
    Reported,
}

impl Abandonment {
    fn of(number: u8) -> Abandonment {
        match number & !MOVED {
            0 => Abandonment::None,
            1 => Abandonment::Quiet,
            _ => Abandonment::Reported,
        }
    }
}

/// Set once a started fiber has moved to another worker.
const MOVED: u8 = 4;

/// An [`Abandonment`] that is decided once.
#[derive(Debug, Default)]
pub(crate) struct Decision(AtomicU8);

impl Decision {
    pub(in crate::sched) fn get(&self) -> Abandonment {
        // Acquire pairs with the release in `make`.
        Abandonment::of(self.0.load(Ordering::Acquire))
    }

    pub(in crate::sched) fn is_made(&self) -> bool {
        self.get() != Abandonment::None
    }

    /// Makes the decision. Later calls have no effect.
    pub(in crate::sched) fn make(&self, abandonment: Abandonment) {
        let number = abandonment as u8;
        let decide = |before| (before & !MOVED == 0).then_some(before | number);
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, decide);
    }

    /// Returns `true` if fibers are awaited, and each is on the worker that has started it.
    pub(in crate::sched) fn is_usual(&self) -> bool {
        // Acquire pairs with the release in `make`. A fiber that has moved was woken after that.
        self.0.load(Ordering::Acquire) == 0
    }

    /// Records that a started fiber moves.
    pub(in crate::sched) fn record_move(&self) {
        if self.0.load(Ordering::Relaxed) & MOVED == 0 {
            self.0.fetch_or(MOVED, Ordering::Relaxed);
        }
    }
}

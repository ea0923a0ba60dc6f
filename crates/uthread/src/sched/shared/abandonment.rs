//! The decision whether the remaining fibers of a runtime are awaited or abandoned.

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
        match number {
            0 => Abandonment::None,
            1 => Abandonment::Quiet,
            _ => Abandonment::Reported,
        }
    }
}

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
        let _ = self
            .0
            .compare_exchange(0, number, Ordering::Release, Ordering::Relaxed);
    }
}

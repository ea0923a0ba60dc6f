//! The runners that a worker keeps for its next fibers, warm in the cache.

use std::cell::Cell;

use super::batch::BATCH_FIBERS;
use crate::fiber::Runner;

/// Maximum number of runners: those of one batch.
const RUNNERS_MAX: usize = BATCH_FIBERS as usize;

/// A stack without borrows and growth, each of which would cost as much as the rest.
pub(super) struct HotRunners {
    /// The first of them are occupied.
    places: [Cell<Option<Runner>>; RUNNERS_MAX],
    count: Cell<usize>,
}

/// The place for one more runner. Filling it needs no second check for room.
pub(super) struct Room<'a> {
    place: &'a Cell<Option<Runner>>,
    index: usize,
    count: &'a Cell<usize>,
}

impl Room<'_> {
    /// Adds a runner.
    pub(super) fn fill(self, runner: Runner) {
        self.place.set(Some(runner));
        self.count.set(self.index + 1);
    }
}

impl Default for HotRunners {
    fn default() -> HotRunners {
        HotRunners {
            places: [const { Cell::new(None) }; RUNNERS_MAX],
            count: Cell::new(0),
        }
    }
}

impl HotRunners {
    /// Adds a runner. The caller has checked that there is room.
    pub(super) fn push(&self, runner: Runner) {
        let room = self.room().expect("the caller has made room");
        room.fill(runner);
    }

    /// Returns the place for one more runner, if there is room.
    pub(super) fn room(&self) -> Option<Room<'_>> {
        let index = self.count.get();
        let place = self.places.get(index)?;
        Some(Room {
            place,
            index,
            count: &self.count,
        })
    }

    /// Takes the newest runner.
    pub(super) fn pop(&self) -> Option<Runner> {
        let last = self.count.get().wrapping_sub(1);
        let runner = self.places.get(last)?.get();
        self.count.set(last);
        runner
    }

    /// Takes so many of the oldest runners, which are the coldest.
    pub(super) fn take_oldest(&self, number: usize) -> Vec<Runner> {
        let count = self.count.get();
        let number = number.min(count);
        let oldest = self.places[..number].iter().filter_map(Cell::take);
        let oldest = oldest.collect();
        for place in number..count {
            self.places[place - number].swap(&self.places[place]);
        }
        self.count.set(count - number);
        oldest
    }

    pub(super) fn take_all(&self) -> Vec<Runner> {
        self.take_oldest(RUNNERS_MAX)
    }
}

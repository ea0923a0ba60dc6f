//! Picking the fiber to run next, by the number of the switch.
//!
//! ```text
//!   usually                      a new fiber every fourth time, by turns the newest and the oldest; else the next ready one; else the newest new one
//!   if some are spent            one of those every eighth time, and when there is no other
//!   if fibers have priorities    the priorities take turns: [`ordering`](super::ordering)
//!   if a seed decides            any of them
//! ```

use super::Queues;
use crate::fiber::{FiberRef, Started};
use crate::sched::budget::CALLS_MAX;

/// Every fourth fiber to run is a new one, so that fibers that never wait cannot keep it from
/// starting.
pub(in crate::sched) const NEW_FIBER_TURN: u64 = 4;

/// Every eighth fiber to run is the oldest new one, so that newer ones cannot keep it from
/// starting. The newest has the other turns: the caches hold it, and its worker takes it from its
/// own end of the deque, which costs less than a steal.
const OLDEST_FIBER_TURN: u64 = 2 * NEW_FIBER_TURN;

/// Every eighth fiber to run is one that has used up its last turn, so that neither new fibers nor
/// those that use little time can keep it from running.
const SPENT_TURN: u64 = 8;

/// Bound of the number of calls in a short turn, where a seed decides.
const SHORT_TURN: u32 = 8;

/// Starts the new fibers that are picked.
pub(in crate::sched) trait Starter {
    /// Starts a fiber. Returns `None` if it cannot run now.
    fn start(&self, fiber: FiberRef) -> Option<Started>;
}

impl Queues {
    /// Takes the fiber to run next. `new` is the one that is to run first,
    /// if the turn of a new one has come.
    pub(in crate::sched) fn next_staying(
        &self,
        new: Option<Started>,
        starter: &impl Starter,
    ) -> Option<Started> {
        new.or_else(|| self.ready.pop_staying())
            .or_else(|| self.start_newest(starter))
    }

    /// Takes the fiber to run next while fibers have used up their last turns.
    pub(in crate::sched) fn next_beside_spent(
        &self,
        switch: u64,
        starter: &impl Starter,
    ) -> Option<Started> {
        let new = self.start_new_in_turn(switch, starter);
        let is_spent_turn = switch % SPENT_TURN == 1;
        let spent = is_spent_turn.then(|| self.ready.pop_spent()).flatten();
        spent
            .or_else(|| self.next_staying(new, starter))
            .or_else(|| self.ready.pop_spent())
    }

    /// Starts a new fiber if the turn of one has come, which the number of the pick decides.
    pub(in crate::sched) fn start_new_in_turn(
        &self,
        number: u64,
        starter: &impl Starter,
    ) -> Option<Started> {
        // Checked first: a steal costs a fence, even if there is nothing.
        if number.is_multiple_of(NEW_FIBER_TURN) && !self.new.is_empty() {
            self.start_new(number, starter)
        } else {
            None
        }
    }

    /// Starts the new fiber whose turn the pick of this number is.
    pub(in crate::sched) fn start_new(
        &self,
        number: u64,
        starter: &impl Starter,
    ) -> Option<Started> {
        if number.is_multiple_of(OLDEST_FIBER_TURN) {
            self.start_oldest(starter)
        } else {
            self.start_newest(starter)
        }
    }

    /// Takes any fiber, as the seed of virtual time decides.
    pub(in crate::sched) fn next_at_random(&self, starter: &impl Starter) -> Option<Started> {
        let ready = self.ready.normal() as u32;
        let choices = ready + u32::from(!self.new.is_empty());
        if choices == 0 {
            // No number is drawn: how often a worker looks depends on real time.
            return None;
        }
        let choice = self.random_below(choices);
        if choice < ready {
            return self.ready.pop_staying_at(choice);
        }
        match self.random_below(2) {
            0 => self.start_newest(starter),
            _ => self.start_oldest(starter),
        }
    }

    /// Returns the number of calls that do not wait after which the next fiber lets others run. If a
    /// seed decides, half of the turns are short.
    pub(in crate::sched) fn calls_of_turn(&self) -> i32 {
        if self.ready.is_random() && self.random_below(2) == 0 {
            self.random_below(SHORT_TURN).cast_signed()
        } else {
            CALLS_MAX
        }
    }

    fn random_below(&self, bound: u32) -> u32 {
        let clock = self.remote.clock.as_ref();
        clock
            .and_then(|clock| clock.random_below(bound))
            .unwrap_or(0)
    }

    fn start_newest(&self, starter: &impl Starter) -> Option<Started> {
        self.new.pop_newest().and_then(|fiber| starter.start(fiber))
    }

    fn start_oldest(&self, starter: &impl Starter) -> Option<Started> {
        self.new.pop_oldest().and_then(|fiber| starter.start(fiber))
    }
}

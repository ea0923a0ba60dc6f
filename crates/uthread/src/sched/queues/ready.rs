//! The ready fibers of one worker.
//!
//! A fiber that the running fiber has woken runs next: the data that the two share is still in the
//! cache, and the running fiber probably waits for an answer. This happens only a few times in a
//! row, so that two fibers that wake each other do not starve the rest.
//!
//! A fiber that has used up its turn by calls that have completed at once runs after those that
//! have not: it has used its worker for long, and they probably have not. It still has every eighth
//! turn.
//!
//! Usually all fibers stay, are normal and have time left, and one flag says so. Otherwise those of
//! another priority are in queues of their own ([`Prioritized`]).
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use super::prioritized::{OwnLength, Prioritized, SharedPrioritized};
use super::run_queue::{End, Length, RunQueue};
use crate::fiber::Started;
use crate::priorities::Priority;

/// Maximum number of times in a row that a woken fiber runs next: for a request, its response, and
/// one more.
const NEXT_IN_A_ROW_MAX: u32 = 3;

/// Each fiber is contained at most once, so the number of live fibers bounds it.
pub(crate) struct Ready {
    /// `true` if fibers are not ordered and none is spent, so that all are in
    /// `staying`; no probe is placed, nothing is recorded, none may be halted, and no seed decides.
    is_plain: Cell<bool>,
    /// `true` while a probe has a place among the fibers.
    is_probed: Cell<bool>,
    /// `true` while the worker records what it does.
    is_traced: Cell<bool>,
    /// `true` if a seed decides which fiber is next.
    is_random: Cell<bool>,
    /// `true` if fibers may be halted.
    is_halting: Cell<bool>,
    /// The normal fibers.
    staying: RunQueue,
    /// Fibers that have used up their last turn, if fibers are not ordered.
    spent: RunQueue,
    /// If fibers are ordered: those of other priorities.
    prioritized: OnceCell<Box<Prioritized>>,
    /// The number of those that this worker has to itself.
    prioritized_length: OwnLength,
    /// The switch during which a fiber was last put first.
    next_at: Cell<u64>,
    /// Number of successive switches during which a fiber was put first.
    next_in_a_row: Cell<u32>,
}

/// The position among the ready fibers that a normal fiber got if it was appended.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    staying: End,
}

/// The numbers of ready fibers that only their worker knows otherwise, for other threads.
pub(crate) struct Lengths<'a> {
    staying: &'a Length,
    spent: &'a Length,
    prioritized: &'a OwnLength,
}

impl Lengths<'_> {
    pub(crate) fn sum(&self) -> usize {
        self.staying.get() + self.spent.get() + self.prioritized.get()
    }
}

impl Default for Ready {
    fn default() -> Ready {
        Ready::new()
    }
}

impl Ready {
    fn new() -> Ready {
        Ready {
            is_plain: Cell::new(true),
            is_probed: Cell::new(false),
            is_traced: Cell::new(false),
            is_random: Cell::new(false),
            is_halting: Cell::new(false),
            staying: RunQueue::default(),
            spent: RunQueue::default(),
            prioritized: OnceCell::new(),
            prioritized_length: OwnLength::default(),
            next_at: Cell::new(u64::MAX),
            next_in_a_row: Cell::new(0),
        }
    }

    /// Orders the fibers that are added from now on by their priorities.
    pub(crate) fn order(&self, shared: &Arc<SharedPrioritized>) {
        let length = OwnLength::clone(&self.prioritized_length);
        let new = || Box::new(Prioritized::new(Arc::clone(shared), length));
        self.prioritized.get_or_init(new);
        self.is_plain.set(false);
        while let Some(fiber) = self.spent.pop() {
            self.push(fiber);
        }
    }

    /// Returns `true` if fibers are not ordered, and none is spent.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain.get()
    }

    /// Returns `true` if fibers are ordered by their priorities.
    pub(crate) fn is_ordered(&self) -> bool {
        self.prioritized.get().is_some()
    }

    /// Returns the fibers of other priorities than normal, if fibers are ordered.
    pub(crate) fn prioritized(&self) -> Option<&Prioritized> {
        self.prioritized.get().map(Box::as_ref)
    }

    /// Appends a fiber.
    #[inline]
    pub(crate) fn push(&self, fiber: Started) {
        if self.is_plain.get() {
            self.staying.push(fiber);
        } else {
            self.push_by_kind(fiber);
        }
    }

    /// Appends a fiber that has used up its turn, if fibers are not ordered.
    pub(crate) fn push_spent(&self, fiber: Started) {
        if self.is_random.get() {
            return self.staying.push(fiber);
        }
        self.spent.push(fiber);
        self.is_plain.set(false);
    }

    /// Takes a fiber that has used up its last turn.
    pub(crate) fn pop_spent(&self) -> Option<Started> {
        let fiber = self.spent.pop();
        self.record_plain();
        fiber
    }

    /// Records whether fibers are left that have used up their turns.
    fn record_plain(&self) {
        let is_watched = self.is_probed.get() || self.is_traced.get() || self.is_halting.get();
        let others_are_plain = !self.is_ordered() && !is_watched && !self.is_random.get();
        self.is_plain.set(others_are_plain && self.spent.is_empty());
    }

    /// Returns `true` if a fiber has used up its last turn.
    pub(crate) fn has_spent(&self) -> bool {
        !self.is_plain.get() && !self.spent.is_empty()
    }

    /// Appends a fiber if not all are in `staying`.
    fn push_by_kind(&self, fiber: Started) {
        if let Some(prioritized) = self.prioritized.get()
            && fiber.control().limits.priority() != Priority::Normal
        {
            return prioritized.push(fiber);
        }
        self.staying.push(fiber);
    }

    /// Appends a fiber that only this worker may run.
    pub(crate) fn push_staying(&self, fiber: Started) {
        self.staying.push(fiber);
    }

    /// Makes a fiber run next where all [stay](Ready::is_plain), unless that has happened too often in
    /// a row. A fiber that was to run
    /// next moves to the end of the queue. `now` is the number of switches made.
    #[inline]
    pub(crate) fn push_next_plain(&self, fiber: Started, now: u64) {
        let is_first = self.has_no_next(now);
        if self.may_run_next(is_first, now) {
            self.put_first(fiber, is_first);
        } else {
            self.staying.push(fiber);
        }
    }

    /// Returns `true` if another fiber may be put first, the `is_first` since the last switch, and
    /// counts it.
    fn may_run_next(&self, is_first: bool, now: u64) -> bool {
        if is_first && self.next_at.get().wrapping_add(1) != now {
            self.next_in_a_row.set(0);
        }
        if is_first && self.next_in_a_row.get() == NEXT_IN_A_ROW_MAX {
            return false;
        }
        self.next_at.set(now);
        self.next_in_a_row
            .update(|count| count + u32::from(is_first));
        true
    }

    /// Inserts a fiber before the others that stay, in the place of the one that is there unless it
    /// `is_first`.
    #[inline(always)]
    fn put_first(&self, fiber: Started, is_first: bool) {
        let displaced = if is_first { None } else { self.staying.pop() };
        self.staying.push_first(fiber);
        if let Some(displaced) = displaced {
            self.staying.push(displaced);
        }
    }

    /// Makes a fiber run next if not all are in `staying`. Only a normal one comes before
    /// others of its priority.
    pub(crate) fn push_next_by_kind(&self, fiber: Started, now: u64) {
        if fiber.control().limits.priority() != Priority::Normal {
            return self.push_by_kind(fiber);
        }
        let is_first = self.has_no_next(now);
        if !self.may_run_next(is_first, now) {
            return self.push_by_kind(fiber);
        }
        self.put_first(fiber, is_first);
    }

    /// Returns `true` if no fiber was put first since the last switch.
    pub(crate) fn has_no_next(&self, now: u64) -> bool {
        self.next_at.get() != now
    }

    /// Takes the fiber to run next.
    pub(crate) fn pop_staying(&self) -> Option<Started> {
        self.staying.pop()
    }

    /// Takes the normal fiber that would run after so many others.
    pub(crate) fn pop_staying_at(&self, index: u32) -> Option<Started> {
        for _ in 0..index {
            self.staying.push(self.staying.pop()?);
        }
        self.staying.pop()
    }

    /// Takes a fiber of any kind.
    pub(crate) fn pop_any(&self) -> Option<Started> {
        let pop_prioritized = || {
            let prioritized = self.prioritized()?;
            let pop = |priority| prioritized.pop(priority);
            pop(Priority::Urgent).or_else(|| pop(Priority::Background))
        };
        self.pop_staying()
            .or_else(|| self.pop_spent())
            .or_else(pop_prioritized)
    }

    /// Removes a fiber that only this worker may run. Returns `true` if it was in the queue.
    pub(crate) fn take_out(&self, fiber: Started) -> bool {
        let removed = self.staying.remove(fiber)
            || self.spent.remove(fiber)
            || self
                .prioritized()
                .is_some_and(|prioritized| prioritized.remove(fiber));
        self.record_plain();
        removed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.staying.is_empty() && (self.is_plain.get() || self.is_rest_empty())
    }

    fn is_rest_empty(&self) -> bool {
        self.spent.is_empty() && self.prioritized().is_none_or(Prioritized::is_empty)
    }

    /// Returns the number of normal fibers, without those that have used up their last turn if
    /// fibers are not ordered.
    pub(crate) fn normal(&self) -> usize {
        self.staying.length().get()
    }

    /// Returns `true` if there is a normal fiber.
    pub(crate) fn has_normal(&self) -> bool {
        !self.staying.is_empty()
    }

    /// Returns the numbers of fibers, without those that others may steal.
    pub(crate) fn lengths(&self) -> Lengths<'_> {
        Lengths {
            staying: self.staying.length(),
            spent: self.spent.length(),
            prioritized: &self.prioritized_length,
        }
    }

    /// Returns the position of a normal fiber that was appended now.
    pub(crate) fn end(&self) -> Position {
        Position {
            staying: self.staying.end(),
        }
    }

    /// Returns `true` if a fiber at this position would run next among the normal ones.
    pub(crate) fn has_reached(&self, position: Position) -> bool {
        self.staying.has_reached(position.staying)
    }

    /// Records whether a probe has a place among the fibers.
    pub(crate) fn set_probed(&self, is_probed: bool) {
        self.is_probed.set(is_probed);
        self.record_plain();
    }

    /// Records whether the worker records what it does.
    pub(crate) fn set_traced(&self, is_traced: bool) {
        self.is_traced.set(is_traced);
        self.record_plain();
    }

    /// Records that fibers may be halted.
    pub(crate) fn set_halting(&self) {
        self.is_halting.set(true);
        self.record_plain();
    }

    /// Lets a seed decide which fiber is next.
    pub(crate) fn set_random(&self) {
        self.is_random.set(true);
        self.record_plain();
    }

    /// Returns `true` if a seed decides which fiber is next.
    pub(crate) fn is_random(&self) -> bool {
        self.is_random.get()
    }

    /// Returns `true` if a probe has a place among the fibers.
    pub(crate) fn is_probed(&self) -> bool {
        self.is_probed.get()
    }
}

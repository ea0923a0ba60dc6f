//! The limits of a fiber's waits: cancellation, deadlines and shields.
//!
//! ```text
//!   cancelled   set by a handle, at any time, permanently     a shield suspends both
//!   deadline    the earliest of those that are entered        while it is entered
//!   region      the body of a `try_scope`, over once the scope has failed
//! ```
//!
//! Only `cancelled`, and in a simulated world `drifts`, are set by others; the fiber changes the rest as it enters and leaves. A plain
//! thread has limits, too.
//!
//! A priority other than normal counts as a limit, and so does a clock that drifts: calls then take the path
//! on which they look at it, and all other fibers do without a look.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use super::last_worker::LastWorker;
use super::lazy_box::LazyBox;
use crate::priorities::Priority;

/// Set once the fiber is cancelled.
const CANCELLED: u8 = 1;

/// Set while a deadline, a region or a shield is entered. Usually none is, and `inner` is empty as
/// well.
const RESTRICTED: u8 = 2;

/// Set in a fiber of this priority. A normal one has neither.
const URGENT: u8 = 4;
const BACKGROUND: u8 = 8;

/// Set in a fiber of a simulated host whose clock is not that of the timers.
const DRIFTS: u8 = 16;

#[derive(Default)]
#[repr(C)]
pub(crate) struct Limits {
    /// In one word, as nearly every call checks whether there are any. Relaxed throughout: after
    /// setting `CANCELLED`, the canceller ends the fiber's wait, which orders the two; only the
    /// fiber changes the others.
    state: AtomicU8,
    /// `true` while nothing ends the fiber's waits: like a shield, but it takes no memory.
    unending: Cell<bool>,
    /// The worker that others have to ask to end the fiber's operation. Here it takes no memory.
    pub(crate) last_worker: LastWorker,
    inner: LazyBox<Inner>,
}

/// State that few fibers need.
#[derive(Default)]
struct Inner {
    deadline: Cell<Option<Instant>>,
    shields: Cell<u32>,
    region: RefCell<Option<Arc<Region>>>,
    /// Number of calls refused since the current deadline was set.
    refusals: Cell<u32>,
    /// Number of calls since the end of the runtime that should have ended the fiber, and the time
    /// of the first.
    endings: Cell<(u32, Option<Instant>)>,
}

/// A part of a fiber's work that others may end.
struct Region {
    /// Relaxed throughout, like [`Limits::cancelled`].
    over: Arc<AtomicBool>,
    outer: Option<Arc<Region>>,
}

/// The limits before a deadline, a region or a shield was entered.
pub(crate) struct Outer {
    restricted: bool,
    deadline: Option<Instant>,
    shields: u32,
    region: Option<Arc<Region>>,
    refusals: u32,
}

impl Limits {
    /// Creates the limits of a fiber that starts with this deadline.
    pub(crate) fn with_deadline(deadline: Option<Instant>) -> Limits {
        let limits = Limits::default();
        if deadline.is_some() {
            limits.restrict().deadline.set(deadline);
        }
        limits
    }

    /// Cancels the fiber. Returns `true` if it was not cancelled before; the caller then ends its
    /// wait.
    pub(crate) fn cancel(&self) -> bool {
        self.state.fetch_or(CANCELLED, Ordering::Relaxed) & CANCELLED == 0
    }

    /// Returns `true` if there is no state that few fibers need.
    #[inline]
    pub(super) fn is_plain(&mut self) -> bool {
        self.inner.is_empty()
    }

    /// Returns `true` if the fiber may wait without limit and its priority is normal, so that there
    /// is nothing else to check.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.state.load(Ordering::Relaxed) == 0
    }

    /// Records that the timers, which others use as well, go by another clock than the fiber.
    pub(crate) fn set_drifts(&self) {
        self.state.fetch_or(DRIFTS, Ordering::Relaxed);
    }

    /// Returns `true` if the timers go by another clock.
    pub(crate) fn drifts(&self) -> bool {
        self.has(DRIFTS)
    }

    /// Returns the priority of the fiber's present work. Called by the fiber, or by the holder of
    /// the suspended fiber.
    pub(crate) fn priority(&self) -> Priority {
        match self.state.load(Ordering::Relaxed) & (URGENT | BACKGROUND) {
            0 => Priority::Normal,
            URGENT => Priority::Urgent,
            _ => Priority::Background,
        }
    }

    /// Sets the priority, and returns the previous one. Called by the fiber, or before it is queued
    /// for the first time.
    pub(crate) fn set_priority(&self, priority: Priority) -> Priority {
        let before = self.priority();
        let bits = match priority {
            Priority::Urgent => URGENT,
            Priority::Normal => 0,
            Priority::Background => BACKGROUND,
        };
        self.state
            .fetch_and(!(URGENT | BACKGROUND), Ordering::Relaxed);
        self.state.fetch_or(bits, Ordering::Relaxed);
        before
    }

    /// Returns `true` if calls must not wait, whatever the time. `shut_down` is `true` if the
    /// runtime shuts down.
    pub(crate) fn is_cancelled(&self, shut_down: bool) -> bool {
        if self.unending.get() {
            return false;
        }
        let cancelled = shut_down || self.has(CANCELLED);
        match self.restrictions() {
            None => cancelled,
            Some(inner) => cancelled && inner.shields.get() == 0 || inner.is_region_over(),
        }
    }

    /// Returns the deadline, if there is one.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadline = self.restrictions()?.deadline.get();
        deadline.filter(|_| !self.unending.get())
    }

    /// Calls `end`, the last part of a fiber, in which no limit ends its waits.
    pub(super) fn without<R>(&self, end: impl FnOnce() -> R) -> R {
        self.unending.set(true);
        let ended = end();
        self.unending.set(false);
        ended
    }

    /// Counts a refused call and returns the new number.
    pub(crate) fn count_refusal(&self) -> u32 {
        let refusals = &self.inner().refusals;
        refusals.update(|count| count + 1);
        refusals.get()
    }

    /// Counts a call that unwinds the fiber, or should. Returns the new number and the time of the
    /// first such call.
    pub(crate) fn count_ending(&self, now: Instant) -> (u32, Instant) {
        let endings = &self.inner().endings;
        let (count, first) = endings.get();
        let (count, first) = (count + 1, first.unwrap_or(now));
        endings.set((count, Some(first)));
        (count, first)
    }

    /// Sets a deadline, unless the current one is earlier.
    pub(crate) fn enter_deadline(&self, deadline: Instant) -> Outer {
        let outer = self.outer();
        let earlier = outer.deadline.filter(|outer| *outer <= deadline);
        let deadline = earlier.unwrap_or(deadline);
        self.restrict().deadline.set(Some(deadline));
        outer
    }

    /// Enters a region, nested in the current one.
    pub(crate) fn enter_region(&self, over: &Arc<AtomicBool>) -> Outer {
        let outer = self.outer();
        let region = Region {
            over: Arc::clone(over),
            outer: outer.region.clone(),
        };
        *self.restrict().region.borrow_mut() = Some(Arc::new(region));
        outer
    }

    /// Enters a shield, which suspends all limits.
    pub(crate) fn enter_shield(&self) -> Outer {
        let outer = self.outer();
        let inner = self.restrict();
        inner.deadline.set(None);
        inner.shields.set(outer.shields + 1);
        *inner.region.borrow_mut() = None;
        outer
    }

    /// Restores the previous limits.
    pub(crate) fn leave(&self, outer: Outer) {
        let inner = self.inner();
        if !outer.restricted {
            self.state.fetch_and(!RESTRICTED, Ordering::Relaxed);
        }
        inner.deadline.set(outer.deadline);
        inner.shields.set(outer.shields);
        *inner.region.borrow_mut() = outer.region;
        inner.refusals.set(outer.refusals);
    }

    fn outer(&self) -> Outer {
        let inner = self.inner();
        Outer {
            restricted: self.has(RESTRICTED),
            deadline: inner.deadline.get(),
            shields: inner.shields.get(),
            region: inner.region.borrow().clone(),
            refusals: inner.refusals.replace(0),
        }
    }

    fn restrictions(&self) -> Option<&Inner> {
        self.has(RESTRICTED).then(|| self.inner())
    }

    fn restrict(&self) -> &Inner {
        self.state.fetch_or(RESTRICTED, Ordering::Relaxed);
        self.inner()
    }

    fn has(&self, flag: u8) -> bool {
        self.state.load(Ordering::Relaxed) & flag != 0
    }

    fn inner(&self) -> &Inner {
        self.inner.get_or_default()
    }
}

impl Inner {
    fn is_region_over(&self) -> bool {
        let region = self.region.borrow();
        region.as_ref().is_some_and(|region| region.is_over())
    }
}

impl Region {
    fn is_over(&self) -> bool {
        let outer = self.outer.as_ref();
        self.over.load(Ordering::Relaxed) || outer.is_some_and(|outer| outer.is_over())
    }
}

//! Whether, and until when, the calls of a fiber may wait.
//!
//! ```text
//!   cancelled   by a handle, at any time, for good      a shield holds both off
//!   deadline    the earliest of those it is in          while the fiber is in it
//!   region      what the fiber does in `try_scope`, over once that has failed
//! ```
//!
//! All but the first is the fiber's own, and changes as it enters and leaves. A plain thread has limits too.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Limits {
    /// Relaxed throughout: whoever sets it goes on to end the fiber's wait, which orders the two.
    cancelled: AtomicBool,
    deadline: Cell<Option<Instant>>,
    shields: Cell<u32>,
    region: RefCell<Option<Arc<Region>>>,
    /// Calls refused since the present deadline was set.
    refusals: Cell<u32>,
}

/// A part of what a fiber does, which others may end.
struct Region {
    /// Relaxed throughout, as [`Limits::cancelled`].
    over: Arc<AtomicBool>,
    outer: Option<Arc<Region>>,
}

/// The limits before a deadline, a region or a shield was entered.
pub(crate) struct Outer {
    deadline: Option<Instant>,
    shields: u32,
    region: Option<Arc<Region>>,
    refusals: u32,
}

impl Limits {
    /// Those of a fiber that begins with this deadline.
    pub(crate) fn with_deadline(deadline: Option<Instant>) -> Limits {
        let limits = Limits::default();
        limits.deadline.set(deadline);
        limits
    }

    /// Ends what the fiber does; whether that is news. The caller then ends its wait.
    pub(crate) fn cancel(&self) -> bool {
        !self.cancelled.swap(true, Ordering::Relaxed)
    }

    /// Whether the fiber's handle has asked for its end, shielded or not.
    #[inline(always)]
    pub(crate) fn is_cancel_requested(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether calls shall not wait, whatever the time; `shut_down` says whether the runtime is.
    #[inline(always)]
    pub(crate) fn is_cancelled(&self, shut_down: bool) -> bool {
        (shut_down || self.is_cancel_requested()) && !self.is_shielded() || self.is_region_over()
    }

    #[inline(always)]
    fn is_shielded(&self) -> bool {
        self.shields.get() > 0
    }

    #[inline(always)]
    fn is_region_over(&self) -> bool {
        let region = self.region.borrow();
        region.as_ref().is_some_and(|region| region.is_over())
    }

    /// When calls stop to wait, if ever.
    #[inline(always)]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Counts a call that was refused: how many those are.
    pub(crate) fn count_refusal(&self) -> u32 {
        self.refusals.update(|count| count + 1);
        self.refusals.get()
    }

    /// Lets calls wait until `deadline` at most, and never longer than before.
    pub(crate) fn enter_deadline(&self, deadline: Instant) -> Outer {
        let outer = self.outer();
        let earlier = outer.deadline.filter(|outer| *outer <= deadline);
        self.deadline.set(Some(earlier.unwrap_or(deadline)));
        outer
    }

    /// Begins a region, which is in the present one.
    pub(crate) fn enter_region(&self, over: &Arc<AtomicBool>) -> Outer {
        let outer = self.outer();
        let region = Region {
            over: Arc::clone(over),
            outer: outer.region.clone(),
        };
        *self.region.borrow_mut() = Some(Arc::new(region));
        outer
    }

    /// Lets calls wait as if there were no limits.
    pub(crate) fn enter_shield(&self) -> Outer {
        let outer = self.outer();
        self.deadline.set(None);
        self.shields.set(outer.shields + 1);
        *self.region.borrow_mut() = None;
        outer
    }

    /// Goes back to the limits of before.
    pub(crate) fn leave(&self, outer: Outer) {
        self.deadline.set(outer.deadline);
        self.shields.set(outer.shields);
        *self.region.borrow_mut() = outer.region;
        self.refusals.set(outer.refusals);
    }

    fn outer(&self) -> Outer {
        Outer {
            deadline: self.deadline.get(),
            shields: self.shields.get(),
            region: self.region.borrow().clone(),
            refusals: self.refusals.replace(0),
        }
    }
}

impl Region {
    fn is_over(&self) -> bool {
        let outer = self.outer.as_ref();
        self.over.load(Ordering::Relaxed) || outer.is_some_and(|outer| outer.is_over())
    }
}

//! Whether, and until when, the calls of a fiber may wait.
//!
//! ```text
//!   cancelled   by a handle, at any time, for good      a shield holds both off
//!   deadline    the earliest of those it is in          while the fiber is in it
//!   region      what the fiber does in `try_scope`, over once that has failed
//! ```
//!
//! All but the first is the fiber's own, and changes as it enters and leaves. A plain thread has limits too.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Limits {
    /// Relaxed throughout: whoever sets it goes on to end the fiber's wait, which orders the two.
    cancelled: AtomicBool,
    /// Whether the fiber is within a deadline, a region or a shield: mostly it is not, and has no `inner` either.
    restricted: Cell<bool>,
    inner: OnceCell<Box<Inner>>,
}

/// What few fibers have.
#[derive(Default)]
struct Inner {
    deadline: Cell<Option<Instant>>,
    shields: Cell<u32>,
    region: RefCell<Option<Arc<Region>>>,
    /// Calls refused since the present deadline was set.
    refusals: Cell<u32>,
    /// Calls since the end of the runtime that should have ended the fiber, and when the first was.
    endings: Cell<(u32, Option<Instant>)>,
}

/// A part of what a fiber does, which others may end.
struct Region {
    /// Relaxed throughout, as [`Limits::cancelled`].
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
    /// Those of a fiber that begins with this deadline.
    pub(crate) fn with_deadline(deadline: Option<Instant>) -> Limits {
        let limits = Limits::default();
        if deadline.is_some() {
            limits.restrict().deadline.set(deadline);
        }
        limits
    }

    /// Ends what the fiber does; whether that is news. The caller then ends its wait.
    pub(crate) fn cancel(&self) -> bool {
        !self.cancelled.swap(true, Ordering::Relaxed)
    }

    /// Whether there is anything to look at: false for a fiber that may wait as long as it likes.
    #[inline(always)]
    pub(crate) fn are_any(&self) -> bool {
        self.restricted.get() || self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether calls shall not wait, whatever the time; `shut_down` says whether the runtime is.
    pub(crate) fn is_cancelled(&self, shut_down: bool) -> bool {
        let cancelled = shut_down || self.cancelled.load(Ordering::Relaxed);
        match self.restrictions() {
            None => cancelled,
            Some(inner) => cancelled && inner.shields.get() == 0 || inner.is_region_over(),
        }
    }

    /// When calls stop to wait, if ever.
    #[inline(always)]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.restrictions().and_then(|inner| inner.deadline.get())
    }

    /// Counts a call that was refused: how many those are.
    pub(crate) fn count_refusal(&self) -> u32 {
        let refusals = &self.inner().refusals;
        refusals.update(|count| count + 1);
        refusals.get()
    }

    /// Counts a call, at this time, that unwinds the fiber, or would: how many those are, and when the first was.
    pub(crate) fn count_ending(&self, now: Instant) -> (u32, Instant) {
        let endings = &self.inner().endings;
        let (count, first) = endings.get();
        let (count, first) = (count + 1, first.unwrap_or(now));
        endings.set((count, Some(first)));
        (count, first)
    }

    /// Lets calls wait until `deadline` at most, and never longer than before.
    pub(crate) fn enter_deadline(&self, deadline: Instant) -> Outer {
        let outer = self.outer();
        let earlier = outer.deadline.filter(|outer| *outer <= deadline);
        let deadline = earlier.unwrap_or(deadline);
        self.restrict().deadline.set(Some(deadline));
        outer
    }

    /// Begins a region, which is in the present one.
    pub(crate) fn enter_region(&self, over: &Arc<AtomicBool>) -> Outer {
        let outer = self.outer();
        let region = Region {
            over: Arc::clone(over),
            outer: outer.region.clone(),
        };
        *self.restrict().region.borrow_mut() = Some(Arc::new(region));
        outer
    }

    /// Lets calls wait as if there were no limits.
    pub(crate) fn enter_shield(&self) -> Outer {
        let outer = self.outer();
        let inner = self.restrict();
        inner.deadline.set(None);
        inner.shields.set(outer.shields + 1);
        *inner.region.borrow_mut() = None;
        outer
    }

    /// Goes back to the limits of before.
    pub(crate) fn leave(&self, outer: Outer) {
        let inner = self.inner();
        self.restricted.set(outer.restricted);
        inner.deadline.set(outer.deadline);
        inner.shields.set(outer.shields);
        *inner.region.borrow_mut() = outer.region;
        inner.refusals.set(outer.refusals);
    }

    fn outer(&self) -> Outer {
        let inner = self.inner();
        Outer {
            restricted: self.restricted.get(),
            deadline: inner.deadline.get(),
            shields: inner.shields.get(),
            region: inner.region.borrow().clone(),
            refusals: inner.refusals.replace(0),
        }
    }

    #[inline(always)]
    fn restrictions(&self) -> Option<&Inner> {
        self.restricted.get().then(|| self.inner())
    }

    fn restrict(&self) -> &Inner {
        self.restricted.set(true);
        self.inner()
    }

    fn inner(&self) -> &Inner {
        self.inner.get_or_init(Box::default)
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

//! The life of a runtime: whether it shuts down, what becomes of the fibers that are left, and how
//! many of its workers have ended.

use std::mem;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::abandonment::{Abandonment, Decision};
use crate::atomic::lock;
use crate::fiber::FiberRef;

/// Set once the runtime shuts down.
const SHUT_DOWN: u8 = 1;

/// Set if the runtime shuts down once no fiber is left.
const JOINING: u8 = 2;

/// Set from the moment at which a fiber has a priority other than normal.
const ORDERED: u8 = 4;

/// Set from the moment at which some workers may be inactive.
const RESIZED: u8 = 8;

#[derive(Default)]
pub(super) struct Life {
    /// The flags [`SHUT_DOWN`], [`JOINING`], [`ORDERED`] and [`RESIZED`], in one word, so that one
    /// test for all of them suffices.
    state: AtomicU8,
    abandonment: Arc<Decision>,
    /// Abandoned fibers. Their joiners have to wait until no worker of this runtime runs.
    abandoned: Mutex<Vec<FiberRef>>,
    /// Number of workers that have ended.
    ended: AtomicUsize,
}

impl Life {
    pub(super) fn abandonment(&self) -> &Arc<Decision> {
        &self.abandonment
    }

    /// Records that the workers order fibers by their priorities.
    pub(super) fn begin_ordering(&self) {
        if self.state.load(Ordering::Relaxed) & ORDERED == 0 {
            self.state.fetch_or(ORDERED, Ordering::Release);
        }
    }

    /// Records that some workers may be inactive.
    pub(super) fn begin_resizing(&self) {
        self.state.fetch_or(RESIZED, Ordering::Release);
    }

    /// Returns `true` if the runtime shuts down, if the workers order fibers, or if some of them may
    /// be inactive.
    pub(super) fn is_unusual(&self) -> bool {
        // Relaxed: a caller that acts on it looks again.
        self.state.load(Ordering::Relaxed) & (SHUT_DOWN | ORDERED | RESIZED) != 0
    }

    pub(super) fn shut_down(&self) {
        self.state.fetch_or(SHUT_DOWN, Ordering::Release);
    }

    pub(super) fn is_shut_down(&self) -> bool {
        // Acquire pairs with the release in `shut_down`.
        self.state.load(Ordering::Acquire) & SHUT_DOWN != 0
    }

    pub(super) fn join(&self) {
        self.state.fetch_or(JOINING, Ordering::Release);
    }

    pub(super) fn is_joining(&self) -> bool {
        // Acquire pairs with the release in `join`.
        self.state.load(Ordering::Acquire) & JOINING != 0
    }

    /// Returns `true` if the runtime neither shuts down nor is about to.
    pub(super) fn is_running(&self) -> bool {
        // Acquire pairs with the releases in `shut_down` and `join`.
        self.state.load(Ordering::Acquire) & (SHUT_DOWN | JOINING) == 0
    }

    pub(super) fn abandon(&self, abandonment: Abandonment) {
        self.abandonment.make(abandonment);
    }

    /// Keeps a fiber that is never resumed.
    pub(super) fn keep_abandoned(&self, fiber: FiberRef) {
        lock(&self.abandoned).push(fiber);
    }

    /// Takes the fibers that were kept.
    pub(super) fn take_abandoned(&self) -> Vec<FiberRef> {
        mem::take(&mut *lock(&self.abandoned))
    }

    /// Counts a worker that has ended, and returns the number of those.
    pub(super) fn count_worker_end(&self) -> usize {
        // AcqRel: the last worker sees the fibers that the others have kept.
        self.ended.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the number of workers that have ended.
    pub(super) fn ended_workers(&self) -> usize {
        // Acquire pairs with the release in `count_worker_end`.
        self.ended.load(Ordering::Acquire)
    }
}

//! The running fibers of a scope, and the parent that waits for them.

use std::mem::offset_of;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use slab::Slab;

use super::{Control, FiberRef, Payload, WakeHandle, cancel, is_cut_off};

use crate::atomic::lock;

pub(crate) struct Children {
    running: AtomicUsize,
    /// Number of fibers whose panic was not taken by a join.
    panicked: AtomicUsize,
    /// Number of fibers that were cancelled and not joined.
    cut_off: AtomicUsize,
    members: Mutex<Members>,
    parent: WakeHandle,
    /// The id of the parent, for a debugger. `None` if that is a thread.
    parent_id: Option<NonZeroU64>,
}

/// Where the id of the parent is in what an `Arc` points to, for a debugger: behind the two counts.
pub(super) const PARENT_ID_AT: usize = 2 * size_of::<usize>() + offset_of!(Children, parent_id);

#[derive(Default)]
struct Members {
    /// The running fibers, to be cancelled. Bounded by the number of fibers that the scope has
    /// spawned.
    running: Slab<FiberRef>,
    /// `true` once the fibers were cancelled: those that are spawned later are as well.
    cancelled: bool,
}

impl Children {
    pub(crate) fn new(parent: WakeHandle) -> Children {
        Children {
            running: AtomicUsize::new(0),
            panicked: AtomicUsize::new(0),
            cut_off: AtomicUsize::new(0),
            members: Mutex::default(),
            parent_id: match &parent {
                WakeHandle::Fiber(fiber) => Some(fiber.control().id()),
                WakeHandle::Thread(..) => None,
            },
            parent,
        }
    }

    /// Adds a fiber that has not started.
    pub(super) fn admit(&self, fiber: &FiberRef) {
        // Relaxed: only fibers of the scope spawn into it, and each of them is counted already.
        self.running.fetch_add(1, Ordering::Relaxed);
        let mut members = self.members();
        let index = members.running.insert(FiberRef::clone(fiber));
        let cancelled = members.cancelled;
        drop(members);
        if cancelled {
            fiber.control().limits.cancel();
        }
        let index = u32::try_from(index).expect("4 billion fibers exhaust memory");
        fiber.control().index_in_scope.set(index);
    }

    /// Counts a fiber that ends by unwinding.
    pub(super) fn acknowledge_end(&self, payload: &Payload) {
        // Relaxed: read after `all_ended`, which orders it.
        self.count_of(payload).fetch_add(1, Ordering::Relaxed);
    }

    /// Discounts a fiber whose payload a join has returned.
    pub(crate) fn take_end(&self, payload: &Payload) {
        self.count_of(payload).fetch_sub(1, Ordering::Relaxed);
    }

    fn count_of(&self, payload: &Payload) -> &AtomicUsize {
        if is_cut_off(payload) {
            &self.cut_off
        } else {
            &self.panicked
        }
    }

    /// Removes a fiber that has ended.
    pub(super) fn discharge(&self, control: &Control) {
        let member = self
            .members()
            .running
            .remove(control.index_in_scope.get() as usize);
        drop(member);
        // Release pairs with the acquire in `all_ended`: all effects of the child are visible then.
        if self.running.fetch_sub(1, Ordering::Release) == 1 {
            self.parent.wake();
        }
    }

    /// Returns the parent that waits for the fibers.
    pub(crate) fn parent(&self) -> &WakeHandle {
        &self.parent
    }

    /// Returns the id of the parent, if that is a fiber.
    pub(super) fn parent_id(&self) -> Option<NonZeroU64> {
        self.parent_id
    }

    /// Cancels all running fibers, and those that are added later.
    pub(crate) fn cancel(&self) {
        let mut members = self.members();
        members.cancelled = true;
        let running: Vec<_> = members
            .running
            .iter()
            .map(|(_, fiber)| fiber.clone())
            .collect();
        drop(members);
        running.iter().for_each(cancel);
    }

    /// Returns `true` if all fibers have ended; their effects are visible then.
    pub(crate) fn all_ended(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// Returns `true` if a fiber has panicked and was not joined. Meaningful once all have ended.
    pub(crate) fn panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed) > 0
    }

    /// Returns `true` if a fiber was cancelled and not joined. Meaningful once all have ended.
    pub(crate) fn any_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed) > 0
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        lock(&self.members)
    }
}

//! The fibers of a scope that have not ended, and who waits for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slab::Slab;

use super::{Control, FiberRef, Payload, WakeHandle, cancel, is_cut_off};

pub(crate) struct Children {
    running: AtomicUsize,
    /// Fibers whose panic nobody has taken by joining.
    panicked: AtomicUsize,
    /// Fibers that were cut off, and not joined either.
    cut_off: AtomicUsize,
    /// Those that run, to be cancelled. As many as the scope has spawned.
    members: Mutex<Slab<FiberRef>>,
    parent: WakeHandle,
}

impl Children {
    pub(crate) fn new(parent: WakeHandle) -> Children {
        Children {
            running: AtomicUsize::new(0),
            panicked: AtomicUsize::new(0),
            cut_off: AtomicUsize::new(0),
            members: Mutex::default(),
            parent,
        }
    }

    /// Takes in a fiber that nobody runs yet.
    pub(super) fn admit(&self, fiber: &FiberRef) {
        // Relaxed: only the scope's own fibers spawn into it, and each is counted already.
        self.running.fetch_add(1, Ordering::Relaxed);
        let place = self.members().insert(FiberRef::clone(fiber));
        fiber.control().place_in_scope.set(place);
    }

    /// Counts a fiber that ends by unwinding.
    pub(super) fn acknowledge_end(&self, payload: &Payload) {
        // Relaxed: read after `have_ended`, which orders it.
        self.count_of(payload).fetch_add(1, Ordering::Relaxed);
    }

    /// A join has handed to its caller what that fiber's end carried.
    pub(crate) fn take_end(&self, payload: &Payload) {
        self.count_of(payload).fetch_sub(1, Ordering::Relaxed);
    }

    fn count_of(&self, payload: &Payload) -> &AtomicUsize {
        match is_cut_off(payload) {
            true => &self.cut_off,
            false => &self.panicked,
        }
    }

    /// Lets a fiber go that has ended.
    pub(super) fn discharge(&self, control: &Control) {
        let member = self.members().remove(control.place_in_scope.get());
        drop(member);
        // Release pairs with the Acquire in `have_ended`: all that the child did is visible then.
        if self.running.fetch_sub(1, Ordering::Release) == 1 {
            self.parent.wake();
        }
    }

    /// Who waits for them.
    pub(crate) fn parent(&self) -> &WakeHandle {
        &self.parent
    }

    /// Cancels all that run.
    pub(crate) fn cancel(&self) {
        let members: Vec<_> = self
            .members()
            .iter()
            .map(|(_, fiber)| fiber.clone())
            .collect();
        members.iter().for_each(cancel);
    }

    /// Whether all have ended; their effects are visible then.
    pub(crate) fn have_ended(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// Whether one has panicked unjoined. Meaningful once all have ended.
    pub(crate) fn panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed) > 0
    }

    /// Whether one was cut off unjoined. Meaningful once all have ended.
    pub(crate) fn were_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed) > 0
    }

    fn members(&self) -> MutexGuard<'_, Slab<FiberRef>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

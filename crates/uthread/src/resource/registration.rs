//! What a ring keeps for us, each thing at a slot in a table of its kind.
//!
//! Whoever drops the [`Registration`] of a thing, on any thread, leaves it with the ring's [`Reclaimer`]. From there the
//! ring's owner takes it, which alone may have the ring forget it, and only then it is gone.

use std::fmt;
use std::mem;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::pages::Pages;

/// Collects the resources that nobody uses any more, for the owner of their ring.
pub(crate) struct Reclaimer {
    number: NonZeroU32,
    owner: ThreadId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bounded by what the ring keeps.
    retired: Vec<(u16, Resource)>,
    /// Ends the sleep of the owner, once it has set that up.
    wake: Option<Box<dyn Fn() + Send>>,
    /// Whether the ring is gone.
    is_closed: bool,
}

/// A thing that a ring keeps.
pub(crate) enum Resource {
    /// A group of buffers that it fills.
    Group(Pages),
    /// Memory whose pages it has looked up.
    Buffer(Pages),
    /// A file.
    File,
    /// Nothing, at a slot for a file.
    Nothing,
    /// A poll that stands for a connection, by its key; at no slot.
    Poll(u32),
}

/// The use of what a ring keeps at this slot.
pub(crate) struct Registration {
    reclaimer: Arc<Reclaimer>,
    slot: u16,
    /// Empty only in the end.
    resource: Option<Resource>,
}

impl Reclaimer {
    /// Of a new ring, which the calling thread owns.
    pub(crate) fn new() -> Reclaimer {
        // Relaxed: it only has to be unique.
        static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NonZeroU32::new(NEXT_NUMBER.fetch_add(1, Ordering::Relaxed));
        Reclaimer {
            number: number.expect("no program has billions of rings"),
            owner: thread::current().id(),
            state: Mutex::default(),
        }
    }

    /// What no other ring has.
    pub(crate) fn number(&self) -> NonZeroU32 {
        self.number
    }

    /// Says how the owner's sleep is ended.
    pub(crate) fn set_wake(&self, wake: Box<dyn Fn() + Send>) {
        self.lock().wake = Some(wake);
    }

    /// Takes over what nobody uses any more.
    pub(crate) fn take_retired(&self) -> Vec<(u16, Resource)> {
        mem::take(&mut self.lock().retired)
    }

    /// From now on nobody asks for what is left.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.wake = None;
    }

    fn retire(&self, slot: u16, resource: Resource) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        let is_first = state.retired.is_empty();
        state.retired.push((slot, resource));
        // The owner looks before it sleeps, so it has to be told only by others; and once, until it has looked.
        if let Some(wake) = &state.wake
            && is_first
            && !self.is_owner()
        {
            wake();
        }
    }

    /// Never inlined, as every access to a thread-local that fibers make.
    #[inline(never)]
    fn is_owner(&self) -> bool {
        thread::current().id() == self.owner
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    pub(crate) fn new(reclaimer: &Arc<Reclaimer>, slot: u16, resource: Resource) -> Registration {
        Registration {
            reclaimer: Arc::clone(reclaimer),
            slot,
            resource: Some(resource),
        }
    }

    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    /// The number of its ring, and the slot there.
    pub(crate) fn in_ring(&self) -> (NonZeroU32, u16) {
        (self.ring(), self.slot)
    }

    /// The number of its ring.
    pub(crate) fn ring(&self) -> NonZeroU32 {
        self.reclaimer.number()
    }

    /// The key of the poll that it is.
    pub(crate) fn poll(&self) -> Option<u32> {
        match self.resource {
            Some(Resource::Poll(key)) => Some(key),
            _ => None,
        }
    }

    /// Records that there is, or may be, a file at its slot, where nothing was.
    pub(crate) fn set_file(&mut self) {
        self.resource = Some(Resource::File);
    }

    /// Where the memory is.
    pub(crate) fn start(&self) -> NonNull<u8> {
        match self.resource.as_ref().expect("it is not dropped") {
            Resource::Group(pages) | Resource::Buffer(pages) => pages.start(),
            Resource::File | Resource::Nothing | Resource::Poll(_) => {
                unreachable!("it is no memory")
            }
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ring, slot) = self.in_ring();
        write!(formatter, "{slot} in ring {ring}")
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let resource = self.resource.take().expect("it is dropped once");
        self.reclaimer.retire(self.slot, resource);
    }
}

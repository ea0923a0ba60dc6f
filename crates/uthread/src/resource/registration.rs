//! Resources registered with a ring, each at a slot in the table of its kind.
//!
//! A [`Registration`] may be dropped on any thread. This passes the resource to the ring's
//! [`Reclaimer`]. The ring's owner collects it there, as it alone may unregister it from the ring,
//! and frees it afterwards.

use std::fmt;
use std::mem;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use super::pages::Pages;

use crate::atomic::lock;

/// Collects unused resources for the owner of their ring.
pub(crate) struct Reclaimer {
    number: NonZeroU32,
    owner: ThreadId,
    state: Mutex<RetiredResources>,
}

#[derive(Default)]
struct RetiredResources {
    /// Bounded by the number of resources registered with the ring.
    retired: Vec<(u16, Resource)>,
    /// Wakes the owner, once it has set this up.
    wake: Option<Box<dyn Fn() + Send>>,
    /// `true` once the ring is gone.
    is_closed: bool,
}

/// A resource registered with a ring.
pub(crate) enum Resource {
    /// A group of buffers that the ring fills.
    Group(Pages),
    /// Registered memory.
    Buffer(Pages),
    /// A file.
    File,
    /// An empty slot in the table of files.
    Nothing,
}

/// The use of a resource registered at a slot of a ring.
pub(crate) struct Registration {
    reclaimer: Arc<Reclaimer>,
    slot: u16,
    /// `None` only during drop.
    resource: Option<Resource>,
}

impl Reclaimer {
    /// Creates the reclaimer of a new ring, which the calling thread owns.
    pub(crate) fn new() -> Reclaimer {
        // Relaxed: the number only has to be unique.
        static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NonZeroU32::new(NEXT_NUMBER.fetch_add(1, Ordering::Relaxed));
        Reclaimer {
            number: number.expect("no program has billions of rings"),
            owner: thread::current().id(),
            state: Mutex::default(),
        }
    }

    /// Returns the number of the ring, which is unique.
    pub(crate) fn number(&self) -> NonZeroU32 {
        self.number
    }

    /// Sets the function that wakes the owner.
    pub(crate) fn set_wake(&self, wake: Box<dyn Fn() + Send>) {
        self.lock().wake = Some(wake);
    }

    /// Takes the unused resources.
    pub(crate) fn take_retired(&self) -> Vec<(u16, Resource)> {
        mem::take(&mut self.lock().retired)
    }

    /// Records that the ring is gone, so that nothing is collected any more.
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
        // The owner checks before it sleeps, so only other threads have to wake it, and only once
        // until it has checked.
        if let Some(wake) = &state.wake
            && is_first
            && !self.is_owner()
        {
            wake();
        }
    }

    /// Returns `true` if the calling thread is the owner. Never inlined, like every access to a
    /// thread-local that fibers make.
    #[inline(never)]
    fn is_owner(&self) -> bool {
        thread::current().id() == self.owner
    }

    fn lock(&self) -> MutexGuard<'_, RetiredResources> {
        lock(&self.state)
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

    /// Returns the number of the ring, and the slot.
    pub(crate) fn in_ring(&self) -> (NonZeroU32, u16) {
        (self.ring(), self.slot)
    }

    /// Returns the number of the ring.
    pub(crate) fn ring(&self) -> NonZeroU32 {
        self.reclaimer.number()
    }

    /// Records that there may be a file in the slot, which was empty.
    pub(crate) fn set_file(&mut self) {
        self.resource = Some(Resource::File);
    }

    /// Returns the start of the memory.
    pub(crate) fn start(&self) -> NonNull<u8> {
        match self
            .resource
            .as_ref()
            .expect("the registration is not dropped")
        {
            Resource::Group(pages) | Resource::Buffer(pages) => pages.start(),
            Resource::File | Resource::Nothing => unreachable!("the resource is no memory"),
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
        let resource = self
            .resource
            .take()
            .expect("the registration is dropped once");
        self.reclaimer.retire(self.slot, resource);
    }
}

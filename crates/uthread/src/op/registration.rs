//! What a ring keeps for us, each thing at a place in a table of its kind.
//!
//! Whoever drops the [`Registration`] of a thing, on any thread, leaves it with the ring's [`Home`]. From there the
//! ring's owner takes it, which alone may have the ring forget it, and only then it is gone.

use std::mem;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pages::Pages;

/// Of one ring: what nobody uses any more. Bounded by what the ring keeps.
#[derive(Default)]
pub(crate) struct Home {
    retired: Mutex<Vec<(u16, Kept)>>,
}

/// A thing that a ring keeps.
pub(crate) enum Kept {
    /// A group of buffers that it fills.
    Group(Pages),
    /// Memory whose pages it has looked up.
    Buffer(Pages),
}

/// The use of what a ring keeps at this place.
pub(crate) struct Registration {
    home: Arc<Home>,
    place: u16,
    /// Empty only in the end.
    kept: Option<Kept>,
}

impl Home {
    /// Takes over what nobody uses any more.
    pub(crate) fn take_retired(&self) -> Vec<(u16, Kept)> {
        mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u16, Kept)>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    pub(crate) fn new(home: &Arc<Home>, place: u16, kept: Kept) -> Registration {
        Registration {
            home: Arc::clone(home),
            place,
            kept: Some(kept),
        }
    }

    pub(crate) fn place(&self) -> u16 {
        self.place
    }

    /// Whether it is of the ring with this home.
    pub(crate) fn is_of(&self, home: &Arc<Home>) -> bool {
        Arc::ptr_eq(&self.home, home)
    }

    /// Where the memory is.
    pub(crate) fn start(&self) -> NonNull<u8> {
        match self.kept.as_ref().expect("it is not dropped") {
            Kept::Group(pages) | Kept::Buffer(pages) => pages.start(),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let kept = self.kept.take().expect("it is dropped once");
        self.home.lock().push((self.place, kept));
    }
}

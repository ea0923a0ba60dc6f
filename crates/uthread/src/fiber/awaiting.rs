//! What a parked fiber waits for, as far as one fiber has to bring it: a word at the high end of its
//! stack.

use std::num::NonZeroU64;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Control;
use crate::root::Awaited;

/// What a fiber is about to wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaiting<'a> {
    /// A lock, by its state.
    Lock(&'a AtomicU32),
    /// The end of the fiber with this id.
    End(NonZeroU64),
    /// The end of a fiber that has a thread of its own, by the id of that, which is zero before it
    /// has begun.
    Thread(&'a AtomicU32),
}

impl Awaiting<'_> {
    fn word(self) -> u64 {
        let address = |word: &AtomicU32| ptr::from_ref(word).expose_provenance() as u64;
        match self {
            Awaiting::Lock(state) => Awaited::Lock(address(state)),
            Awaiting::End(id) => Awaited::End(id.get()),
            Awaiting::Thread(id) => Awaited::Thread(address(id)),
        }
        .to_word()
    }
}

impl Control {
    /// Sets what the fiber, which calls this, waits for.
    #[inline]
    pub(crate) fn set_awaiting(&self, what: Option<Awaiting<'_>>) {
        // A fiber that is a thread has no stack of its own.
        if let Some(word) = self.awaited_word() {
            word.set(what.map_or(0, Awaiting::word));
        }
    }

    /// Returns what the fiber waits for, with the present value of the word that this refers to.
    /// Called for a parked fiber by its worker, between two fibers.
    #[allow(unsafe_code, reason = "a word on which another stack has a reference")]
    pub(super) fn awaited(&self) -> Option<(Awaited, u32)> {
        let awaited = Awaited::of_word(self.awaited_word()?.get())?;
        let (Awaited::Lock(address) | Awaited::Thread(address)) = awaited else {
            return Some((awaited, 0));
        };
        let word = ptr::with_exposed_provenance::<AtomicU32>(address as usize);
        // SAFETY: the fiber is suspended in a wait whose caller has a reference to the word, and
        // stays suspended until its worker resumes it.
        let word = unsafe { &*word };
        Some((awaited, word.load(Ordering::Relaxed)))
    }
}

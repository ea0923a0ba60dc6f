//! Whether others may take what arrives for a worker, where fibers migrate. Kept under the lock of its desk.
//!
//! What arrives ends the owner's sleep, and so do wake-ups, which arrive the same way. A thief that took a
//! wake-up out while its owner is on the way to sleep would take the sleep's end away. So the owner closes
//! the door before it sleeps, and learns then whether a wake-up was taken.

/// It is open at first.
#[derive(Debug, Default)]
pub(crate) struct Door {
    closed: bool,
    wake_up_taken: bool,
}

impl Door {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Another worker has taken a wake-up.
    pub(crate) fn note_wake_up(&mut self) {
        self.wake_up_taken = true;
    }

    /// The owner is about to sleep; false if it was woken already, and must not.
    pub(crate) fn close(&mut self) -> bool {
        self.closed = true;
        !std::mem::take(&mut self.wake_up_taken)
    }

    /// The owner is up again.
    pub(crate) fn open(&mut self) {
        self.closed = false;
    }
}

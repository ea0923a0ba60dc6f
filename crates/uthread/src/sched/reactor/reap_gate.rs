//! Controls whether other workers may reap a worker's completions, if fibers migrate. Guarded by
//! the reactor's lock.
//!
//! A completion ends the owner's sleep, and so does a wake-up, which arrives the same way. A thief
//! that reaped a wake-up while the owner is about to sleep would lose it. So the owner closes the
//! gate before it sleeps, and learns then whether a wake-up was reaped.

/// Open at first.
#[derive(Debug, Default)]
pub(crate) struct ReapGate {
    closed: bool,
    wake_up_reaped: bool,
}

impl ReapGate {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Records that another worker has reaped a wake-up.
    pub(crate) fn record_wake_up(&mut self) {
        self.wake_up_reaped = true;
    }

    /// Closes the gate before the owner sleeps. Returns `false` if the owner was already woken and
    /// must not sleep.
    pub(crate) fn close(&mut self) -> bool {
        self.closed = true;
        !std::mem::take(&mut self.wake_up_reaped)
    }

    /// Opens the gate after the owner has woken up.
    pub(crate) fn open(&mut self) {
        self.closed = false;
    }
}

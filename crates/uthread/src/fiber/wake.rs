//! Whether a fiber may sleep: a token, as in `std::thread::park`.
//!
//! ```text
//!              wake                      switch away
//!   NOTIFIED <------ RUNNING ------------------------------> PARKED
//!      |                ^    (refused when NOTIFIED)            |
//!      |   park         |                                       | wake: the waker
//!      +----------------+<---------- NOTIFIED <-----------------+ enqueues the fiber
//! ```
//!
//! PARKED is entered by the worker after the switch, never by the fiber before it, so that a
//! fiber found PARKED has left its stack and can be resumed anywhere.

use crate::atomic::{AtomicU8, Ordering};

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

pub(crate) struct WakeToken {
    state: AtomicU8,
}

impl WakeToken {
    pub(crate) fn new() -> WakeToken {
        WakeToken {
            state: AtomicU8::new(RUNNING),
        }
    }

    /// Leaves a token; true if the fiber was parked, so that the caller must enqueue it.
    pub(crate) fn leave(&self) -> bool {
        // AcqRel: what the waker did before is visible to the fiber when it takes the token
        // (`take`), and a fiber seen PARKED has left its stack (`settle_park`).
        self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    /// Takes the token if one is there. Called by the fiber itself.
    pub(crate) fn take(&self) -> bool {
        // Looked at first: a fiber that parks mostly finds none. Acquire pairs with `leave`.
        self.state.load(Ordering::Relaxed) == NOTIFIED
            && self.state.swap(RUNNING, Ordering::Acquire) == NOTIFIED
    }

    /// Settles a park after the switch: false if a wake-up came first and the fiber must run.
    pub(crate) fn settle_park(&self) -> bool {
        // Release pairs with the Acquire in `leave`.
        self.state
            .compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

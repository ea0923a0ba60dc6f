//! The wake-up token of a fiber, as in `std::thread::park`.
//!
//! ```text
//!              wake                      switch away
//!   NOTIFIED <------ RUNNING ------------------------------> PARKED
//!      |                ^    (refused when NOTIFIED)            |
//!      |   park         |                                       | wake: the waker
//!      +----------------+<---------- NOTIFIED <-----------------+ enqueues the fiber
//! ```
//!
//! The worker enters PARKED after the switch; the fiber never does so before it. A fiber found
//! PARKED has therefore left its stack and can be resumed anywhere.

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

    /// Leaves a token. Returns `true` if the fiber was parked, so that the caller must enqueue it.
    pub(crate) fn leave(&self) -> bool {
        // AcqRel: the waker's earlier writes are visible to the fiber when it takes the token
        // (`take`), and a fiber found PARKED has left its stack (`settle_park`).
        self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    /// Returns `true` if the fiber is parked, which a waker may end meanwhile.
    #[allow(
        dead_code,
        reason = "the models, which include this file, do not call it"
    )]
    pub(crate) fn is_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
    }

    /// Takes the token if there is one. Called by the fiber itself.
    pub(crate) fn take(&self) -> bool {
        // Checked first: usually there is no token. Acquire pairs with `leave`.
        self.state.load(Ordering::Relaxed) == NOTIFIED
            && self.state.swap(RUNNING, Ordering::Acquire) == NOTIFIED
    }

    /// Enters PARKED after the switch. Returns `false` if the fiber was woken before and must run.
    pub(crate) fn settle_park(&self) -> bool {
        // Release pairs with the acquire in `leave`.
        self.state
            .compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

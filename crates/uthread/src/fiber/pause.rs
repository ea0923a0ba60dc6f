//! Why a fiber leaves its stack.

use crate::root::Reason;

/// The reason why a fiber has switched to its worker's loop, which acts on it once the fiber has
/// left its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The fiber is queued behind the others that can run.
    Yielded,
    /// The fiber has used up its turn by calls that have completed at once, and is queued behind
    /// the others that can run.
    Spent,
    /// The fiber waits for [`wake`](super::wake).
    Parked,
    /// The fiber waits for the completion of the operation that it has given to the driver.
    Submitted,
    /// The fiber has run without its worker, which was taken from it, and is to be handed back to
    /// that.
    Alone,
    /// The fiber is never resumed: its stack and everything on it is leaked.
    Abandoned,
}

impl Pause {
    /// Returns what a debugger shows.
    pub(super) fn reason(self) -> Reason {
        match self {
            Pause::Yielded | Pause::Spent => Reason::Ready,
            Pause::Parked => Reason::Parked,
            Pause::Submitted => Reason::Submitted,
            Pause::Alone => Reason::Alone,
            Pause::Abandoned => Reason::Abandoned,
        }
    }
}

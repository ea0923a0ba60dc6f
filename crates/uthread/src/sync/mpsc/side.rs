//! One side of a channel while it waits: a sender in the line, or a receiver.

use crate::fiber::WakeHandle;
use crate::sync::selection::ArmHandle;

pub(crate) enum Side {
    Waits(WakeHandle),
    Selects(ArmHandle),
}

impl Side {
    pub(crate) fn wake(&self) {
        match self {
            Side::Waits(waiter) => waiter.wake(),
            Side::Selects(handle) => handle.wake(),
        }
    }

    /// Returns `true` if the caller may exchange a value with this side, which is not the case if
    /// its selection has ended otherwise, or if it is abandoned.
    pub(crate) fn claim(&self) -> bool {
        match self {
            Side::Waits(waiter) => !waiter.is_abandoned(),
            Side::Selects(handle) => handle.claim(),
        }
    }

    /// Returns `true` if `other`, an arm of another selection, could claim this side.
    pub(crate) fn may_meet(&self, other: &ArmHandle) -> bool {
        match self {
            Side::Waits(waiter) => !waiter.is_abandoned(),
            Side::Selects(handle) => handle.may_meet(other),
        }
    }
}

//! A caller that waits at one end of a channel.

use crate::fiber::WakeHandle;
use crate::sync::selection::ArmHandle;

pub(crate) enum Waiter {
    Waits(WakeHandle),
    Selects(ArmHandle),
}

impl Waiter {
    pub(crate) fn wake(&self) {
        match self {
            Waiter::Waits(waiter) => waiter.wake(),
            Waiter::Selects(handle) => handle.wake(),
        }
    }

    /// Returns `true` if the caller may exchange a value with this one, which is not the case if
    /// its selection has ended otherwise, or if it is abandoned.
    pub(crate) fn claim(&self) -> bool {
        match self {
            Waiter::Waits(waiter) => !waiter.is_abandoned(),
            Waiter::Selects(handle) => handle.claim(),
        }
    }

    /// Returns `true` if `other`, an arm of another selection, could claim this one.
    pub(crate) fn may_meet(&self, other: &ArmHandle) -> bool {
        match self {
            Waiter::Waits(waiter) => !waiter.is_abandoned(),
            Waiter::Selects(handle) => handle.may_meet(other),
        }
    }
}

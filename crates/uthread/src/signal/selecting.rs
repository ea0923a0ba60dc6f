//! Signals as an arm of a selection.

use std::io;

use rustix::io::Errno;

use super::{Signal, Signals};
use crate::sched::caller::cancellation;
use crate::sched::features::readiness::PollOperation;
use crate::sync::selection::{ArmHandle, Event, Receive};

impl<'a> Receive for &'a mut Signals {
    type Event = Received<'a>;

    fn event(self) -> Received<'a> {
        Received {
            signals: self,
            failure: None,
        }
    }
}

/// The event that a signal has arrived.
pub struct Received<'a> {
    signals: &'a mut Signals,
    /// The error with which the kernel refused to wait.
    failure: Option<io::Error>,
}

impl Event for Received<'_> {
    type Output = io::Result<Signal>;

    fn try_complete(&mut self) -> Option<io::Result<Signal>> {
        if let Some(error) = self.failure.take() {
            return Some(Err(error));
        }
        self.signals.take_pending().map(Ok)
    }

    /// Returns `true`: the poll completes as soon as it starts if a signal has arrived.
    fn enlist(&mut self, _: ArmHandle) -> bool {
        true
    }

    fn withdraw(&mut self) {}

    fn poll(&self) -> Option<PollOperation<'_>> {
        Some(PollOperation(self.signals.readable()))
    }

    fn fail(&mut self, error: io::Error) {
        self.failure = Some(error);
    }

    fn cut_off(&mut self) -> io::Result<Signal> {
        Err(cancellation::refusal().unwrap_or_else(|| Errno::CANCELED.into()))
    }
}

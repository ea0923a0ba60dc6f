//! Probes of the scheduling delay, which the monitor sends if a program asks for them.
//!
//! A worker that sleeps gets none: a fiber that becomes ready wakes it, and waits for the kernel
//! alone. Nor does one that others have replaced. The probes to a worker that is stuck gather, so
//! that each moment of its delay is measured.

use std::time::{Duration, Instant};

use crate::sched::shared::{Mail, Remote, Shared};

/// When to send probes.
pub(in crate::sched) struct Probes {
    /// `None` if there are none.
    interval: Option<Duration>,
    /// When the last ones were sent.
    last: Option<Instant>,
}

impl Probes {
    pub(in crate::sched) fn new(interval: Option<Duration>) -> Probes {
        Probes {
            interval,
            last: None,
        }
    }

    /// Sends a probe to each worker that is awake, if that is due.
    pub(in crate::sched) fn send(&mut self, shared: &Shared, now: Instant) {
        let Some(interval) = self.interval else {
            return;
        };
        let since = |last| now.saturating_duration_since(last);
        if self.last.is_some_and(|last| since(last) < interval) {
            return;
        }
        self.last = Some(now);
        (0..shared.workers()).for_each(|index| send_to(shared.remote(index)));
    }
}

fn send_to(remote: &Remote) {
    if remote.is_awake() && remote.delays_or_init().send() {
        remote.mail(Mail::Probe);
    }
}

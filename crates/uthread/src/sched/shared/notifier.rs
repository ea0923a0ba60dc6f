//! Wakes the monitor when a worker wakes up after all have slept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Instant;

/// Wakes the monitor, and stops it.
#[derive(Default)]
pub(crate) struct Notifier {
    /// Set while the monitor does not sample. Sequentially consistent, as is the state of a
    /// sleeper: of a worker that wakes up and a monitor that goes to sleep, one sees the other.
    asleep: AtomicBool,
    stopped: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Notifier {
    /// Wakes the monitor if it sleeps: a worker is awake.
    pub(in crate::sched) fn notify(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// Stops the monitor, if there is one, without waiting for its end.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.get().inspect(|thread| thread.unpark());
    }

    /// Stops the monitor, which is this thread.
    pub(crate) fn stop_thread(&self, monitor: &Thread) {
        // Relaxed: the unpark orders it.
        self.stopped.store(true, Ordering::Relaxed);
        monitor.unpark();
    }

    /// Makes the calling thread the monitor's.
    pub(in crate::sched) fn attach(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Returns `true` if the monitor is to end.
    pub(in crate::sched) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Sleeps until notified or stopped. `look` returns `true` if a worker is awake, so that there
    /// is no sleep, and the time at which the sleep ends at the latest. Called by the monitor.
    ///
    /// The sleep is announced before the look: a worker that the look misses notifies the monitor.
    pub(in crate::sched) fn sleep_unless(&self, look: impl FnOnce() -> (bool, Option<Instant>)) {
        self.asleep.store(true, Ordering::SeqCst);
        match look() {
            (true, _) => {}
            (false, None) => thread::park(),
            (false, Some(until)) => {
                thread::park_timeout(until.saturating_duration_since(Instant::now()));
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_worker_that_the_last_look_misses_wakes_the_monitor() {
        let notifier = Notifier::default();
        notifier.attach();
        let hang = Instant::now() + Duration::from_secs(30);
        notifier.sleep_unless(|| {
            notifier.notify();
            (false, Some(hang))
        });
        assert!(Instant::now() < hang, "the notification was lost");
        notifier.sleep_unless(|| (true, Some(hang)));
        assert!(
            Instant::now() < hang,
            "the monitor slept beside an awake worker"
        );
    }
}

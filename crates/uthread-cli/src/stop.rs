//! Graceful shutdown: a signal stops accepting, the grace period lets connections finish, a second
//! signal cuts them.
//!
//! Accepting ends by cancelling its fiber. Shutting the listener down would also end it in other
//! processes that have inherited the socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uthread::signal::{Signal, Signals};
use uthread::{sleep, thread};

use anyhow::Context;

use crate::listen::Listening;
use crate::notify::Manager;
use crate::stream::{Client, Stream};

/// Interval at which the drain checks for completion: unnoticed by people, and no load on the CPU.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Time for cut connections to notice.
const CUT_TIME_MAX: Duration = Duration::from_secs(1);

/// Set by a second signal.
#[derive(Debug, Default)]
pub(crate) struct Hurry(AtomicBool);

/// What stops a server, and the service manager that learns of it.
pub(crate) struct Stop {
    requests: Box<dyn Iterator<Item = ()> + Send>,
    manager: Manager,
}

impl Stop {
    /// Stops by signals, and tells the manager of the environment.
    pub(crate) fn watch() -> anyhow::Result<Stop> {
        let signals = Signals::new([Signal::TERM, Signal::INT]);
        let signals = signals.context("cannot watch for signals")?;
        Ok(Stop {
            requests: Box::new(signals.map(drop)),
            manager: Manager::from_env()?,
        })
    }

    /// Stops by these requests.
    pub(crate) fn when(requests: impl Iterator<Item = ()> + Send + 'static) -> Stop {
        Stop {
            requests: Box::new(requests),
            manager: Manager::default(),
        }
    }

    /// Reports that the server listens and can be stopped.
    pub(crate) fn ready(&self) {
        self.manager.ready();
    }

    /// Passes connections to `handle` until a request to stop, then calls `drain` and closes the
    /// listener. The next request sets the returned flag.
    pub(crate) fn accept_until_stop(
        mut self,
        listening: Listening,
        drain: impl FnOnce(),
        mut handle: impl FnMut(Stream, Client) + Send,
    ) -> Arc<Hurry> {
        thread::scope(|scope| {
            let accepting = scope.spawn(|| listening.accept_each(&mut handle));
            self.requests.next();
            self.manager.stopping();
            drain();
            accepting.cancel();
            // An error means that it was cancelled in a pause.
            let _ = accepting.join();
        });
        listening.close(handle);
        let hurry = Arc::new(Hurry::default());
        let second = Arc::clone(&hurry);
        thread::spawn(move || {
            for () in self.requests {
                second.0.store(true, Ordering::Relaxed);
            }
        });
        hurry
    }
}

/// Waits until `is_over`. When the grace period is over before, calls `cut`, which returns the
/// number of cut connections, and returns that.
pub(crate) fn wait(
    is_over: impl Fn() -> bool,
    cut: impl FnOnce() -> usize,
    grace: Duration,
    hurry: &Hurry,
) -> usize {
    let is_hurried = || hurry.0.load(Ordering::Relaxed);
    if wait_for(&is_over, grace, is_hurried) {
        return 0;
    }
    let count = cut();
    wait_for(&is_over, CUT_TIME_MAX, || false);
    count
}

/// Waits until `is_over`, at most for `time` and until `is_hurried`. Returns `true` if it is over.
fn wait_for(is_over: &impl Fn() -> bool, time: Duration, is_hurried: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_over() {
        if start.elapsed() >= time || is_hurried() {
            return false;
        }
        sleep(DRAIN_STEP);
    }
    true
}

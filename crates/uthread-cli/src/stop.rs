//! Graceful shutdown: a signal stops accepting, the grace period lets connections finish, a second signal cuts them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uthread::net::TcpListener;
use uthread::signal::{Signal, Signals};
use uthread::{Runtime, sleep};

/// Interval at which the drain checks for completion: unnoticed by people, and no load on the CPU.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Time for cut connections to notice.
const CUT_TIME_MAX: Duration = Duration::from_secs(1);

/// Set by a second signal.
#[derive(Debug, Default)]
pub(crate) struct Hurry(AtomicBool);

/// Handles signals: the first one calls `drain` and ends the accept loop, the next one sets the returned flag.
pub(crate) fn watch_signals(
    runtime: &Runtime,
    listener: Arc<TcpListener>,
    drain: impl Fn() + Send + 'static,
) -> io::Result<Arc<Hurry>> {
    let mut signals = Signals::new([Signal::TERM, Signal::INT])?;
    let hurry = Arc::new(Hurry::default());
    let second = Arc::clone(&hurry);
    runtime.spawn(move || {
        signals.next();
        drain();
        // Wakes `accept`. It cannot fail: the socket is listening.
        let _ = listener.shutdown();
        for _ in signals {
            second.0.store(true, Ordering::Relaxed);
        }
    });
    Ok(hurry)
}

/// Waits until `is_over`. When the grace period is over before, calls `cut`, which returns the number of cut connections, and
/// returns that.
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

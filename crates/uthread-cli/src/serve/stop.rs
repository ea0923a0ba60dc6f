//! Graceful shutdown: a signal stops accepting, the grace period lets responses finish, a second signal cuts them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uthread::net::TcpListener;
use uthread::signal::{Signal, Signals};
use uthread::{Runtime, sleep};

use rustix::net::{Shutdown, shutdown};

use super::peers::Peers;

/// Interval at which the drain checks for completion: unnoticed by people, and no load on the CPU.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Time for cut connections to notice.
const CUT_TIME_MAX: Duration = Duration::from_secs(1);

/// Set by a second signal.
#[derive(Debug, Default)]
pub(crate) struct Hurry(AtomicBool);

/// Handles signals: the first one drains the connections and ends the accept loop, the next one sets the returned flag.
pub(crate) fn watch_signals(
    runtime: &Runtime,
    listener: Arc<TcpListener>,
    peers: Arc<Peers>,
) -> io::Result<Arc<Hurry>> {
    let signals = Signals::new([Signal::TERM, Signal::INT])?;
    let hurry = Arc::new(Hurry::default());
    let second = Arc::clone(&hurry);
    runtime.spawn(move || {
        for _ in signals {
            if peers.draining() {
                second.0.store(true, Ordering::Relaxed);
                continue;
            }
            peers.drain();
            // Wakes `accept`. It cannot fail: the socket is listening.
            let _ = shutdown(&*listener, Shutdown::Both);
        }
    });
    Ok(hurry)
}

/// Waits until every connection has ended, cuts those that outlast the grace period, and returns their number.
pub(crate) fn wait(peers: &Peers, grace: Duration, hurry: &Hurry) -> usize {
    let start = Instant::now();
    while !peers.none_open() {
        if start.elapsed() >= grace || hurry.0.load(Ordering::Relaxed) {
            return cut(peers);
        }
        sleep(DRAIN_STEP);
    }
    0
}

fn cut(peers: &Peers) -> usize {
    let count = peers.cut();
    let start = Instant::now();
    while !peers.none_open() && start.elapsed() < CUT_TIME_MAX {
        sleep(DRAIN_STEP);
    }
    count
}

//! The open connections, and the reasons to end them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use uthread::JoinHandle;

use super::relay::Moved;
use super::settings::Settings;
use crate::connections::Connections;
use crate::stream::Client;

/// State of a connection for other fibers.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) start: Instant,
    pub(crate) moved: Moved,
    /// Set while bytes are relayed.
    pub(crate) relays: AtomicBool,
    /// Set while it waits for another request.
    pub(crate) waits: AtomicBool,
    /// Why it was ended by another fiber.
    pub(crate) ended: OnceLock<&'static str>,
    /// Set as soon as the fiber has been spawned.
    pub(crate) handle: OnceLock<JoinHandle<()>>,
    /// Bytes at the last change that was seen, and its time.
    seen: Mutex<(u64, Instant)>,
}

impl Connection {
    pub(crate) fn new(client: Client) -> Connection {
        let start = Instant::now();
        Connection {
            client,
            start,
            moved: Moved::default(),
            relays: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            ended: OnceLock::new(),
            handle: OnceLock::new(),
            seen: Mutex::new((0, start)),
        }
    }

    /// Returns the bytes moved in each direction.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.moved.up.get(), self.moved.down.get())
    }

    /// Cancels the fiber of the connection.
    fn end(&self, reason: &'static str) {
        if let Some(handle) = self.handle.get() {
            // The first reason stays.
            let _ = self.ended.set(reason);
            handle.cancel();
        }
    }

    /// Returns the time since bytes were last seen to move, or none were relayed.
    fn idle_time(&self) -> Duration {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (up, down) = self.moved();
        let bytes = up + down;
        if bytes != seen.0 || !self.relays.load(Ordering::Relaxed) {
            *seen = (bytes, Instant::now());
        }
        seen.1.elapsed()
    }
}

/// Ends connections that are idle or open for too long.
pub(super) fn expire(open: &Connections<Connection>, settings: &Settings) {
    open.for_each(|connection| {
        let is_old = |most| connection.start.elapsed() >= most;
        if connection.idle_time() >= settings.idle_timeout {
            connection.end("idle");
        } else if settings.lifetime_max.is_some_and(is_old) {
            connection.end("lifetime");
        }
    });
}

/// Ends the connections that wait for another request.
pub(crate) fn end_waiting(open: &Connections<Connection>) {
    open.for_each(|connection| {
        if connection.waits.load(Ordering::Relaxed) {
            connection.end("shutdown");
        }
    });
}

/// Ends all connections, and returns the number of those that did not only wait for a request.
pub(crate) fn cut(open: &Connections<Connection>) -> usize {
    let mut count = 0;
    open.for_each(|connection| {
        connection.end("shutdown");
        count += usize::from(!connection.waits.load(Ordering::Relaxed));
    });
    count
}

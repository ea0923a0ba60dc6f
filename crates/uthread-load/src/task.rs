//! The task of a run: parameters that all workers share, and the connections of each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use uthread::sync::Semaphore;

use crate::clock::End;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::link::Link;
use crate::plan::Pattern;

/// Data shared by all workers.
pub(crate) struct Task {
    pub(crate) address: SocketAddr,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) timeout: Duration,
    pub(crate) pattern: Pattern,
    pub(crate) workers: usize,
    pub(crate) spins: bool,
    pub(crate) end: End,
    /// Bounds the connections in the process of opening. A listener drops connections that do not
    /// fit its queue, and the client retries only after a second.
    pub(crate) opening: Semaphore,
    /// Set if a first message was not answered. The run then opens the remaining connections, so
    /// that a silent server is waited for only once.
    pub(crate) is_silent: AtomicBool,
}

impl Task {
    /// Opens the connection with this index.
    pub(crate) fn open(&self, index: u64) -> Result<Link, Failure> {
        let in_flight_bytes = match self.pattern {
            Pattern::Closed { depth } => depth.get() * self.exchange.message_bytes(),
            // Bounds the wait for a server that has stopped reading.
            Pattern::Open { .. } => usize::MAX,
        };
        Link::open(
            self.address,
            &self.exchange,
            index,
            in_flight_bytes,
            self.timeout,
        )
    }
}

/// One connection of a worker.
pub(crate) struct Slot {
    pub(crate) index: u64,
    /// `None` before it is open, and after a failure.
    pub(crate) link: Option<Link>,
    /// True if it was open, and answered once, before the first run.
    pub(crate) is_greeted: bool,
    /// Responses in the measured time.
    pub(crate) served: u64,
}

impl Slot {
    pub(crate) fn new(index: u64) -> Slot {
        Slot {
            index,
            link: None,
            is_greeted: false,
            served: 0,
        }
    }
}

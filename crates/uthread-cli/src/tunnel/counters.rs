//! Counters of the tunnel.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Server;
use super::record::Record;
use crate::counters::{Count, Counted, Value};

/// Maximum number of connections beyond the limit that receive a 503 at the same time. Further ones
/// are closed without a response.
const REFUSALS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    established: AtomicU64,
    failed: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    refusals: AtomicUsize,
}

impl Counters {
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if there is room for one more connection that is told why it was refused.
    pub(crate) fn begin_refusal(&self) -> bool {
        let is_room = self.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS_MAX;
        if !is_room {
            self.end_refusal();
        }
        is_room
    }

    pub(crate) fn end_refusal(&self) {
        self.refusals.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that has ended.
    pub(crate) fn end(&self, record: &Record<'_>) {
        let outcome = match record.address {
            Some(_) => &self.established,
            None => &self.failed,
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        self.bytes_up
            .fetch_add(record.bytes_up(), Ordering::Relaxed);
        self.bytes_down
            .fetch_add(record.bytes_down(), Ordering::Relaxed);
    }
}

impl Counted for Server {
    const PREFIX: &'static str = "tunnel";

    fn counts(&self) -> Vec<Count> {
        let counters = &self.counters;
        let open = Count {
            name: "connections_open",
            help: "Connections that are open.",
            value: Value::Gauge(self.open.count() as u64),
        };
        let counters = [
            (
                "connections",
                "Connections that were accepted.",
                &counters.accepted,
            ),
            ("refused", "Connections beyond a limit.", &counters.refused),
            (
                "established",
                "Tunnels that were established and have ended.",
                &counters.established,
            ),
            (
                "failed",
                "Connections that ended without a tunnel.",
                &counters.failed,
            ),
            (
                "bytes_up",
                "Bytes from clients, of tunnels that have ended.",
                &counters.bytes_up,
            ),
            (
                "bytes_down",
                "Bytes from targets, of tunnels that have ended.",
                &counters.bytes_down,
            ),
        ];
        let counters = counters.map(|(name, help, counter)| Count {
            name,
            help,
            value: Value::Counter(counter.load(Ordering::Relaxed)),
        });
        [open].into_iter().chain(counters).collect()
    }
}

//! Counters of the tunnel.

use super::Tunnel;
use super::record::Record;
use crate::counters::{Count, Counted, Counter};
use crate::http::response::Status;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(super) accepted: Counter,
    pub(super) refused: Counter,
    established: Counter,
    failed: Counter,
    unauthorized: Counter,
    bytes_up: Counter,
    bytes_down: Counter,
}

impl Counters {
    /// Counts a connection that has ended.
    pub(crate) fn end(&self, record: &Record<'_>) {
        let outcome = match record.address {
            Some(_) => &self.established,
            None => &self.failed,
        };
        outcome.add(1);
        if record.status == Some(Status::ProxyAuthenticationRequired) {
            self.unauthorized.add(1);
        }
        self.bytes_up.add(record.connection.moved.up.get());
        self.bytes_down.add(record.connection.moved.down.get());
    }
}

impl Counted for Tunnel {
    const PREFIX: &'static str = "tunnel";

    fn counts(&self) -> Vec<Count> {
        let counters = &self.counters;
        let tunnels = [
            (
                &counters.accepted,
                "connections",
                "Connections that were accepted.",
            ),
            (&counters.refused, "refused", "Connections beyond a limit."),
            (
                &counters.established,
                "established",
                "Tunnels that were established and have ended.",
            ),
            (
                &counters.failed,
                "failed",
                "Connections that ended without a tunnel.",
            ),
            (
                &counters.unauthorized,
                "unauthorized",
                "Requests without the credentials of a user.",
            ),
            (
                &counters.bytes_up,
                "bytes_up",
                "Bytes from clients, of tunnels that have ended.",
            ),
            (
                &counters.bytes_down,
                "bytes_down",
                "Bytes from targets, of tunnels that have ended.",
            ),
        ];
        let open = Count::open_connections(self.open.count());
        let tunnels = tunnels.map(|(counter, name, help)| counter.count(name, help));
        [open].into_iter().chain(tunnels).collect()
    }
}

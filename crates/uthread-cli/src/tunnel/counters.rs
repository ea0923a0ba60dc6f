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
    forwarded: Counter,
    failed: Counter,
    unauthorized: Counter,
    bytes_up: Counter,
    bytes_down: Counter,
}

impl Counters {
    /// Counts a tunnel or a request that has ended.
    pub(crate) fn end(&self, record: &Record<'_>) {
        let outcome = match (&record.address, &record.failure) {
            (None, _) | (_, Some(_)) => &self.failed,
            _ if record.path.is_some() => &self.forwarded,
            _ => &self.established,
        };
        outcome.add(1);
        if record.status == Some(Status::ProxyAuthenticationRequired.code()) {
            self.unauthorized.add(1);
        }
        let (up, down) = record.moved();
        self.bytes_up.add(up);
        self.bytes_down.add(down);
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
                &counters.forwarded,
                "forwarded",
                "Plain requests that an origin has responded to.",
            ),
            (
                &counters.failed,
                "failed",
                "Connections and requests that ended without a tunnel or a response.",
            ),
            (
                &counters.unauthorized,
                "unauthorized",
                "Requests without the credentials of a user.",
            ),
            (
                &counters.bytes_up,
                "bytes_up",
                "Bytes from clients, of tunnels and requests that have ended.",
            ),
            (
                &counters.bytes_down,
                "bytes_down",
                "Bytes from targets, of tunnels and requests that have ended.",
            ),
        ];
        let open = Count::open_connections(self.open.count());
        let tunnels = tunnels.map(|(counter, name, help)| counter.count(name, help));
        [open].into_iter().chain(tunnels).collect()
    }
}

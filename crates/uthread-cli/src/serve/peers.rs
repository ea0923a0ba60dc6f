//! The open connections: their number, their phases, and how they end.
//!
//! A drain has two steps: responses announce the end of their connection, and later, connections
//! without a request end. So no request is lost that was on its way when the drain began.
//!
//! A connection sets its phase to idle and then checks for the second step; that step sets a flag
//! and then looks for idle connections. Both use sequentially consistent accesses, so at least one
//! sees the other, and no connection waits for a request that never comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

// The plain system call, not the stream's method: it runs under the lock, where a fiber must not be
// suspended.
use rustix::net::{Shutdown, shutdown};

use crate::stream::{Client, Stream};

/// Phase of a connection, as needed for shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Waits for the first byte of a request.
    Idle,
    /// Has a request without a complete response.
    Busy,
    /// Has sent its last response, and waits for a bounded time until the client has received it.
    Lingering,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    pub(crate) client: Client,
    phase: AtomicU8,
}

impl Peer {
    pub(crate) fn set_phase(&self, phase: Phase) {
        // SeqCst for Idle: pairs with the sweep in `end_idle`, see above.
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::SeqCst) == phase as u8
    }
}

#[derive(Debug)]
pub(crate) struct Peers {
    count_max: usize,
    draining: AtomicBool,
    idle_ended: AtomicBool,
    requests_served: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next_id: u64,
    peers: HashMap<u64, Arc<Peer>>,
}

impl Peers {
    pub(crate) fn new(count_max: usize) -> Peers {
        Peers {
            count_max,
            draining: AtomicBool::new(false),
            idle_ended: AtomicBool::new(false),
            requests_served: AtomicU64::new(0),
            open: Mutex::default(),
        }
    }

    /// Adds a connection, or returns it if there are too many.
    pub(crate) fn admit(
        self: &Arc<Self>,
        stream: Stream,
        client: Client,
    ) -> Result<Admitted, Stream> {
        let mut open = self.lock();
        if open.peers.len() >= self.count_max {
            return Err(stream);
        }
        let peer = Arc::new(Peer {
            stream,
            client,
            phase: AtomicU8::new(Phase::Idle as u8),
        });
        let id = open.next_id;
        open.next_id += 1;
        open.peers.insert(id, Arc::clone(&peer));
        Ok(Admitted {
            peer,
            requests_served: 0,
            id,
            peers: Arc::clone(self),
        })
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Ends every connection after its next response.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if a connection without a request must end.
    pub(crate) fn idle_ended(&self) -> bool {
        // SeqCst: pairs with the store in `end_idle`, see above.
        self.idle_ended.load(Ordering::SeqCst)
    }

    /// Ends connections without a request, now and from now on.
    pub(crate) fn end_idle(&self) {
        self.idle_ended.store(true, Ordering::SeqCst);
        for peer in self
            .lock()
            .peers
            .values()
            .filter(|peer| peer.is(Phase::Idle))
        {
            // Wakes the read with "end of input". It fails only if the client has disconnected.
            let _ = shutdown(&peer.stream, Shutdown::Read);
        }
    }

    /// Ends every connection now, and returns how many had an incomplete response.
    pub(crate) fn cut(&self) -> usize {
        let open = self.lock();
        for peer in open.peers.values() {
            let _ = shutdown(&peer.stream, Shutdown::Both);
        }
        open.peers
            .values()
            .filter(|peer| peer.is(Phase::Busy))
            .count()
    }

    /// Returns the number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().peers.len()
    }

    pub(crate) fn none_open(&self) -> bool {
        self.count() == 0
    }

    pub(crate) fn requests_served(&self) -> u64 {
        self.requests_served.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts as open while this value lives.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) peer: Arc<Peer>,
    /// Added to the total at the end: a shared counter written for every request would be
    /// contended.
    pub(crate) requests_served: u64,
    id: u64,
    peers: Arc<Peers>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.peers
            .requests_served
            .fetch_add(self.requests_served, Ordering::Relaxed);
        // Bound to a name to release the lock before the removed value is dropped.
        let removed = self.peers.lock().peers.remove(&self.id);
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;
    use uthread::net::{TcpListener, TcpStream};

    fn connect() -> (TcpStream, Stream, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, addr) = listener.accept().unwrap();
        // Turns a hang into a failure.
        server
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        (client, Stream::Tcp(server), Client::Ip(addr.ip()))
    }

    #[test]
    fn the_cap_holds_and_a_dropped_peer_makes_room() {
        let peers = Arc::new(Peers::new(1));
        let (_one, server, from) = connect();
        let first = peers.admit(server, from).unwrap();
        let (_two, server, from) = connect();
        let refused = peers.admit(server, from).unwrap_err();
        drop(first);
        assert!(peers.none_open());
        assert!(peers.admit(refused, from).is_ok());
    }

    #[test]
    fn the_end_of_a_drain_wakes_the_idle_and_a_cut_counts_the_busy() {
        let peers = Arc::new(Peers::new(2));
        let (_one, server, from) = connect();
        let idle = peers.admit(server, from).unwrap();
        let (mut client, server, from) = connect();
        let busy = peers.admit(server, from).unwrap();
        busy.peer.set_phase(Phase::Busy);

        peers.end_idle();
        assert!(peers.idle_ended());
        assert_eq!((&idle.peer.stream).read(&mut [0]).unwrap(), 0);
        drop(idle);

        assert_eq!(peers.cut(), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

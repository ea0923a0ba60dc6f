//! The phases of the open connections, and how they end.
//!
//! A drain has two steps: responses announce the end of their connection, and later, connections
//! without a request end. So no request is lost that was on its way when the drain began.
//!
//! A connection sets its phase to idle and then checks for the second step; that step sets a flag
//! and then looks for idle connections. Both use sequentially consistent accesses, so at least one
//! sees the other, and no connection waits for a request that never comes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

// The plain system call, not the stream's method: it runs under the lock, where a fiber must not be
// suspended.
use rustix::net::{Shutdown, shutdown};

use crate::connections::Connections;
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
    pub(crate) fn new(stream: Stream, client: Client) -> Peer {
        Peer {
            stream,
            client,
            phase: AtomicU8::new(Phase::Idle as u8),
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        // SeqCst for Idle: pairs with the sweep in `end_idle`, see above.
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::SeqCst) == phase as u8
    }
}

/// All open connections, and how far they are drained.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) open: Arc<Connections<Peer>>,
    draining: AtomicBool,
    idle_ended: AtomicBool,
}

impl Peers {
    pub(crate) fn new(count_max: NonZeroUsize) -> Peers {
        Peers {
            open: Connections::new(count_max, None),
            draining: AtomicBool::new(false),
            idle_ended: AtomicBool::new(false),
        }
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
        self.open.for_each(|peer| {
            if peer.is(Phase::Idle) {
                // Wakes the read with "end of input". It fails only if the client has disconnected.
                let _ = shutdown(&peer.stream, Shutdown::Read);
            }
        });
    }

    /// Ends every connection now, and returns how many had an incomplete response.
    pub(crate) fn cut(&self) -> usize {
        let mut busy = 0;
        self.open.for_each(|peer| {
            let _ = shutdown(&peer.stream, Shutdown::Both);
            busy += usize::from(peer.is(Phase::Busy));
        });
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Admitted;
    use std::io::Read;
    use std::time::Duration;
    use uthread::net::{TcpListener, TcpStream};

    fn admit(peers: &Peers) -> (TcpStream, Admitted<Peer>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, addr) = listener.accept().unwrap();
        // Turns a hang into a failure.
        for stream in [&client, &server] {
            let time_max = Some(Duration::from_secs(20));
            stream.set_read_timeout(time_max).unwrap();
        }
        let from = Client::Ip(addr.ip());
        let peer = Peer::new(Stream::Tcp(server), from);
        (client, peers.open.admit(from, peer).unwrap())
    }

    #[test]
    fn the_end_of_a_drain_wakes_the_idle_and_a_cut_counts_the_busy() {
        let peers = Peers::new(NonZeroUsize::MAX);
        let (_one, idle) = admit(&peers);
        let (mut client, busy) = admit(&peers);
        busy.set_phase(Phase::Busy);

        peers.end_idle();
        assert!(peers.idle_ended());
        assert_eq!((&idle.stream).read(&mut [0]).unwrap(), 0);
        drop(idle);

        assert_eq!(peers.cut(), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

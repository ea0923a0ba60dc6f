//! What a server and its connections share.

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use uthread::net::TcpStream;

use crate::Handler;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) overdue_max: usize,
    pub(crate) keep_alive: Duration,
    pub(crate) head: Duration,
    pub(crate) body_max: u64,
}

/// What the connections share.
pub(crate) struct Shared {
    pub(crate) handler: Box<dyn Handler>,
    pub(crate) limits: Limits,
    /// Number of handlers that go on although their request was answered.
    pub(crate) overdue: AtomicUsize,
    draining: AtomicBool,
    peers: Mutex<Vec<Weak<Peer>>>,
}

/// A connection, as its server knows it.
pub(crate) struct Peer {
    pub(crate) stream: Arc<TcpStream>,
    is_idle: AtomicBool,
}

impl Shared {
    pub(crate) fn new(handler: impl Handler, limits: Limits) -> Shared {
        Shared {
            handler: Box::new(handler),
            limits,
            overdue: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            peers: Mutex::default(),
        }
    }

    /// Adds a connection.
    pub(crate) fn enter(&self, stream: TcpStream) -> Arc<Peer> {
        let peer = Arc::new(Peer {
            stream: Arc::new(stream),
            is_idle: AtomicBool::new(false),
        });
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() == peers.capacity() {
            // Before it grows.
            peers.retain(|peer| peer.strong_count() > 0);
        }
        peers.push(Arc::downgrade(&peer));
        peer
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Closes the connections that wait for a request, and lets the others end.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        for peer in peers.iter().filter_map(Weak::upgrade) {
            if peer.is_idle.load(Ordering::SeqCst) {
                // It reads the end. An error means that the client has gone.
                let _ = peer.stream.shutdown(Shutdown::Read);
            }
        }
    }
}

impl Peer {
    /// Records that the connection waits for a request. Returns `false` if it may not.
    pub(crate) fn begin_idle(&self, shared: &Shared) -> bool {
        // SeqCst: the server stores that it drains, and then looks who is idle.
        self.is_idle.store(true, Ordering::SeqCst);
        !shared.is_draining()
    }

    pub(crate) fn end_idle(&self) {
        self.is_idle.store(false, Ordering::SeqCst);
    }
}

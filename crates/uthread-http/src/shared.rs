//! What a server and its connections share.

use std::error::Error;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use http::{Method, StatusCode, Uri, Version};
use hyper::body::Incoming;
use uthread::net::TcpStream;

use crate::{Body, Handler, Request};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) overdue_max: usize,
    pub(crate) keep_alive: Duration,
    pub(crate) head: Duration,
    pub(crate) body_max: u64,
}

/// A request that was answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answered {
    /// The client, or the proxy before it.
    pub peer: SocketAddr,
    /// The method of the request.
    pub method: Method,
    /// What the request asks for.
    pub uri: Uri,
    /// The version of the protocol.
    pub version: Version,
    /// The status of the response.
    pub status: StatusCode,
    /// The error of a handler that was answered by 500, of which the client gets no text.
    pub failure: Option<Arc<dyn Error + Send + Sync>>,
    /// The time from the end of the request's head to the begin of the response.
    pub time: Duration,
}

pub(crate) type Observer = dyn Fn(&Answered) + Send + Sync;

/// What the connections share.
pub(crate) struct Shared {
    pub(crate) handler: Box<dyn Handler>,
    pub(crate) limits: Limits,
    pub(crate) observer: Option<Box<Observer>>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<uthread_rustls::rustls::ServerConfig>>,
    /// Number of handlers that go on although their request was answered.
    pub(crate) overdue: AtomicUsize,
    draining: AtomicBool,
    peers: Mutex<Vec<Weak<Peer>>>,
}

/// A connection, as its server knows it.
pub(crate) struct Peer {
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) address: SocketAddr,
    /// Lets hyper be polled again.
    pub(crate) waker: Waker,
    is_idle: AtomicBool,
}

impl Shared {
    pub(crate) fn new(handler: impl Handler, limits: Limits) -> Shared {
        Shared {
            handler: Box::new(handler),
            limits,
            observer: None,
            #[cfg(feature = "tls")]
            tls: None,
            overdue: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            peers: Mutex::default(),
        }
    }

    /// Adds a connection.
    pub(crate) fn enter(&self, stream: TcpStream, address: SocketAddr, waker: Waker) -> Arc<Peer> {
        let peer = Arc::new(Peer {
            stream: Arc::new(stream),
            address,
            waker,
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
            peer.waker.wake_by_ref();
        }
    }

    /// Returns the request as its handler gets it.
    pub(crate) fn receive(&self, peer: &Arc<Peer>, request: http::Request<Incoming>) -> Request {
        let Limits {
            body_max,
            keep_alive,
            ..
        } = self.limits;
        let peer = Arc::clone(peer);
        request.map(|body| Body::from_incoming(body, body_max, keep_alive).sent_by(peer))
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

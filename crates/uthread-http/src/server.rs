//! Limits, and the connections until their end.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use uthread::net::{self, AcceptFailure, Listener, SocketAddr, TcpListener, TcpStream};

pub use crate::shared::Answered;
use crate::shared::{Limits, Observer, Shared};
use crate::{Handler, protocol};

/// A server: a handler and its limits.
///
/// ```no_run
/// use std::time::Duration;
/// use uthread::net::TcpListener;
/// use uthread_http::{Request, Server};
///
/// let listener = TcpListener::bind("127.0.0.1:8080")?;
/// Server::new(|_: Request| "Hello\n")
///     .timeout(Duration::from_secs(1))
///     .body_max(10 << 20)
///     .serve(&listener)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Server<H> {
    handler: H,
    limits: Limits,
    connections_max: usize,
    grace: Duration,
    observer: Option<Box<Observer>>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<uthread_rustls::rustls::ServerConfig>>,
}

impl<H: Handler> Server<H> {
    /// Creates a server without a deadline for requests, with bodies of at most 2 MiB, heads that arrive
    /// within 10 seconds, connections that wait for 75 seconds, 10,000 of them, and 30 seconds of grace.
    pub fn new(handler: H) -> Server<H> {
        Server {
            handler,
            limits: Limits {
                timeout: None,
                overdue_max: 1000,
                keep_alive: Duration::from_secs(75),
                head: Duration::from_secs(10),
                body_max: 2 << 20,
            },
            connections_max: 10_000,
            grace: Duration::from_secs(30),
            observer: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Sets how long a handler may take. Its calls fail with `TimedOut` from then on, and the client gets
    /// the status 504 at once, also if the handler waits in code that has no such error: then it goes on
    /// beside, in a fiber of its own.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Server<H> {
        self.limits.timeout = Some(time);
        self
    }

    /// Sets how many handlers may go on after their [timeout](Server::timeout): 1,000 by default. While
    /// there are as many, requests are answered by 503.
    #[must_use]
    pub fn overdue_max(mut self, count: usize) -> Server<H> {
        self.limits.overdue_max = count;
        self
    }

    /// Sets how long a connection waits for a request, and for the client to take a response.
    #[must_use]
    pub fn keep_alive(mut self, time: Duration) -> Server<H> {
        self.limits.keep_alive = time;
        self
    }

    /// Sets how long the head of a request may take from its first byte.
    #[must_use]
    pub fn head_timeout(mut self, time: Duration) -> Server<H> {
        self.limits.head = time;
        self
    }

    /// Sets the largest body of a request, in bytes. A larger one is answered by 413, or is an error of the
    /// handler that reads it.
    #[must_use]
    pub fn body_max(mut self, bytes: u64) -> Server<H> {
        self.limits.body_max = bytes;
        self
    }

    /// Sets the number of connections. Others wait in the kernel's queue.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Server<H> {
        self.connections_max = count;
        self
    }

    /// Sets how long requests may take once the listener was shut down. Then they are cancelled.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Server<H> {
        self.grace = time;
        self
    }

    /// Calls a function for each request that was answered, before the body of the response goes out: for a
    /// log or metrics. The last function that was set counts.
    ///
    /// ```
    /// use uthread_http::{Request, Server};
    ///
    /// let server = Server::new(|_: Request| "Hello\n").observe(|answered| {
    ///     let status = answered.status.as_u16();
    ///     println!("{} {} {} {status} {:?}", answered.peer, answered.method, answered.uri, answered.time);
    /// });
    /// ```
    #[must_use]
    pub fn observe(mut self, function: impl Fn(&Answered) + Send + Sync + 'static) -> Server<H> {
        self.observer = Some(Box::new(function));
        self
    }

    /// Serves by TLS only. The protocols of the configuration, if it has none, are HTTP/2 and HTTP/1.1.
    /// [`uthread_rustls::server_config`] reads a certificate and its key.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, mut config: uthread_rustls::rustls::ServerConfig) -> Server<H> {
        if config.alpn_protocols.is_empty() {
            let protocols = ["h2", "http/1.1"];
            let served = &protocols[usize::from(!cfg!(feature = "http2"))..];
            config.alpn_protocols = served.iter().map(|name| name.as_bytes().to_vec()).collect();
        }
        self.tls = Some(Arc::new(config));
        self
    }

    /// Serves each connection in a fiber, until the listener is
    /// [shut down](TcpListener::shutdown). Connections that wait for a request are closed then, and
    /// the others after their response.
    ///
    /// # Errors
    ///
    /// The errors of [`serve_with_grace`](net::serve_with_grace).
    pub fn serve(self, listener: &TcpListener) -> io::Result<()> {
        let mut shared = Shared::new(self.handler, self.limits);
        shared.observer = self.observer;
        #[cfg(feature = "tls")]
        {
            shared.tls = self.tls;
        }
        let shared = Arc::new(shared);
        let listener = Draining {
            listener,
            shared: &shared,
        };
        net::serve_with_grace(&listener, self.connections_max, self.grace, |stream, _| {
            // An error is that of one client.
            let _ = protocol::serve(&shared, stream);
        })
    }
}

/// A listener whose end closes the connections that wait for a request.
struct Draining<'a> {
    listener: &'a TcpListener,
    shared: &'a Shared,
}

impl Listener for Draining<'_> {
    type Stream = TcpStream;
    type Address = SocketAddr;

    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.listener.accept();
        if let Err(error) = &accepted
            && AcceptFailure::of(error) == AcceptFailure::Closed
        {
            self.shared.drain();
        }
        accepted
    }
}

impl<H> fmt::Debug for Server<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Server");
        shown.field("limits", &self.limits).finish_non_exhaustive()
    }
}

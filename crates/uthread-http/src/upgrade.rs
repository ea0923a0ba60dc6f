//! Connections that go on with another protocol.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use uthread::net::TcpStream;
use uthread::sync;

use crate::stream::Transport;
use crate::{Failure, Request, Response};

/// Returns the response that ends HTTP on the connection. Then `speak` speaks the other protocol, on the
/// fiber of the connection. At the end of the server it reads the end of the stream, and is cancelled once
/// the grace is over.
///
/// # Errors
///
/// A failure with the status 426 if the client has not asked for this protocol, or by HTTP/2, which has no
/// upgrades.
///
/// ```no_run
/// use std::io;
/// use uthread::net::TcpListener;
/// use uthread_http::{Request, Router, Server, upgrade};
///
/// let router = Router::new().get("/echo", |request: Request| {
///     upgrade(&request, "echo", |mut stream| {
///         let sent = stream.clone();
///         // An error is that of this client.
///         let _ = io::copy(&mut &stream, &mut &sent);
///     })
/// });
/// Server::new(router).serve(&TcpListener::bind("127.0.0.1:8080")?)?;
/// # Ok::<(), io::Error>(())
/// ```
pub fn upgrade(
    request: &Request,
    protocol: &'static str,
    speak: impl FnOnce(Upgraded) + Send + 'static,
) -> Result<Response, Failure> {
    let headers = request.headers();
    let is_asked = request.version() == Version::HTTP_11
        && has_token(headers, header::CONNECTION, "upgrade")
        && has_token(headers, header::UPGRADE, protocol);
    if !is_asked {
        let text = format!("the client has to ask for an upgrade to {protocol}");
        return Err(Failure::new(StatusCode::UPGRADE_REQUIRED, text));
    }
    let mut response = Response::default();
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response.extensions_mut().insert(Switch::to(speak));
    Ok(response)
}

/// Returns `true` if a list of tokens has this one.
fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut tokens = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    tokens.any(|known| known.trim().eq_ignore_ascii_case(token))
}

/// Returns the response that makes the connection a WebSocket (RFC 6455), which `speak` uses. See
/// [`upgrade`] for its end.
///
/// A fiber that reads and one that writes each need a socket of their own, on a
/// [clone](Upgraded#cloned) of the stream.
///
/// # Errors
///
/// A failure with the status 426 if the client has not asked for version 13, and 400 without its key.
///
/// ```
/// use std::net::TcpStream;
/// use uthread::net::TcpListener;
/// use uthread_http::{Request, Router, Server, websocket};
///
/// let router = Router::new().get("/echo", |request: Request| {
///     websocket(&request, |mut socket| {
///         while let Ok(message) = socket.read() {
///             if message.is_text() && socket.send(message).is_err() {
///                 return;
///             }
///         }
///     })
/// });
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// # let end = listener.try_clone()?;
/// let server = uthread::spawn(move || Server::new(router).serve(&listener));
///
/// let stream = TcpStream::connect(address)?;
/// let (mut client, _) = tungstenite::client(format!("ws://{address}/echo"), stream)?;
/// client.send("hello".into())?;
/// assert_eq!(client.read()?.to_text()?, "hello");
/// # client.close(None)?;
/// # end.shutdown()?;
/// # server.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "websocket")]
pub fn websocket(
    request: &Request,
    speak: impl FnOnce(tungstenite::WebSocket<Upgraded>) + Send + 'static,
) -> Result<Response, Failure> {
    use tungstenite::WebSocket;
    use tungstenite::handshake::derive_accept_key;
    use tungstenite::protocol::Role;

    let mut response = upgrade(request, "websocket", |stream| {
        speak(WebSocket::from_raw_socket(stream, Role::Server, None));
    })?;
    let asked = request.headers();
    let headers = response.headers_mut();
    let version = HeaderValue::from_static("13");
    if asked.get(header::SEC_WEBSOCKET_VERSION) != Some(&version) {
        let text = "the version of the WebSocket has to be 13";
        return Err(Failure::new(StatusCode::UPGRADE_REQUIRED, text));
    }
    let Some(key) = asked.get(header::SEC_WEBSOCKET_KEY) else {
        let text = "there is no Sec-WebSocket-Key";
        return Err(Failure::new(StatusCode::BAD_REQUEST, text));
    };
    let accepted = derive_accept_key(key.as_bytes());
    let accepted = HeaderValue::try_from(accepted).expect("it is encoded as text");
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    Ok(response)
}

/// The stream of a connection after an [upgrade].
///
/// # Cloned
///
/// A clone is the same stream. One fiber may read while another one writes, and what two fibers write
/// does not mix: each call of `write` sends all that it is given.
#[derive(Clone)]
pub struct Upgraded(Arc<Inner>);

struct Inner {
    transport: Transport,
    /// What the client has sent after its request.
    received: Mutex<Bytes>,
    /// Locked while bytes are sent.
    sending: sync::Mutex<()>,
}

impl Upgraded {
    pub(crate) fn new(transport: Transport, received: Bytes) -> Upgraded {
        Upgraded(Arc::new(Inner {
            transport,
            received: Mutex::new(received),
            sending: sync::Mutex::new(()),
        }))
    }

    /// Returns the socket, for its timeouts and addresses. It has no timeouts at first. Reading from it, or
    /// writing to it, would miss what this stream has, such as TLS.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.0.transport.link().stream()
    }
}

impl Read for &Upgraded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut received = self
            .0
            .received
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !received.is_empty() {
            let count = received.len().min(buffer.len());
            received.copy_to_slice(&mut buffer[..count]);
            return Ok(count);
        }
        drop(received);
        (&self.0.transport).read(buffer)
    }
}

impl Write for &Upgraded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = self.0.sending.lock();
        (&self.0.transport).write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.0.transport).flush()
    }
}

impl Read for Upgraded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Upgraded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Upgraded")
            .field(self.socket())
            .finish()
    }
}

/// What follows a response: it goes with it, as an extension.
#[derive(Clone)]
pub(crate) struct Switch(Arc<Mutex<Option<Box<Speak>>>>);

pub(crate) type Speak = dyn FnOnce(Upgraded) + Send;

impl Switch {
    fn to(speak: impl FnOnce(Upgraded) + Send + 'static) -> Switch {
        Switch(Arc::new(Mutex::new(Some(Box::new(speak)))))
    }

    pub(crate) fn take(&self) -> Option<Box<Speak>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

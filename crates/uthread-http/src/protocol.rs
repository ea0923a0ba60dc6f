//! The protocol of a connection: with TLS or without, HTTP/2 or HTTP/1.

use std::io;
use std::sync::Arc;

use uthread::net::TcpStream;

use crate::connection::{self, Connection};
use crate::http1;
#[cfg(feature = "http2")]
use crate::http2;
use crate::shared::Shared;
use crate::stream::{Link, Socket, Transport};

/// How a connection of HTTP/2 without TLS begins (RFC 9113, section 3.4).
#[cfg(feature = "http2")]
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves the requests of a connection.
pub(crate) fn serve(shared: &Arc<Shared>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(shared.limits.keep_alive))?;
    stream.set_write_timeout(Some(shared.limits.keep_alive))?;
    let address = stream.peer_addr()?;
    let (bell, waker) = connection::bell();
    let peer = shared.enter(stream, address, waker);
    let link = Link::new(Arc::clone(&peer.stream));
    let transport = secure(shared, link)?;
    let connection = Connection {
        shared: Arc::clone(shared),
        peer,
        socket: Socket::new(transport),
        bell,
    };
    connection.receive_idle()?;
    #[cfg(feature = "http2")]
    if begins_with_preface(&connection)? {
        return http2::serve(connection);
    }
    http1::serve(connection)
}

/// Makes the handshake of TLS, if the server has it.
#[cfg(feature = "tls")]
fn secure(shared: &Shared, link: Link) -> io::Result<Transport> {
    use uthread_rustls::TlsStream;

    let Some(config) = &shared.tls else {
        return Ok(Transport::Plain(link));
    };
    let stream = TlsStream::server(Arc::clone(config), link)?;
    uthread::timeout(shared.limits.head, || stream.handshake())??;
    Ok(Transport::Tls(Box::new(stream)))
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unnecessary_wraps, reason = "with TLS, there is a handshake")]
fn secure(_: &Shared, link: Link) -> io::Result<Transport> {
    Ok(Transport::Plain(link))
}

/// Returns `true` if the first bytes are those of HTTP/2. Client and
/// server may also have agreed on it in the handshake of TLS.
#[cfg(feature = "http2")]
fn begins_with_preface(connection: &Connection) -> io::Result<bool> {
    let mut socket = connection.socket.borrow_mut();
    let mut received = socket.left().len();
    // No method of HTTP/1 has more than two bytes in common with it.
    while (1..3).contains(&received) && PREFACE.starts_with(socket.left()) {
        let limit = connection.shared.limits.head;
        let count = uthread::timeout(limit, || socket.receive())??;
        if count == received {
            break;
        }
        received = count;
    }
    Ok(socket.left().starts_with(&PREFACE[..3]))
}

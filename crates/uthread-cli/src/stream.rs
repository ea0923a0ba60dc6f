//! Connections and listeners by TCP and by Unix sockets, with the methods that servers need of
//! both, and connections by TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use uthread::fs::File;
use uthread::io::splice;
use uthread::net::{Shutdown, TcpListener, TcpStream, UnixListener, UnixStream};
use uthread::timeout;

use rustls::ServerConfig;
use uthread_rustls::TlsStream;

/// A refusal fits the empty send buffer of a new connection, so only a broken client reaches this
/// timeout.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);
/// Limits of reading after the last response. Reading lets the client receive the response before a
/// reset could overtake it.
const LINGER_BYTES_MAX: u64 = 256 * 1024;
/// A few round trips on a bad line.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) fn accept(&self) -> io::Result<(Stream, Client)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, addr) = listener.accept()?;
                Ok((Stream::Tcp(stream), Client::Ip(addr.ip())))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), Client::Unix))
            }
        }
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(nonblocking),
            Listener::Unix(listener) => listener.set_nonblocking(nonblocking),
        }
    }
}

/// A client, as logs and limits know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Ip(IpAddr),
    /// A process of this machine, by a Unix socket, which has no address.
    Unix,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::Ip(address) => address.fmt(f),
            // As in the logs of nginx.
            Client::Unix => f.write_str("unix:"),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS on one of the others.
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Returns the stream with TLS, whose handshake begins with the first bytes.
    pub(crate) fn with_tls(self, config: &Arc<ServerConfig>) -> io::Result<Stream> {
        let stream = TlsStream::server(Arc::clone(config), self)?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Completes the handshake of TLS, if there is one.
    pub(crate) fn handshake(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.handshake(),
        }
    }

    /// Returns `true` if the bytes of the socket are those of the stream.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Stream::Tls(_))
    }

    /// Sends small messages immediately, which a Unix socket does anyway.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true),
            Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.get_ref().set_nodelay(),
        }
    }

    /// Makes closing the stream a reset. A Unix socket has no resets: its peer reads the end of the
    /// stream.
    pub(crate) fn reset_on_close(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_linger(Some(Duration::ZERO)),
            Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.get_ref().reset_on_close(),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tls(stream) => stream.get_ref().set_read_timeout(timeout),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(timeout),
            Stream::Unix(stream) => stream.set_write_timeout(timeout),
            Stream::Tls(stream) => stream.get_ref().set_write_timeout(timeout),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tls(stream) => {
                // The client must see that this is the end, and not a part that is missing.
                if how != Shutdown::Read {
                    stream.close()?;
                }
                stream.get_ref().shutdown(how)
            }
        }
    }

    /// Sends the only response of a connection, and waits until the client has received it. An error
    /// means that the client has gone or takes too long.
    pub(crate) fn refuse(mut self: &Stream, response: &[u8]) -> io::Result<()> {
        timeout(REFUSAL_TIME_MAX, || self.write_all(response))??;
        self.linger();
        Ok(())
    }

    /// Shuts down the sending side, and waits for a bounded time until the client closes. Closing
    /// with unread bytes would reset the connection, and the reset could destroy the response on its
    /// way.
    ///
    /// Never inlined: a connection that waits for a request does without the kilobytes of this
    /// frame.
    #[inline(never)]
    pub(crate) fn linger(&self) {
        if self.shutdown(Shutdown::Write).is_err() {
            return;
        }
        // An error means that the client has gone or takes too long.
        let _ = timeout(LINGER_TIME_MAX, || {
            io::copy(&mut self.take(LINGER_BYTES_MAX), &mut io::sink())
        });
    }

    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.peek(buffer),
            Stream::Unix(stream) => stream.peek(buffer),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Fails if the stream is no longer connected, as after a reset.
    pub(crate) fn check_connected(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().map(drop),
            Stream::Unix(stream) => stream.peer_addr().map(drop),
            Stream::Tls(stream) => stream.get_ref().check_connected(),
        }
    }

    pub(crate) fn send_file(&self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        match self {
            Stream::Tcp(stream) => stream.send_file(file, offset, length),
            Stream::Unix(stream) => stream.send_file(file, offset, length),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Moves at most `bytes_max` bytes to another stream, inside the kernel.
    pub(crate) fn splice_to(&self, to: &Stream, bytes_max: u64) -> io::Result<u64> {
        let most = Some(bytes_max);
        match (self, to) {
            (Stream::Tcp(from), Stream::Tcp(to)) => splice(from, to, most),
            (Stream::Tcp(from), Stream::Unix(to)) => splice(from, to, most),
            (Stream::Unix(from), Stream::Tcp(to)) => splice(from, to, most),
            (Stream::Unix(from), Stream::Unix(to)) => splice(from, to, most),
            (Stream::Tls(_), _) | (_, Stream::Tls(_)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(buffer),
            Stream::Unix(stream) => (&*stream).read(buffer),
            Stream::Tls(stream) => (&**stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write(buffer),
            Stream::Unix(stream) => (&*stream).write(buffer),
            Stream::Tls(stream) => (&**stream).write(buffer),
        }
    }

    // The streams send all of it in one operation, which a loop over `write` would not.
    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => (&*stream).write_all(buffer),
            Stream::Unix(stream) => (&*stream).write_all(buffer),
            Stream::Tls(stream) => (&**stream).write_all(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.get_ref().as_fd(),
        }
    }
}

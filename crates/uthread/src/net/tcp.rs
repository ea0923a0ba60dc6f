//! TCP: a listener and its streams.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketAddrAny, SocketType};

use super::resolve::{ToSocketAddrs, for_each_address};
use super::timeouts::Settings;
use crate::op::Operation;
use crate::op::descriptor::{Descriptor, Watcher};
use crate::op::net::{PeerAddress, SOCKET_FLAGS, SocketOperation};
use crate::sched::wait;

/// A TCP connection, as [`std::net::TcpStream`].
///
/// Reads and writes go straight between the kernel and the caller's buffer. Timeouts are kept on
/// our side: setting one costs no system call.
#[derive(Debug)]
pub struct TcpStream {
    inner: std::net::TcpStream,
    settings: Arc<Settings>,
    watcher: Watcher,
}

impl TcpStream {
    /// Opens a connection to the first of the addresses that accepts one.
    ///
    /// # Errors
    ///
    /// The last address's, or the resolver's.
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        for_each_address(address, |address| connect(address, None))
    }

    /// The same for one address, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut` after the timeout, `InvalidInput` for a timeout of zero; the kernel's.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot set a 0 duration timeout",
            ));
        }
        match connect(*address, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "connection timed out",
            )),
            result => result,
        }
    }

    fn from_std(inner: std::net::TcpStream) -> TcpStream {
        TcpStream {
            inner,
            settings: Arc::default(),
            watcher: Watcher::new(),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Receives without removing from the queue, so that the next read gets the same bytes.
    ///
    /// # Errors
    ///
    /// As reading.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.settings.is_nonblocking() {
            return self.inner.peek(buffer);
        }
        self.receive(buffer, true)
    }

    fn receive(&self, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
        let mut operation = Operation::Socket(SocketOperation::Receive {
            socket: self.descriptor(),
            buffer,
            peek,
        });
        let count = wait::perform(&mut operation, self.settings.read_timeout.get())?;
        Ok(count as usize)
    }

    fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        let mut operation = Operation::Socket(SocketOperation::Send {
            socket: self.descriptor(),
            buffer,
        });
        let count = wait::perform(&mut operation, self.settings.write_timeout.get())?;
        Ok(count as usize)
    }

    /// Another handle to the same socket; timeouts are shared.
    ///
    /// # Errors
    ///
    /// The kernel's, `EMFILE` above all.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(TcpStream {
            inner: self.inner.try_clone()?,
            settings: Arc::clone(&self.settings),
            watcher: Watcher::new(),
        })
    }

    /// Closes one or both directions; calls waiting in them return.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOTCONN` where the peer has gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.inner.shutdown(how)
    }

    /// Bounds each read: after it, the call returns `WouldBlock`, as on Unix in `std`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.settings.read_timeout.set(timeout)
    }

    /// Bounds each write: after it, the call returns `WouldBlock`, as on Unix in `std`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.settings.write_timeout.set(timeout)
    }

    /// The bound of each read.
    ///
    /// # Errors
    ///
    /// None; the signature is `std`'s.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.settings.read_timeout.get())
    }

    /// The bound of each write.
    ///
    /// # Errors
    ///
    /// None; the signature is `std`'s.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.settings.write_timeout.get())
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.inner.set_nodelay(nodelay)
    }

    /// Whether small writes are sent at once.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.inner.nodelay()
    }

    /// Sets the time to live of outgoing packets, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.inner.set_ttl(ttl)
    }

    /// The time to live of outgoing packets, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.inner.ttl()
    }

    /// The pending error of the socket, which is cleared.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Whether calls return `WouldBlock` instead of waiting, in fibers too.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.inner.set_nonblocking(nonblocking)?;
        self.settings.set_nonblocking(nonblocking);
        Ok(())
    }
}

fn connect(address: SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let socket = socket_for(address)?;
    let mut operation = Operation::Socket(SocketOperation::Connect {
        socket: Descriptor {
            fd: socket.as_fd(),
            watcher: &Watcher::new(),
        },
        address: &SocketAddrAny::from(address),
    });
    wait::perform(&mut operation, timeout)?;
    Ok(TcpStream::from_std(socket.into()))
}

fn socket_for(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)?;
    Ok(socket)
}

impl Read for &TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.settings.is_nonblocking() {
            return (&self.inner).read(buffer);
        }
        self.receive(buffer, false)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.settings.is_nonblocking() {
            return (&self.inner).write(buffer);
        }
        self.send(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for TcpStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The timeouts set on the socket are taken over.
impl From<std::net::TcpStream> for TcpStream {
    fn from(inner: std::net::TcpStream) -> TcpStream {
        let stream = TcpStream::from_std(inner);
        // A socket that cannot tell has none; a timeout read is never zero.
        let _ = stream.set_read_timeout(stream.inner.read_timeout().unwrap_or(None));
        let _ = stream.set_write_timeout(stream.inner.write_timeout().unwrap_or(None));
        let flags = rustix::fs::fcntl_getfl(&stream);
        let nonblocking = flags.is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK));
        stream.settings.set_nonblocking(nonblocking);
        stream
    }
}

/// The timeouts are set on the socket.
impl From<TcpStream> for std::net::TcpStream {
    fn from(stream: TcpStream) -> std::net::TcpStream {
        // `setsockopt` and `fcntl` with valid arguments do not fail on an open socket.
        let settings = &stream.settings;
        let _ = stream.inner.set_read_timeout(settings.read_timeout.get());
        let _ = stream.inner.set_write_timeout(settings.write_timeout.get());
        if settings.raised_nonblock.swap(false, Ordering::Relaxed) {
            let _ = stream.inner.set_nonblocking(false);
        }
        stream.inner
    }
}

/// A socket that accepts connections, as [`std::net::TcpListener`].
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let server = uthread::spawn(move || {
///     let (mut stream, _peer) = listener.accept()?;
///     stream.write_all(b"welcome")
/// });
/// let mut text = String::new();
/// TcpStream::connect(address)?.read_to_string(&mut text)?;
/// assert_eq!(text, "welcome");
/// server.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpListener {
    inner: std::net::TcpListener,
    settings: Arc<Settings>,
    watcher: Watcher,
}

impl TcpListener {
    /// Listens at the first of the addresses that can be bound; port 0 asks for a free one.
    ///
    /// # Errors
    ///
    /// The last address's: `EADDRINUSE`, `EACCES`; or the resolver's.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        for_each_address(address, |address| {
            // Binding and listening never wait.
            std::net::TcpListener::bind(address).map(TcpListener::from_std)
        })
    }

    fn from_std(inner: std::net::TcpListener) -> TcpListener {
        TcpListener {
            inner,
            settings: Arc::default(),
            watcher: Watcher::new(),
        }
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE` and `ENFILE` without a free descriptor, `ECONNABORTED` where the
    /// peer has gone; the listener stays usable.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        if self.settings.is_nonblocking() {
            let (stream, peer) = self.inner.accept()?;
            return Ok((TcpStream::from_std(stream), peer));
        }
        let mut peer = PeerAddress::new();
        let mut operation = Operation::Socket(SocketOperation::Accept {
            listener: self.descriptor(),
            peer: &mut peer,
            raised_nonblock: &self.settings.raised_nonblock,
        });
        let result = loop {
            match wait::perform(&mut operation, None) {
                // Another driver has made the listener non-blocking, by which the ring goes.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_readable()?,
                result => break result?,
            }
        };
        let stream = operation.descriptor(result);
        Ok((TcpStream::from_std(stream.into()), peer.to_socket_addr()?))
    }

    fn wait_readable(&self) -> io::Result<()> {
        let mut readable = Operation::Socket(SocketOperation::Poll {
            descriptor: self.descriptor(),
            events: PollFlags::IN,
        });
        wait::perform(&mut readable, None)?;
        Ok(())
    }

    /// The connections as they come, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address it listens at.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Another handle to the same socket.
    ///
    /// # Errors
    ///
    /// The kernel's, `EMFILE` above all.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        Ok(TcpListener {
            inner: self.inner.try_clone()?,
            settings: Arc::clone(&self.settings),
            watcher: Watcher::new(),
        })
    }

    /// Sets the time to live of packets of accepted connections, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.inner.set_ttl(ttl)
    }

    /// The time to live of packets, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.inner.ttl()
    }

    /// The pending error of the socket, which is cleared.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Whether [`accept`](TcpListener::accept) returns `WouldBlock` instead of waiting.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.inner.set_nonblocking(nonblocking)?;
        self.settings.set_nonblocking(nonblocking);
        Ok(())
    }
}

/// The connections of a listener; see [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl From<std::net::TcpListener> for TcpListener {
    fn from(inner: std::net::TcpListener) -> TcpListener {
        let listener = TcpListener::from_std(inner);
        let flags = rustix::fs::fcntl_getfl(&listener);
        let nonblocking = flags.is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK));
        listener.settings.set_nonblocking(nonblocking);
        listener
    }
}

impl From<TcpListener> for std::net::TcpListener {
    fn from(listener: TcpListener) -> std::net::TcpListener {
        if listener
            .settings
            .raised_nonblock
            .swap(false, Ordering::Relaxed)
        {
            // `fcntl` with valid arguments does not fail on an open socket.
            let _ = listener.inner.set_nonblocking(false);
        }
        listener.inner
    }
}

macro_rules! impl_descriptor {
    ($($socket:ident),*) => {$(
        impl $socket {
            pub(super) fn descriptor(&self) -> Descriptor<'_> {
                Descriptor {
                    fd: self.as_fd(),
                    watcher: &self.watcher,
                }
            }
        }

        impl AsFd for $socket {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.inner.as_fd()
            }
        }

        impl AsRawFd for $socket {
            fn as_raw_fd(&self) -> RawFd {
                self.inner.as_raw_fd()
            }
        }

        impl From<OwnedFd> for $socket {
            fn from(fd: OwnedFd) -> $socket {
                std::net::$socket::from(fd).into()
            }
        }

        impl From<$socket> for OwnedFd {
            fn from(socket: $socket) -> OwnedFd {
                std::net::$socket::from(socket).into()
            }
        }

        impl IntoRawFd for $socket {
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }

        #[allow(unsafe_code, reason = "the trait's method is unsafe to call")]
        impl FromRawFd for $socket {
            unsafe fn from_raw_fd(fd: RawFd) -> $socket {
                // SAFETY: the caller owns the descriptor, as the trait demands.
                unsafe { OwnedFd::from_raw_fd(fd) }.into()
            }
        }
    )*};
}

impl_descriptor!(TcpStream, TcpListener);

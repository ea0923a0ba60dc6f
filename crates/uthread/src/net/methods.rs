//! The methods that several sockets have, written once. Each macro is given lines that make a
//! `socket`, for the examples.

/// What every socket has: clones, mode, errors, and conversions from and to `std`'s type and descriptors.
macro_rules! impl_socket {
    ($socket:ident, $std:ty, $example:literal) => {
        impl $socket {
            /// Another handle to the same socket, with the same timeouts and mode.
            ///
            /// # Errors
            ///
            /// The kernel's, `EMFILE` above all.
            ///
            /// ```
            #[doc = $example]
            /// let clone = socket.try_clone()?;
            /// # let _ = clone;
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn try_clone(&self) -> io::Result<$socket> {
                let socket = self.socket.try_clone(<$std>::try_clone)?;
                Ok($socket { socket })
            }

            /// The pending error of the socket, which is cleared.
            ///
            /// # Errors
            ///
            /// The kernel's.
            ///
            /// ```
            #[doc = $example]
            /// assert!(socket.take_error()?.is_none());
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.socket.inner.take_error()
            }

            /// Whether calls return `WouldBlock` instead of waiting, in fibers too.
            ///
            /// # Errors
            ///
            /// The kernel's.
            ///
            /// ```
            #[doc = $example]
            /// socket.set_nonblocking(true)?;
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.socket.set_nonblocking(nonblocking)
            }
        }

        impl fmt::Debug for $socket {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.socket.fmt(formatter)
            }
        }

        /// The timeouts set on the socket are taken over, and whether its calls wait.
        impl From<$std> for $socket {
            fn from(inner: $std) -> $socket {
                $socket {
                    socket: Socket::adopt(inner),
                }
            }
        }

        /// The timeouts are set on the socket.
        impl From<$socket> for $std {
            fn from(socket: $socket) -> $std {
                socket.socket.release()
            }
        }

        impl From<OwnedFd> for $socket {
            fn from(fd: OwnedFd) -> $socket {
                <$std>::from(fd).into()
            }
        }

        impl From<$socket> for OwnedFd {
            fn from(socket: $socket) -> OwnedFd {
                <$std>::from(socket).into()
            }
        }

        $crate::ring::registered_file::impl_registrable!($socket, socket.state);

        impl AsFd for $socket {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.socket.inner.as_fd()
            }
        }

        impl AsRawFd for $socket {
            fn as_raw_fd(&self) -> RawFd {
                self.socket.inner.as_raw_fd()
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
    };
}

/// Timeouts, which what carries data has.
macro_rules! impl_timeouts {
    ($socket:ident, $example:literal) => {
        impl $socket {
            /// Bounds each read: after it, the call returns `WouldBlock`, as on Unix in `std`. Kept on our
            /// side: setting it costs no system call.
            ///
            /// # Errors
            ///
            /// `InvalidInput` for zero.
            ///
            /// ```
            /// use std::time::Duration;
            #[doc = $example]
            /// let timeout = Some(Duration::from_secs(5));
            /// socket.set_read_timeout(timeout)?;
            /// assert_eq!(socket.read_timeout()?, timeout);
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.socket.settings.set_read_timeout(timeout)
            }

            /// Bounds each write: after it, the call returns `WouldBlock`, as on Unix in `std`. Kept on our
            /// side: setting it costs no system call.
            ///
            /// # Errors
            ///
            /// `InvalidInput` for zero.
            ///
            /// ```
            /// use std::time::Duration;
            #[doc = $example]
            /// let timeout = Some(Duration::from_secs(5));
            /// socket.set_write_timeout(timeout)?;
            /// assert_eq!(socket.write_timeout()?, timeout);
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.socket.settings.set_write_timeout(timeout)
            }

            /// The bound of each read, as in the example of [`set_read_timeout`](Self::set_read_timeout).
            ///
            /// # Errors
            ///
            /// None; the signature is `std`'s.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.settings.read_timeout())
            }

            /// The bound of each write, as in the example of [`set_write_timeout`](Self::set_write_timeout).
            ///
            /// # Errors
            ///
            /// None; the signature is `std`'s.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.settings.write_timeout())
            }
        }
    };
}

/// The sizes of the kernel's buffers.
macro_rules! impl_buffer_sizes {
    ($socket:ident, $example:literal) => {
        impl $socket {
            /// Bounds the bytes that wait in the kernel to be sent (`SO_SNDBUF`), up to `net.core.wmem_max`;
            /// the kernel doubles the number for what it needs itself.
            ///
            /// # Errors
            ///
            /// The kernel's; `EINVAL` for more than an `i32` holds.
            ///
            /// ```
            #[doc = $example]
            /// socket.set_send_buffer_size(64 * 1024)?;
            /// assert_eq!(socket.send_buffer_size()?, 2 * 64 * 1024);
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_socket_send_buffer_size(
                    self, bytes,
                )?)
            }

            /// How many bytes may wait in the kernel to be sent, with what it needs itself.
            /// See the example of [`set_send_buffer_size`](Self::set_send_buffer_size).
            ///
            /// # Errors
            ///
            /// The kernel's.
            pub fn send_buffer_size(&self) -> io::Result<usize> {
                Ok(rustix::net::sockopt::socket_send_buffer_size(self)?)
            }

            /// Bounds the bytes that wait in the kernel to be received (`SO_RCVBUF`), up to
            /// `net.core.rmem_max`; the kernel doubles the number for what it needs itself.
            ///
            /// # Errors
            ///
            /// The kernel's; `EINVAL` for more than an `i32` holds.
            ///
            /// ```
            #[doc = $example]
            /// socket.set_recv_buffer_size(64 * 1024)?;
            /// assert_eq!(socket.recv_buffer_size()?, 2 * 64 * 1024);
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_socket_recv_buffer_size(
                    self, bytes,
                )?)
            }

            /// How many bytes may wait in the kernel to be received, with what it needs itself.
            /// See the example of [`set_recv_buffer_size`](Self::set_recv_buffer_size).
            ///
            /// # Errors
            ///
            /// The kernel's.
            pub fn recv_buffer_size(&self) -> io::Result<usize> {
                Ok(rustix::net::sockopt::socket_recv_buffer_size(self)?)
            }
        }
    };
}

/// What connected datagram sockets have; they have a `send_whole` of their own.
macro_rules! impl_datagram {
    ($socket:ident, $example:literal) => {
        impl $socket {
            /// Sends a datagram to where the socket is connected.
            ///
            /// # Errors
            ///
            /// The kernel's: `EDESTADDRREQ` or `ENOTCONN` where it is not connected, `EMSGSIZE` for more than
            /// fits a datagram, `ECONNREFUSED` where nobody receives; `WouldBlock` after the timeout.
            ///
            /// ```
            #[doc = $example]
            /// assert_eq!(socket.send(b"text")?, 4);
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
                self.send_whole(buffer)
            }

            /// Receives a datagram. What does not fit into the buffer is lost.
            ///
            /// # Errors
            ///
            /// The kernel's: `ECONNREFUSED` where an earlier datagram found nobody; `WouldBlock` after the
            /// timeout.
            ///
            /// ```
            #[doc = $example]
            /// # let sent = socket.send(b"text")?;
            /// let mut buffer = [0; 100];
            /// let count = socket.recv(&mut buffer)?;
            /// # assert_eq!((sent, &buffer[..count]), (4, &b"text"[..]));
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.socket.receive(buffer, false)
            }

            /// As [`recv`](Self::recv), but the next receive gets the same datagram.
            ///
            /// # Errors
            ///
            /// As there.
            ///
            /// ```
            #[doc = $example]
            /// # let sent = socket.send(b"text")?;
            /// let (mut peeked, mut received) = ([0; 4], [0; 4]);
            /// socket.peek(&mut peeked)?;
            /// socket.recv(&mut received)?;
            /// assert_eq!(peeked, received);
            /// # assert_eq!((sent, &received), (4, b"text"));
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.socket.receive(buffer, true)
            }
        }
    };
}

/// `Read` and `Write`, for the owner and for who borrows, as streams of `std` have them.
macro_rules! impl_stream {
    ($socket:ident) => {
        impl Read for &$socket {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.socket.receive(buffer, false)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.socket.receive_vectored(buffers)
            }
        }

        impl Write for &$socket {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                self.socket.send(buffer)
            }

            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                self.socket.send_vectored(buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Read for $socket {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*self).read_vectored(buffers)
            }
        }

        impl Write for $socket {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                (&*self).write(buffer)
            }

            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*self).write_vectored(buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(super) use {impl_buffer_sizes, impl_datagram, impl_socket, impl_stream, impl_timeouts};

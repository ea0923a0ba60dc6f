//! TCP, UDP and Unix sockets, with the names of `std::net`.
//!
//! In a fiber, a call that has to wait suspends the fiber; outside the runtime it blocks the
//! thread. Plain types such as [`SocketAddr`] are re-exported from `std::net`.
//!
//! | to | use |
//! | --- | --- |
//! | accept TCP connections, and connect | [`TcpListener`], [`TcpStream`] |
//! | set options before that | [`TcpSocket`] |
//! | serve each connection in a fiber of its own, with a limit and a graceful end | [`serve`], [`serve_with_grace`] |
//! | write an accept loop that survives errors | [`AcceptFailure`] |
//! | exchange datagrams | [`UdpSocket`], [`UnixDatagram`] |
//! | talk to processes of this machine, pass them descriptors, learn their user | [`UnixListener`], [`UnixStream`], [`unix`] |
//! | take sockets from systemd | [`listeners_from_env`] |
//! | move bytes inside the kernel | [`TcpStream::send_file`], [`io::splice`](crate::io::splice) |
//! | limit the time of a call, or of a block | [`TcpStream::set_read_timeout`], [`timeout`](crate::timeout()) |
//!
//! A server that answers each line of a client, and a client:
//!
//! ```
//! use std::io::{self, BufRead, BufReader, Write};
//! use uthread::net::{self, TcpListener, TcpStream};
//!
//! fn answer(stream: &TcpStream) -> io::Result<()> {
//!     for line in BufReader::new(stream).lines() {
//!         writeln!(&mut &*stream, "{}", line?.to_uppercase())?;
//!     }
//!     Ok(())
//! }
//!
//! uthread::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let server = uthread::spawn(move || {
//!         net::serve(&listener, 1000, |stream, peer| {
//!             if let Err(error) = answer(&stream) {
//!                 eprintln!("{peer}: {error}");
//!             }
//!         })
//!     });
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"hello\n")?;
//!     let mut line = String::new();
//!     BufReader::new(&stream).read_line(&mut line)?;
//!     assert_eq!(line, "HELLO\n");
//!     server.cancel();
//!     Ok::<(), io::Error>(())
//! })?;
//! # Ok::<(), io::Error>(())
//! ```

mod methods;
mod settings;
mod socket;

mod inherited;
mod resolve;
mod send_file;
mod serve;
pub(crate) mod splice;
mod tcp;
mod udp;
pub mod unix;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

pub use inherited::{InheritedListener, InheritedSocket, listeners_from_env};
pub use resolve::ToSocketAddrs;
pub use serve::{AcceptFailure, Listener, serve, serve_with_grace};
pub use tcp::{Incoming, Keepalive, TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};

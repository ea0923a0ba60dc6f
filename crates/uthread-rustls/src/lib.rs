//! TLS on a stream, for two fibers or threads at once: one that reads, and one that writes.
//!
//! The session is locked only while it turns bytes into other bytes, and never while a caller waits
//! for the stream. So a peer that receives nothing does not keep what it sends from being read, as
//! [`rustls::StreamOwned`] behind a mutex would.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! use std::thread;
//!
//! use rustls::pki_types::CertificateDer;
//! use rustls::pki_types::pem::PemObject;
//! use uthread::net::UnixStream;
//! use uthread_rustls::{TlsStream, client_config, server_config};
//!
//! // What an authority would sign, in files.
//! let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! let folder = tempfile::tempdir()?;
//! let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
//! std::fs::write(&certificate, made.cert.pem())?;
//! std::fs::write(&key, made.signing_key.serialize_pem())?;
//!
//! let server = Arc::new(server_config(&certificate, &key, &["echo"])?);
//! let client = Arc::new(client_config([CertificateDer::from_pem_file(&certificate)?], &["echo"])?);
//! let (here, there) = UnixStream::pair()?;
//! let serving = uthread::spawn(move || {
//!     let stream = TlsStream::server(server, there)?;
//!     // Reads and writes at once: neither waits for the other.
//!     let sent = std::io::copy(&mut &stream, &mut &stream)?;
//!     stream.close()?;
//!     Ok::<_, std::io::Error>(sent)
//! });
//! let stream = TlsStream::client(client, "localhost".try_into()?, here)?;
//! stream.handshake()?;
//! assert_eq!(stream.alpn_protocol().as_deref(), Some(&b"echo"[..]));
//! (&stream).write_all(b"hello")?;
//! stream.close()?;
//! let mut text = String::new();
//! (&stream).read_to_string(&mut text)?;
//! assert_eq!((text.as_str(), serving.join().unwrap()?), ("hello", 5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, Read, Write};
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, Connection, RootCertStore, ServerConfig};
use uthread::sync;

pub use rustls;

/// Ciphertext to receive at a time: a page of the stack of a fiber that waits. The session collects
/// the parts of a record.
const RECEIVE_BYTES: usize = 4096;

/// Plaintext that is sent at once at most: what a record of TLS has.
pub const RECORD_BYTES: usize = 16 * 1024;

/// Reads a certificate with those of its issuers, and its key, both as PEM. `protocols` are those
/// that the server offers (ALPN), the best one first. See the example of the
/// [crate].
///
/// # Errors
///
/// The error of a file that cannot be read, and `InvalidData` for one that is no such PEM, both with
/// the path.
pub fn server_config(
    certificate: impl AsRef<Path>,
    key: impl AsRef<Path>,
    protocols: &[&str],
) -> io::Result<ServerConfig> {
    let (certificate, key) = (certificate.as_ref(), key.as_ref());
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| cannot_use(certificate, error))?;
    if chain.is_empty() {
        let missing = "there is no CERTIFICATE in PEM";
        return Err(cannot_use(certificate, missing));
    }
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?);
    let secret = secret.map_err(|error| cannot_use(key, error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let mut config = builder
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| cannot_use(certificate, format!("with {}: {error}", key.display())))?;
    config.alpn_protocols = names(protocols);
    Ok(config)
}

/// Returns the configuration of a client that trusts these certificates, and those that they have
/// signed. For the authorities of the web, give it those of the crate `webpki-root-certs` or
/// `rustls-native-certs`. See the example of the [crate].
///
/// # Errors
///
/// `InvalidData` for one that is no certificate.
pub fn client_config<'a>(
    trusted: impl IntoIterator<Item = CertificateDer<'a>>,
    protocols: &[&str],
) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        let added = roots.add(certificate.into_owned());
        added.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let mut config = builder
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = names(protocols);
    Ok(config)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    uthread::fs::read(path).map_err(|error| {
        let text = format!("cannot read {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

fn cannot_use(path: &Path, error: impl std::fmt::Display) -> io::Error {
    let text = format!("cannot use {}: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn names(protocols: &[&str]) -> Vec<Vec<u8>> {
    let names = protocols.iter().map(|name| name.as_bytes().to_vec());
    names.collect()
}

/// A stream whose references implement [`Read`] and [`Write`], as those of a
/// [`TcpStream`](uthread::net::TcpStream) do. Such a stream implements the trait by itself.
///
/// ```
/// fn takes(_: impl uthread_rustls::Duplex) {}
///
/// takes(uthread::net::UnixStream::pair()?.0);
/// takes(std::os::unix::net::UnixStream::pair()?.0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Duplex: duplex::Duplex {}

impl<S: duplex::Duplex> Duplex for S {}

mod duplex {
    use std::io::{self, Read, Write};

    /// The bound `&S: Read + Write`, of which the compiler does not try to infer `S`.
    pub trait Duplex {
        fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
        fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    }

    impl<S> Duplex for S
    where
        for<'s> &'s S: Read + Write,
    {
        fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
            (&*self).read(buffer)
        }

        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            (&*self).write(bytes)
        }
    }
}

/// TLS on a stream. References to it implement [`Read`] and [`Write`]: one fiber may read while
/// another one writes. See the example of the [crate].
///
/// The end that [`close`](TlsStream::close) states is the end for the peer's reads. A stream that ends
/// without it may have been cut off by somebody else: that is the error `UnexpectedEof`.
///
/// The stream may also be one that never waits. Then the calls fail with `WouldBlock`, and nothing
/// is lost: what could not be sent goes out with the next call of [`flush`](Write::flush) or
/// [`write`](Write::write).
#[derive(Debug)]
pub struct TlsStream<S> {
    stream: S,
    session: Mutex<Connection>,
    /// Received bytes that the session had no room for. Locked while more are received, so that their
    /// order stays.
    pending: sync::Mutex<Vec<u8>>,
    /// Ciphertext to send. Locked while more is taken from the session and sent, so that its order
    /// stays.
    unsent: sync::Mutex<Unsent>,
}

#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// Number of them that were sent.
    sent: usize,
}

impl Unsent {
    fn send(&mut self, stream: &impl Duplex) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match stream.send(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }
}

impl<S: Duplex> TlsStream<S> {
    /// Returns the server's side. The handshake begins with the first call that reads or writes.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    pub fn server(config: Arc<ServerConfig>, stream: S) -> io::Result<TlsStream<S>> {
        let session = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self::new(session.into(), stream))
    }

    /// Returns the client's side, for a server with this name.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    pub fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let session = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::new(session.into(), stream))
    }

    fn new(session: Connection, stream: S) -> TlsStream<S> {
        TlsStream {
            stream,
            session: Mutex::new(session),
            pending: sync::Mutex::default(),
            unsent: sync::Mutex::default(),
        }
    }

    /// Returns the stream below.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the protocol that both sides have chosen (ALPN), after the handshake.
    pub fn alpn_protocol(&self) -> Option<Vec<u8>> {
        self.session().alpn_protocol().map(<[u8]>::to_vec)
    }

    /// Completes the handshake.
    ///
    /// # Errors
    ///
    /// Those of the stream; `InvalidData` for what is no TLS, or a peer that is not trusted.
    pub fn handshake(&self) -> io::Result<()> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while self.session().is_handshaking() {
            self.send(&[])?;
            self.receive(&mut pending)?;
        }
        // What the last message of the peer has led to.
        self.send(&[]).map(drop)
    }

    /// States the end of what is written.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn close(&self) -> io::Result<()> {
        self.session().send_close_notify();
        self.send(&[]).map(drop)
    }

    /// Receives ciphertext once, and decrypts it. Never inlined: its buffer is on the stack.
    #[inline(never)]
    fn receive(&self, pending: &mut Vec<u8>) -> io::Result<()> {
        let mut received = [0; RECEIVE_BYTES];
        let before = mem::take(pending);
        let mut rest = before.as_slice();
        if rest.is_empty() {
            let count = self.stream.receive(&mut received)?;
            rest = &received[..count];
        }
        let mut session = self.session();
        let bytes = rest.len();
        loop {
            match session.read_tls(&mut rest) {
                Ok(0) if bytes == 0 && session.is_handshaking() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(_) => {}
                // A message of the handshake that is too large.
                Err(error) if rest.len() == bytes => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
                // The plaintext has to be read first.
                Err(_) => break,
            }
            match session.process_new_packets() {
                // What follows the end that the peer has stated is not read.
                Ok(state) if rest.is_empty() || state.peer_has_closed() => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    drop(session);
                    // The peer is told why, if it listens.
                    let _ = self.send(&[]);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        *pending = rest.to_vec();
        Ok(())
    }

    /// Encrypts and sends plaintext, and whatever the session has to send. Returns how much of the
    /// plaintext there was room for.
    fn send(&self, plaintext: &[u8]) -> io::Result<usize> {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        unsent.send(&self.stream)?;
        let mut session = self.session();
        // A session that has failed takes no plaintext, and has an alert to send.
        let count = match plaintext {
            [] => 0,
            _ => session.writer().write(plaintext)?,
        };
        while session.wants_write() {
            session.write_tls(&mut unsent.bytes)?;
        }
        drop(session);
        match unsent.send(&self.stream) {
            // It was taken, and goes out later.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && count > 0 => Ok(count),
            sent => sent.map(|()| count),
        }
    }

    fn session(&self) -> MutexGuard<'_, Connection> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Duplex> Read for &TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.session().is_handshaking() {
            self.handshake()?;
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.session().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.receive(&mut pending)?;
        }
    }
}

impl<S: Duplex> Write for &TlsStream<S> {
    fn write(&mut self, plaintext: &[u8]) -> io::Result<usize> {
        if self.session().is_handshaking() {
            self.handshake()?;
        }
        self.send(&plaintext[..plaintext.len().min(RECORD_BYTES)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(&[]).map(drop)
    }
}

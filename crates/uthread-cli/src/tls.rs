//! The server's side of TLS on a stream, for two fibers: one that reads, and one that writes.
//!
//! The session is locked only while it turns bytes into other bytes, and never while a fiber waits
//! for the stream. So a client that receives nothing does not keep what it sends from being read.

use std::fs;
use std::io::{self, Read, Write};
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uthread::sync;

use anyhow::Context;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

/// Ciphertext to receive at a time: a page of the stack of a fiber that waits. The session collects
/// the parts of a record.
const RECEIVE_BYTES: usize = 4096;
/// Plaintext to send at a time: the most that a record has.
pub(crate) const RECORD_BYTES: usize = 16 * 1024;

/// Reads a certificate with those of its issuers, and its key, both as PEM.
pub(crate) fn configure(
    certificate: &Path,
    key: &Path,
    protocols: &[&str],
) -> anyhow::Result<Arc<ServerConfig>> {
    let cannot_use = |path: &Path| format!("cannot use {}", path.display());
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| cannot_use(certificate))?;
    if chain.is_empty() {
        anyhow::bail!("{}: there is no CERTIFICATE in PEM", certificate.display());
    }
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?).with_context(|| cannot_use(key))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .with_context(|| format!("{} with {}", cannot_use(certificate), key.display()))?;
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(Arc::new(config))
}

#[derive(Debug)]
pub(crate) struct TlsStream<S> {
    stream: S,
    session: Mutex<ServerConnection>,
    /// Received bytes that the session had no room for.
    pending: Mutex<Vec<u8>>,
    /// Held while ciphertext is taken from the session and sent, so that its order stays.
    sending: sync::Mutex<()>,
}

impl<S> TlsStream<S>
where
    for<'s> &'s S: Read + Write,
{
    pub(crate) fn new(config: Arc<ServerConfig>, stream: S) -> io::Result<TlsStream<S>> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(TlsStream {
            stream,
            session: Mutex::new(session),
            pending: Mutex::default(),
            sending: sync::Mutex::new(()),
        })
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    /// Completes the handshake.
    pub(crate) fn handshake(&self) -> io::Result<()> {
        while self.session().is_handshaking() {
            self.receive()?;
            self.send(&[])?;
        }
        // What the last message of the client has led to.
        self.send(&[]).map(drop)
    }

    /// Reads plaintext; 0 at the end that the client has stated.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the stream ends without that; `InvalidData` for what is no TLS.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.receive()?;
        }
    }

    /// Writes the begin of the plaintext.
    pub(crate) fn write(&self, plaintext: &[u8]) -> io::Result<usize> {
        self.send(&plaintext[..plaintext.len().min(RECORD_BYTES)])
    }

    /// States the end of what is written.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.session().send_close_notify();
        self.send(&[]).map(drop)
    }

    /// Receives ciphertext once, and decrypts it. Never inlined: its buffer is on the stack.
    #[inline(never)]
    fn receive(&self) -> io::Result<()> {
        let mut received = [0; RECEIVE_BYTES];
        let pending = mem::take(&mut *lock(&self.pending));
        let mut rest = pending.as_slice();
        if rest.is_empty() {
            let count = (&self.stream).read(&mut received)?;
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
                // What follows the end that the client has stated is not read.
                Ok(state) if rest.is_empty() || state.peer_has_closed() => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    drop(session);
                    // The client is told why, if it listens.
                    let _ = self.send(&[]);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        *lock(&self.pending) = rest.to_vec();
        Ok(())
    }

    /// Encrypts and sends plaintext, and whatever the session has to send. Returns how much of the
    /// plaintext there was room for.
    fn send(&self, plaintext: &[u8]) -> io::Result<usize> {
        let _turn = self.sending.lock();
        let mut ciphertext = Vec::new();
        let mut session = self.session();
        let count = session.writer().write(plaintext)?;
        while session.wants_write() {
            session.write_tls(&mut ciphertext)?;
        }
        drop(session);
        if !ciphertext.is_empty() {
            (&self.stream).write_all(&ciphertext)?;
        }
        Ok(count)
    }

    fn session(&self) -> MutexGuard<'_, ServerConnection> {
        lock(&self.session)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

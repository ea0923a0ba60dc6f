//! Both sides of a session over sockets: directions at once, streams that never wait, and ends that the
//! peer has not stated.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ServerConfig};
use uthread::net::UnixStream;
use uthread::runtime::{Driver, Runtime};
use uthread_rustls::{Duplex, TlsStream, client_config, rustls, server_config};

const LONG: Duration = Duration::from_secs(20);
/// More than sockets hold.
const MANY_BYTES: usize = 3_000_001;

fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert", "key"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let trusted = CertificateDer::from_pem_file(&certificate).unwrap();
    (
        Arc::new(server_config(&certificate, &key, &[]).unwrap()),
        Arc::new(client_config([trusted], &[]).unwrap()),
    )
}

fn pair<C: Duplex, S: Duplex>(client: C, server: S) -> (TlsStream<C>, TlsStream<S>) {
    let (server_config, client_config) = configs();
    let name = "localhost".try_into().unwrap();
    (
        TlsStream::client(client_config, name, client).unwrap(),
        TlsStream::server(server_config, server).unwrap(),
    )
}

fn everywhere(test: impl Fn() + Clone + Send + 'static) {
    for (driver, workers) in [
        (Driver::Uring, 1),
        (Driver::Uring, 2),
        (Driver::Epoll, 1),
        (Driver::Threads, 2),
    ] {
        match Runtime::builder().driver(driver).workers(workers).build() {
            Ok(runtime) => runtime.run(test.clone()),
            Err(error) => eprintln!("not checked: {driver}: {error}"),
        }
    }
}

fn sockets() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    for stream in [&ours, &theirs] {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
    }
    (ours, theirs)
}

fn pattern(seed: usize) -> Vec<u8> {
    Vec::from_iter((0..MANY_BYTES).map(|index| ((index * 7 + seed) % 251) as u8))
}

fn read_all<S: Duplex>(mut stream: &TlsStream<S>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map(|_| bytes)
}

#[test]
fn both_sides_read_and_write_at_once() {
    everywhere(|| {
        let (ours, theirs) = sockets();
        let (client, server) = pair(ours, theirs);
        // Each sends all before it is done with reading: without a reader beside, both would wait.
        uthread::scope(|scope| {
            for (stream, sent, awaited) in [(&client, 1, 2), (&server, 2, 1)] {
                scope.spawn(move || {
                    let mut stream = stream;
                    stream.write_all(&pattern(sent)).unwrap();
                    stream.close().unwrap();
                });
                scope.spawn(move || assert!(read_all(stream).unwrap() == pattern(awaited)));
            }
        });
    });
}

/// A stream whose every other call would block.
struct Reluctant {
    stream: UnixStream,
    calls: AtomicUsize,
}

impl Reluctant {
    fn turn(&self) -> io::Result<&UnixStream> {
        match self.calls.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(&self.stream),
        }
    }
}

impl Read for &Reluctant {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.turn()?.read(buffer)
    }
}

impl Write for &Reluctant {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // In parts.
        self.turn()?.write(&bytes[..bytes.len().min(1000)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Repeats a call until it does not have to wait.
fn insist<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => uthread::yield_now(),
            result => return result,
        }
    }
}

#[test]
fn a_stream_that_never_waits_loses_nothing() {
    everywhere(|| {
        let (ours, theirs) = sockets();
        let reluctant = Reluctant {
            stream: ours,
            calls: AtomicUsize::new(0),
        };
        let (client, server) = pair(reluctant, theirs);
        uthread::scope(|scope| {
            scope.spawn(|| {
                let mut server = &server;
                let sent = read_all(server).unwrap();
                server.write_all(&sent).unwrap();
                server.close().unwrap();
            });
            let sent = pattern(3);
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let count = insist(|| (&client).write(rest)).unwrap();
                rest = &rest[count..];
            }
            insist(|| client.close()).unwrap();
            let mut received = Vec::new();
            loop {
                let mut bytes = [0; 5000];
                match insist(|| (&client).read(&mut bytes)).unwrap() {
                    0 => break,
                    count => received.extend_from_slice(&bytes[..count]),
                }
            }
            assert!(received == sent);
        });
    });
}

#[test]
fn an_end_that_is_not_stated_is_an_error() {
    everywhere(|| {
        let (ours, theirs) = sockets();
        let (client, server) = pair(ours, theirs);
        let sender = uthread::spawn(move || {
            (&client).write_all(b"part").unwrap();
            client.get_ref().shutdown(Shutdown::Write).unwrap();
            client
        });
        let error = read_all(&server).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
        drop(sender.join().unwrap());
    });
}

#[test]
fn what_is_no_tls_is_refused() {
    everywhere(|| {
        for text in ["GET / HTTP/1.1\r\n\r\n", ""] {
            let (ours, theirs) = sockets();
            let (_, server) = pair(UnixStream::pair().unwrap().0, theirs);
            (&ours).write_all(text.as_bytes()).unwrap();
            ours.shutdown(Shutdown::Write).unwrap();
            let kind = server.handshake().unwrap_err().kind();
            let expected = match text {
                "" => ErrorKind::UnexpectedEof,
                _ => ErrorKind::InvalidData,
            };
            assert_eq!(kind, expected);
        }
    });
}

#[test]
fn a_client_does_not_trust_any_certificate() {
    everywhere(|| {
        let (ours, theirs) = sockets();
        let (_, server) = pair(UnixStream::pair().unwrap().0, theirs);
        let (client, _) = pair(ours, UnixStream::pair().unwrap().0);
        let serving = uthread::spawn(move || server.handshake());
        assert_eq!(
            client.handshake().unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert!(serving.join().unwrap().is_err());
    });
}

//! TLS: both protocols by it, and clients that do not speak it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use uthread_http::Server;
use uthread_rustls::rustls::pki_types::CertificateDer;
use uthread_rustls::rustls::{ClientConfig, ServerConfig};
use uthread_rustls::{TlsStream, client_config, server_config};

use super::common::{LONG, SHORT, answer, everywhere, get, router};

struct Identity {
    server: ServerConfig,
    certificate: CertificateDer<'static>,
}

impl Identity {
    fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert", "key"].map(|name| folder.path().join(name));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Identity {
            server: server_config(&certificate, &key, &[]).unwrap(),
            certificate: made.cert.into(),
        }
    }

    fn server(&self) -> Server<uthread_http::Router> {
        let server = Server::new(router()).tls(self.server.clone());
        server.body_max(u64::MAX).head_timeout(4 * SHORT)
    }

    fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        Arc::new(client_config([self.certificate.clone()], protocols).unwrap())
    }

    fn connect(&self, address: SocketAddr, protocols: &[&str]) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let name = "localhost".try_into().unwrap();
        let stream = TlsStream::client(self.client(protocols), name, stream).unwrap();
        stream.handshake().unwrap();
        stream
    }
}

#[test]
fn requests_of_one_connection_are_answered() {
    const BYTES: usize = 3 << 20;
    let identity = Identity::new();
    everywhere(
        || identity.server(),
        |address| {
            let stream = identity.connect(address, &["http/1.1"]);
            assert_eq!(stream.alpn_protocol().unwrap(), b"http/1.1");
            let mut reader = BufReader::new(&stream);
            // The echo is on its way while the request is.
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut stream = &stream;
                    let head = format!(
                        "POST /echo HTTP/1.1\r\nHost: here\r\nContent-Length: {BYTES}\r\n\r\n"
                    );
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(&vec![b'x'; BYTES]).unwrap();
                    stream
                        .write_all(
                            get("/hello/a")
                                .replace("Host", "Connection: close\r\nHost")
                                .as_bytes(),
                        )
                        .unwrap();
                });
                let (status, _, body) = answer(&mut reader).unwrap();
                assert_eq!((status, body.len()), (200, BYTES));
                // The end is stated.
                let mut text = String::new();
                reader.read_to_string(&mut text).unwrap();
                assert!(text.ends_with("\r\n\r\nhello a"), "{text}");
            });
        },
    );
}

#[cfg(feature = "http2")]
#[test]
fn http2_is_chosen_by_the_handshake() {
    use super::http2::{DATA, GET_HELLO, HEADERS, PREFACE, SETTINGS, frame, read_frame};

    let identity = Identity::new();
    everywhere(
        || identity.server(),
        |address| {
            let stream = identity.connect(address, &["h2", "http/1.1"]);
            assert_eq!(stream.alpn_protocol().unwrap(), b"h2");
            let sent = [
                PREFACE,
                &frame(SETTINGS, 0, 0, b""),
                &frame(HEADERS, 5, 1, GET_HELLO),
            ];
            (&stream).write_all(&sent.concat()).unwrap();
            loop {
                match read_frame(&mut &stream) {
                    Some((DATA, 1)) => break,
                    Some(_) => {}
                    None => panic!("the connection ends"),
                }
            }
        },
    );
}

#[test]
fn clients_without_tls_are_left() {
    let identity = Identity::new();
    everywhere(
        || identity.server(),
        |address| {
            for text in [&get("/hello/a"), ""] {
                let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
                stream.get_ref().set_read_timeout(Some(LONG)).unwrap();
                stream.get_mut().write_all(text.as_bytes()).unwrap();
                let start = Instant::now();
                // At most an alert.
                let end = stream.skip_until(b'\n').map_err(|error| error.kind());
                assert!(
                    matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)),
                    "{end:?}"
                );
                assert!(start.elapsed() < LONG / 2);
            }
        },
    );
}

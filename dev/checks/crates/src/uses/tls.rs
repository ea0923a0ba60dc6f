//! TLS between fibers: a blocking client of another crate, and a server of rustls over a stream of
//! uthread.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use uthread::net::TcpListener;

use super::web::answer;
use super::{Use, both};

pub(super) const USES: &[Use] = &[
    Use::new(
        "ureq-rustls",
        "a client, of a TLS server in a fiber",
        ureq_rustls,
    )
    .by_itself(),
    Use::new(
        "native-tls",
        "a client by OpenSSL, of a TLS server in a fiber",
        native,
    )
    .by_itself(),
];

/// Number of connections.
const CONNECTIONS: usize = 2;

/// Serves in a fiber, and calls `get` with the port and the server's certificate in another one.
fn serve(get: impl Fn(u16, &CertificateDer<'static>) -> String + Sync) {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let identity = identity.expect("a certificate");
    let certificate = identity.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.clone()], key.into());
    let config = Arc::new(config.expect("a certificate and its key"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    both(
        || {
            for _ in 0..CONNECTIONS {
                let (mut stream, _) = listener.accept().expect("a client");
                let connection = ServerConnection::new(Arc::clone(&config));
                let mut connection = connection.expect("a connection");
                answer(rustls::Stream::new(&mut connection, &mut stream));
                connection.send_close_notify();
                connection.write_tls(&mut stream).expect("a client");
            }
        },
        || {
            for _ in 0..CONNECTIONS {
                let response = get(port, &certificate);
                assert!(response.ends_with("a page from a fiber"), "{response}");
            }
        },
    );
}

fn ureq_rustls() {
    serve(|port, certificate| {
        let certificates = [Certificate::from_der(certificate).to_owned()];
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates));
        let config = ureq::Agent::config_builder().tls_config(tls.build());
        let response = config
            .build()
            .new_agent()
            .get(format!("https://localhost:{port}/"))
            .call();
        let mut response = response.expect("a response");
        response.body_mut().read_to_string().expect("a body")
    });
}

fn native() {
    serve(|port, certificate| {
        let certificate = native_tls::Certificate::from_der(certificate).expect("a certificate");
        let connector = native_tls::TlsConnector::builder()
            .add_root_certificate(certificate)
            .build()
            .expect("a connector");
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a server");
        let mut stream = connector.connect("localhost", stream).expect("a handshake");
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("a server");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    });
}

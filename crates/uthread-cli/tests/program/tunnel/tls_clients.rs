//! TLS between clients and the proxy.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rcgen::generate_simple_self_signed;
use rustix::process::Signal;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use super::users::{RIGHT, USERS};
use super::{Target, drivers};
use crate::harness::{Client, HANG, Program, command, site};

/// Number of bytes, above what sockets hold together.
const MANY_BYTES: usize = 5_000_003;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A folder with a certificate and its key.
struct Identity(TempDir);

impl Identity {
    fn new() -> Identity {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Identity(site(&[
            ("cert", &certificate),
            ("key", &key),
            ("users", USERS),
        ]))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Starts a proxy that allows this target.
    fn proxy(&self, target: &Target, args: &[&str]) -> Program {
        let (certificate, key) = (self.path("cert"), self.path("key"));
        let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
        target.proxy(&[&tls, args].concat())
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.path("cert")).unwrap();
        roots.add(certificate).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(builder.with_no_client_auth())
    }

    fn connect(&self, proxy: &Program) -> Tls {
        let name = "localhost".try_into().unwrap();
        let session = ClientConnection::new(self.config(), name).unwrap();
        let stream = TcpStream::connect(proxy.addr).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_write_timeout(Some(HANG)).unwrap();
        StreamOwned::new(session, stream)
    }
}

fn head(client: &mut Tls) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Establishes a tunnel.
fn tunnel(client: &mut Tls, target: &Target) -> Client {
    let host = target.addr;
    write!(client, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    assert!(head(client).starts_with("HTTP/1.1 200 "));
    target.accept()
}

#[test]
fn tunnels_and_requests_within_tls() {
    let identity = Identity::new();
    for driver in drivers() {
        let target = Target::start();
        let users = identity.path("users");
        let proxy = identity.proxy(&target, &["--driver", driver, "--users", &users]);
        assert!(
            proxy.startup_line.contains(" over TLS ("),
            "{}",
            proxy.startup_line
        );
        let mut client = identity.connect(&proxy);
        let host = target.addr;
        write!(
            client,
            "GET http://{host}/ HTTP/1.1\r\nHost: a\r\n{RIGHT}\r\n"
        )
        .unwrap();
        let mut server = target.accept();
        server.head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert!(head(&mut client).starts_with("HTTP/1.1 200 OK"));
        let mut body = [0; 2];
        client.read_exact(&mut body).unwrap();
        write!(client, "CONNECT {host} HTTP/1.1\r\nHost: a\r\n{RIGHT}\r\n").unwrap();
        assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
        let mut server = target.accept();
        client.write_all(b"question").unwrap();
        assert_eq!(server.read_exact(8), b"question");
        server.send("answer");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        // Each end is passed on by itself, and stated.
        server.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        client.write_all(b"more").unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        assert_eq!(server.rest(), b"more");

        let mut client = identity.connect(&proxy);
        write!(client, "CONNECT {host} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut refused = String::new();
        client.read_to_string(&mut refused).unwrap();
        assert!(refused.starts_with("HTTP/1.1 407 "), "{refused}");
    }
}

#[test]
fn many_bytes_both_ways() {
    let bytes: Vec<u8> = (0..MANY_BYTES).map(|at| (at % 251) as u8).collect();
    let identity = Identity::new();
    for driver in drivers() {
        let target = Target::start();
        let proxy = identity.proxy(&target, &["--driver", driver, "--workers", "2"]);
        let mut client = identity.connect(&proxy);
        let mut server = tunnel(&mut client, &target);
        client.write_all(&bytes).unwrap();
        assert!(server.read_exact(MANY_BYTES) == bytes);
        thread::scope(|scope| {
            scope.spawn(|| server.send(&bytes));
            let mut received = vec![0; MANY_BYTES];
            client.read_exact(&mut received).unwrap();
            assert!(received == bytes);
        });
    }
}

/// A lock that is held while the proxy sends would keep it from receiving.
#[test]
fn a_client_that_receives_nothing_can_send() {
    let identity = Identity::new();
    let target = Target::start();
    let proxy = identity.proxy(&target, &["--workers", "1"]);
    let mut client = identity.connect(&proxy);
    let mut server = tunnel(&mut client, &target);
    let bytes = vec![7; 2 * MANY_BYTES];
    let to = server.get_ref().try_clone().unwrap();
    thread::scope(|scope| {
        // Blocks until the connection ends.
        scope.spawn(|| (&to).write_all(&bytes));
        client.write_all(&bytes[..MANY_BYTES]).unwrap();
        assert!(server.read_exact(MANY_BYTES) == bytes[..MANY_BYTES]);
        to.shutdown(Shutdown::Both).unwrap();
    });
}

#[test]
fn an_end_that_is_not_stated_is_a_reset() {
    let identity = Identity::new();
    let target = Target::start();
    let mut proxy = identity.proxy(&target, &["--log", "json"]);
    let mut client = identity.connect(&proxy);
    let mut server = tunnel(&mut client, &target);
    client.write_all(b"part").unwrap();
    assert_eq!(server.read_exact(4), b"part");
    client.sock.shutdown(Shutdown::Write).unwrap();
    let end = server.get_ref().read(&mut [0]).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    let line = proxy.stdout_line();
    assert!(line.contains("\"end\":\"truncated\""), "{line}");
}

#[test]
fn clients_that_speak_no_tls() {
    let identity = Identity::new();
    let target = Target::start();
    let args = ["--log", "json", "--header-timeout", "200ms"];
    let mut proxy = identity.proxy(&target, &args);
    let nonsense = [&b"\x16\x03\x01\x40\x00"[..], &[0; 70_000]].concat();
    for begin in [&b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"[..], &nonsense] {
        let mut client = proxy.connect();
        // The proxy may close before it has read all of it.
        let _ = client.get_ref().write_all(begin);
        client.count_rest();
        let line = proxy.stdout_line();
        assert!(
            line.contains("\"failure\":\"the TLS handshake failed: "),
            "{line}"
        );
        assert!(line.contains("\"end\":\"refused\""), "{line}");
    }
    // Late ones, whether they send nothing or the begin of a message.
    for begin in [&b""[..], b"\x16\x03\x01\x40\x00"] {
        let mut client = proxy.connect();
        client.send(begin);
        client.count_rest();
        let line = proxy.stdout_line();
        assert!(line.contains("\"status\":408"), "{line}");
    }
    // Those that only look whether there is a proxy.
    drop(proxy.connect());
    let line = proxy.stdout_line();
    assert!(line.contains("\"end\":\"closed\""), "{line}");
}

#[test]
fn a_forwarder_with_tls() {
    let identity = Identity::new();
    let target = Target::start();
    let (to, certificate, key) = (
        target.addr.to_string(),
        identity.path("cert"),
        identity.path("key"),
    );
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    let forwarder = Program::tunnel(&[&["--to", &to], &tls[..]].concat());
    let mut client = identity.connect(&forwarder);
    client.write_all(b"x").unwrap();
    assert_eq!(target.accept().read_exact(1), b"x");
}

#[test]
fn a_reload_replaces_the_certificate() {
    let (identity, other) = (Identity::new(), Identity::new());
    let target = Target::start();
    let mut proxy = identity.proxy(&target, &[]);
    let mut before = identity.connect(&proxy);
    let mut server = tunnel(&mut before, &target);
    // Only the certificate, which does not fit the key.
    fs::copy(other.path("cert"), identity.path("cert")).unwrap();
    proxy.signal(Signal::HUP);
    proxy.stderr_line("kept the settings: cannot use ");
    fs::copy(other.path("key"), identity.path("key")).unwrap();
    proxy.signal(Signal::HUP);
    proxy.stderr_line("reloaded the settings");
    tunnel(&mut other.connect(&proxy), &target);
    before.write_all(b"x").unwrap();
    assert_eq!(server.read_exact(1), b"x");
}

#[test]
fn certificates_that_are_refused() {
    let identity = Identity::new();
    let (certificate, key, users) = (
        identity.path("cert"),
        identity.path("key"),
        identity.path("users"),
    );
    for (files, message) in [
        ([&certificate, &users], format!("cannot use {users}: ")),
        (
            [&users, &key],
            format!("{users}: there is no CERTIFICATE in PEM"),
        ),
        (
            [&certificate, &"/missing".to_owned()],
            "cannot read /missing: ".to_owned(),
        ),
    ] {
        let args = [
            "tunnel",
            "--check",
            "--allow",
            "*:1",
            "--tls-certificate",
            files[0],
            "--tls-key",
            files[1],
        ];
        let output = command(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(&message), "{text}");
    }
    let args = ["tunnel", "--check", "--allow", "*:1", "--tls-key", &key];
    let output = command(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn curl_uses_a_proxy_with_tls() {
    let identity = Identity::new();
    let served = Program::serve(&[("a", "a page\n")], &[]);
    let allowed = served.addr.to_string();
    let (certificate, key) = (identity.path("cert"), identity.path("key"));
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    let proxy = Program::tunnel(&[&["--allow", &allowed], &tls[..]].concat());
    let proxy = format!("https://localhost:{}", proxy.addr.port());
    let url = format!("http://{allowed}/a");
    for tunnel in [&[][..], &["--proxytunnel"]] {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--fail",
                "--max-time",
                "20",
                "--noproxy",
                "",
            ])
            .args(["--proxy", &proxy, "--proxy-cacert", &certificate, &url])
            .args(tunnel)
            .output();
        let Ok(output) = output else {
            println!("not checked: curl is not installed");
            return;
        };
        assert_eq!(output.stdout, b"a page\n", "{output:?}");
    }
}

//! HTTPS with rustls, which accepts any stream: a server and a client on fibers, and then `curl`.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use uthread::io::{BufRead, BufReader, Read, Write};
use uthread::net::{TcpListener, TcpStream};
use uthread::process::Command;

const PAGE: &str = "a page from a fiber\n";

fn main() -> Result<()> {
    uthread::run(|| {
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let certificate = identity.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
        let server = ServerConfig::builder().with_no_client_auth();
        let server = Arc::new(server.with_single_cert(vec![certificate.clone()], key.into())?);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        uthread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&server));
                uthread::spawn(|| answer(connection?, stream));
            }
        });

        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let client = ClientConfig::builder().with_root_certificates(roots);
        let client = Arc::new(client.with_no_client_auth());
        let mut connection = ClientConnection::new(client, "localhost".try_into()?)?;
        let mut stream = TcpStream::connect(("localhost", port))?;
        let mut stream = rustls::Stream::new(&mut connection, &mut stream);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        ensure!(response.ends_with(PAGE), "{response}");
        let version = connection.protocol_version().context("a handshake")?;
        print!("rustls, {version:?}: {PAGE}");

        let trusted = tempfile::NamedTempFile::new()?;
        uthread::fs::write(&trusted, identity.cert.pem())?;
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--cacert"])
            .arg(trusted.path());
        curl.arg(format!("https://localhost:{port}/"));
        let output = curl.output().context("curl, which has to be installed")?;
        print!("curl: {}", String::from_utf8(output.stdout)?);
        Ok(())
    })
}

fn answer(mut connection: ServerConnection, mut stream: TcpStream) -> Result<()> {
    let mut stream = rustls::Stream::new(&mut connection, &mut stream);
    let lines = BufReader::new(&mut stream).lines().map_while(Result::ok);
    let fields = lines.take_while(|line| !line.is_empty()).count();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nFields: {fields}\r\nConnection: close\r\n\r\n{PAGE}"
    )?;
    stream.conn.send_close_notify();
    Ok(stream.flush()?)
}

//! A client and a server of others: curl through the proxy to openssl.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::drivers;
use crate::harness::{Program, refusing_socket, wait_until};

/// A TLS server that serves the files of its directory; killed when dropped.
struct Server {
    child: Child,
    dir: TempDir,
    port: u16,
    /// Keeps the port from other tests until the server listens.
    _reserved: OwnedFd,
}

impl Server {
    /// Returns `None` if a program is missing.
    fn start() -> Option<Server> {
        if Command::new("curl").arg("--version").output().is_err() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let certify = Command::new("openssl")
            .current_dir(&dir)
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert",
            ])
            .args([
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .output()
            .ok()?;
        assert!(certify.status.success(), "{certify:?}");
        let (reserved, address) = refusing_socket();
        let child = Command::new("openssl")
            .current_dir(&dir)
            .args([
                "s_server", "-quiet", "-key", "key", "-cert", "cert", "-WWW", "-accept",
            ])
            .arg(address.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Server {
            child,
            dir,
            port: address.port(),
            _reserved: reserved,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn curl_reaches_a_tls_server() {
    let Some(server) = Server::start() else {
        println!("not checked: curl or openssl is not installed");
        return;
    };
    let content: Vec<u8> = (0..3_000_000_usize).map(|at| (at % 251) as u8).collect();
    fs::write(server.dir.path().join("file"), &content).unwrap();
    let target = format!("localhost:{}", server.port);
    for driver in drivers() {
        let proxy = Program::tunnel(&["--allow", &target, "--driver", driver]);
        let get = |url: &str| {
            Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--fail",
                    "--max-time",
                    "20",
                    "--http1.1",
                    "--cacert",
                ])
                .arg(server.dir.path().join("cert"))
                .args([
                    "--noproxy",
                    "",
                    "--proxy",
                    &format!("http://{}", proxy.addr),
                    url,
                ])
                .output()
                .unwrap()
        };
        let mut output = None;
        // The server needs a moment to start.
        wait_until(|| {
            let found = get(&format!("https://{target}/file"));
            let done = found.status.success();
            output = Some(found);
            done
        });
        assert!(output.unwrap().stdout == content);
        let denied = get("https://127.0.0.2/");
        assert!(!denied.status.success());
        let text = String::from_utf8(denied.stderr).unwrap();
        assert!(text.contains("403"), "{text}");
    }
}

//! The configurations in the guide's chapter on production: their programs accept them, and they do
//! what it says.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Load, PASS, await_requests, free};
use crate::harness::{Program, command, site};

const CHAPTER: &str = include_str!("../../../../uthread/src/guide/production.md");

/// Returns the examples of the chapter in this language.
fn examples(language: &str) -> Vec<String> {
    let (begin, end) = (format!("```{language}\n"), "```");
    let rest = CHAPTER.split(&begin).skip(1);
    rest.map(|rest| rest.split(end).next().unwrap().to_owned())
        .collect()
}

/// Returns `true` if this program is installed.
fn has(program: &str, version: &str) -> bool {
    let found = Command::new(program).arg(version).output().is_ok();
    if !found {
        println!("not checked: {program} is not installed");
    }
    found
}

#[test]
fn systemd_accepts_the_units() {
    if !has("systemd-analyze", "--version") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_uthread");
    let [socket, service] = &examples("ini")[..] else {
        panic!("the chapter has two units");
    };
    let service = service.replace("/usr/local/bin/uthread", program);
    assert!(service.contains(program), "{service}");
    let units = [("site.socket", socket), ("site.service", &service)].map(|(name, text)| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let mut verify = Command::new("systemd-analyze");
    let output = verify.arg("verify").args(units).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    // Units of the machine may have faults of their own.
    let findings = text.lines().filter(|line| line.contains("site."));
    assert_eq!(Vec::from_iter(findings), Vec::<&str>::new());
    assert!(output.status.success(), "{text}");
}

/// A port that no other program gets while no server listens on it.
struct Port {
    addr: SocketAddr,
    _bound: OwnedFd,
}

impl Port {
    fn reserve() -> Port {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        sockopt::set_socket_reuseport(&socket, true).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let addr = rustix::net::getsockname(&socket).unwrap();
        Port {
            addr: addr.try_into().unwrap(),
            _bound: socket,
        }
    }

    fn serve(&self, dir: &Path) -> Program {
        let listen = self.addr.to_string();
        let mut command = command(&["serve", "--reuse-port", "--listen", &listen]);
        Program::serving(command.arg(dir).stdin(Stdio::null()))
    }
}

/// A running HAProxy; killed when dropped.
struct Balancer(Child);

impl Balancer {
    fn start(socket: impl Into<OwnedFd>, config: &Path) -> Balancer {
        let mut command = Command::new("sh");
        command
            .args(["-c", PASS, "haproxy", "-db", "-f"])
            .arg(config)
            .stdin(Stdio::from(socket.into()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Balancer(command.spawn().unwrap())
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn servers_behind_haproxy_are_replaced_under_load_without_a_failed_request() {
    if !has("haproxy", "-v") {
        return;
    }
    let files = site(&[("a", "hello"), ("health", "")]);
    let ports = [(); 3].map(|()| Port::reserve());
    let mut servers = ports.each_ref().map(|port| port.serve(files.path()));

    let socket = free();
    let front = socket.local_addr().unwrap().to_string();
    let mut config = format!("global\n    maxconn 1000\n{}", examples("haproxy")[0]);
    let bound = ("bind :80".to_owned(), "bind fd@3".to_owned());
    let each = (8081..).zip(&ports);
    let each = each.map(|(port, own)| (format!("127.0.0.1:{port}"), own.addr.to_string()));
    for (from, to) in each.chain([bound]) {
        assert!(config.contains(&from), "{from} in {config}");
        config = config.replace(&from, &to);
    }
    let path = files.path().join(".haproxy.cfg");
    fs::write(&path, config).unwrap();
    let _balancer = Balancer::start(socket, &path);

    let load = Load::start(&front, &[]);
    for server in &mut servers {
        await_requests(server, 10);
    }
    for (server, port) in servers.iter_mut().zip(&ports) {
        server.terminate();
        assert_eq!(server.exit_code(), 0);
        *server = port.serve(files.path());
        await_requests(server, 10);
    }
    load.end();
}

//! Sockets that several processes share or inherit, and the service manager that passes them.

mod production;
mod unix;

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{self, Child, Command, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Client, HANG, Program, command, site, wait_until};
use crate::restrict::has_ring;

/// Starts the program that its arguments name, with its standard input as descriptor 3.
const PASS: &str = r#"LISTEN_PID=$$; export LISTEN_PID; exec "$0" "$@" 3<&0 </dev/null"#;

/// Returns a command that passes this socket to the program.
fn inheriting(socket: impl Into<OwnedFd>, args: &[&str]) -> Command {
    passing(PASS, socket, args)
}

fn passing(script: &str, socket: impl Into<OwnedFd>, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_uthread")])
        .args(args)
        .env("LISTEN_FDS", "1")
        .stdin(Stdio::from(socket.into()));
    command
}

fn free() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Serves the directory on a socket that is open in this process, too.
fn serving(socket: &TcpListener, dir: &Path, args: &[&str]) -> Program {
    let socket = socket.try_clone().unwrap();
    Program::serving(inheriting(socket, &["serve"]).arg(dir).args(args))
}

fn received(manager: &UnixDatagram) -> String {
    manager.set_read_timeout(Some(HANG)).unwrap();
    let mut buffer = [0; 100];
    let count = manager.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

#[test]
fn an_inherited_socket_is_served_as_reported_to_the_manager() {
    let files = site(&[("a", "hello")]);
    let path = files.path().join(".manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    let socket = free();
    let mut command = inheriting(socket.try_clone().unwrap(), &["serve", "--log", "off"]);
    let mut program = Program::serving(command.arg(files.path()).env("NOTIFY_SOCKET", &path));
    assert_eq!(received(&manager), "READY=1");
    let line = &program.startup_line;
    assert!(line.ends_with(", inherited socket)\n"), "{line}");
    assert_eq!(program.addr, socket.local_addr().unwrap());
    assert_eq!(program.get("/a").text(), "hello");
    program.terminate();
    assert_eq!(received(&manager), "STOPPING=1");
    assert_eq!(program.exit_code(), 0);
    // A connection waits for the next process.
    let mut client = Client::new(TcpStream::connect(program.addr).unwrap());
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let _next = serving(&socket, files.path(), &["--log", "off"]);
    assert_eq!(client.response().text(), "hello");
}

#[test]
fn the_other_servers_inherit_and_report_too() {
    let name = format!("uthread-test-{}", process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    let socket = free();
    let inheriting = |args: &[&str]| {
        let mut command = inheriting(socket.try_clone().unwrap(), args);
        command.env("NOTIFY_SOCKET", format!("@{name}"));
        command
    };
    let echo = Program::echoing(&mut inheriting(&["echo"]));
    assert_eq!(received(&manager), "READY=1");
    assert_eq!(
        echo.startup_line,
        format!("listening on {}, inherited socket\n", echo.addr)
    );
    let mut client = echo.connect();
    client.send("hello");
    assert_eq!(client.read_exact(5), b"hello");
    drop(echo);

    let target = Program::echo(&[]);
    let to = target.addr.to_string();
    let mut tunnel = Program::tunnelling(&mut inheriting(&["tunnel", "--to", &to]));
    assert_eq!(received(&manager), "READY=1");
    let line = &tunnel.startup_line;
    assert!(line.ends_with(", inherited socket)\n"), "{line}");
    let mut client = tunnel.connect();
    client.send("hello");
    assert_eq!(client.read_exact(5), b"hello");
    drop(client);
    tunnel.terminate();
    assert_eq!(received(&manager), "STOPPING=1");
    assert_eq!(tunnel.exit_code(), 0);
}

#[test]
fn sockets_and_managers_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    let absent = absent.to_str().unwrap();
    let check = |mut command: Command, variable: (&str, &str), pieces: &[&str]| {
        let command = command.env(variable.0, variable.1);
        let Output { status, stderr, .. } = command.stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        for piece in pieces {
            assert!(stderr.contains(piece), "{piece} in {stderr}");
        }
    };
    let echo = |socket: OwnedFd| inheriting(socket, &["echo"]);
    let none = ("LISTEN_FDS", "none");
    check(
        echo(free().into()),
        none,
        &["LISTEN_FDS=none is not a number"],
    );
    let two = ("LISTEN_FDS", "2");
    check(echo(free().into()), two, &["descriptor 4 of LISTEN_FDS is"]);
    let one = ("LISTEN_FDS", "1");
    let twice = passing(&PASS.replace("3<&0", "3<&0 4<&0"), free(), &["echo"]);
    check(twice, two, &["there are 2: pass only one"]);
    check(
        echo(UnixDatagram::unbound().unwrap().into()),
        one,
        &["descriptor 3 of LISTEN_FDS is"],
    );
    let shared = inheriting(free(), &["echo", "--reuse-port"]);
    check(shared, one, &["--reuse-port", "ReusePort="]);
    let listen = || command(&["echo", "--listen", "127.0.0.1:0"]);
    for name in ["manager", absent] {
        let variable = format!("NOTIFY_SOCKET={name}; unset it");
        check(listen(), ("NOTIFY_SOCKET", name), &[&variable]);
    }
}

/// Serves the directory on the port of others.
fn sharing(dir: &Path, port: &str) -> Program {
    let mut command = command(&["serve", "--reuse-port", "--log", "off", "--listen", port]);
    Program::serving(command.arg(dir).stdin(Stdio::null()))
}

#[test]
fn two_processes_share_a_port() {
    let sites = ["one", "two"].map(|text| site(&[("who", text)]));
    let one = sharing(sites[0].path(), "127.0.0.1:0");
    let port = one.addr.to_string();
    let mut two = sharing(sites[1].path(), &port);
    assert_eq!(one.addr, two.addr);
    for missing in ["one", "two"] {
        wait_until(|| one.get("/who").text() == missing);
    }
    let alone = command(&["echo", "--listen", &port]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    two.terminate();
    assert_eq!(two.exit_code(), 0);
    for _ in 0..10 {
        assert_eq!(one.get("/who").text(), "one");
    }
}

/// A load that lasts until it is ended.
struct Load(Child);

impl Load {
    fn start(addr: &str, options: &[&str]) -> Load {
        let url = format!("{addr}/a");
        let mut command = command(&["load", "http", &url, "--duration=1h", "--json"]);
        let command = command
            .args(["--warm-up=0s", "--connections=8"])
            .args(options);
        Load(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Ends the load, and checks that every request was answered.
    fn end(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        let mut text = String::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["errors"], Value::Array(Vec::new()), "{report}");
        assert_eq!(report["unanswered"], 0, "{report}");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // The load has ended already, unless a check has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the program has logged this number of requests, and lets it log more.
fn await_requests(program: &mut Program, count: usize) {
    let mut missing = count;
    while missing > 0 {
        let line = program.stdout_line();
        assert_ne!(line, "", "the log has ended");
        missing -= usize::from(line.contains("GET /a"));
    }
    let mut log = program.stdout.take().unwrap();
    thread::spawn(move || io::copy(&mut log, &mut io::sink()));
}

/// Gives the processes different drivers, because a driver may make the shared socket non-blocking,
/// which affects the other process, too.
#[test]
fn a_restart_on_an_inherited_socket_loses_no_request() {
    let files: TempDir = site(&[("a", "hello")]);
    let ring = if has_ring("the driver uring") {
        "uring"
    } else {
        "threads"
    };
    for (old, new) in [("epoll", ring), (ring, "epoll")] {
        let socket = free();
        let start = |driver| {
            serving(
                &socket,
                files.path(),
                &["--log", "common", "--driver", driver],
            )
        };
        let mut old = start(old);
        let load = Load::start(&old.addr.to_string(), &[]);
        await_requests(&mut old, 100);
        let mut new = start(new);
        old.terminate();
        assert_eq!(old.exit_code(), 0);
        await_requests(&mut new, 100);
        load.end();
    }
}

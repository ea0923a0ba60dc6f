//! Servers on Unix sockets: the file of the socket, and what differs from TCP.

use std::fs;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use super::inheriting;
use crate::harness::{Client, Program, command, site, sparse_file, wait_until};

fn at(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn echo_at(path: &Path) -> Program {
    Program::echoing(&mut command(&["echo", "--listen", &at(path)]))
}

fn serve_at(path: &Path, dir: &Path, log: &str) -> Program {
    let mut command = command(&["serve", "--listen", &at(path), "--log", log]);
    Program::serving(command.arg(dir))
}

fn check_echo(path: &Path) {
    let mut client = Client::at(path);
    client.send("hello");
    assert_eq!(client.read_exact(5), b"hello");
}

/// Checks that the file is there, and that it is removed when the program ends.
fn check_end(mut program: Program, path: &Path) {
    assert!(fs::symlink_metadata(path).unwrap().file_type().is_socket());
    program.terminate();
    assert_eq!(program.exit_code(), 0);
    assert!(!path.exists(), "{}", program.startup_line);
}

#[test]
fn a_site_is_served_at_a_path() {
    let files = site(&[("a", "hello")]);
    let large = vec![0; 3 << 20];
    sparse_file(&files.path().join("large"), large.len() as u64);
    let path = files.path().join(".socket");
    let mut program = serve_at(&path, files.path(), "common");
    let line = &program.startup_line;
    assert!(line.contains(&format!(" on {} (", at(&path))), "{line}");

    let mut client = Client::at(&path);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    let line = program.stdout_line();
    assert!(line.starts_with("unix: - - ["), "{line}");
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().body, large);

    let mut curl = Command::new("curl");
    let curl = curl.args(["-s", "--unix-socket"]).arg(&path);
    match curl.arg("http://a/a").output() {
        Ok(output) => assert_eq!(output.stdout, b"hello"),
        Err(_) => eprintln!("not checked: curl is not installed"),
    }
    check_end(program, &path);
}

#[test]
fn a_tunnel_relays_from_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let target = Program::echo(&[]);
    let to = target.addr.to_string();
    let mut command = command(&["tunnel", "--to", &to, "--listen", &at(&path)]);
    let mut program = Program::tunnelling(command.args(["--log", "json", "--max-per-client", "1"]));

    let mut client = Client::at(&path);
    client.send("hello");
    assert_eq!(client.read_exact(5), b"hello");
    // All clients of the socket count as one.
    assert_eq!(Client::at(&path).rest(), b"");

    let long: Vec<u8> = (5..1_000_000_usize).map(|at| (at % 251) as u8).collect();
    let sender = client.get_ref().try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Client::new(sender.try_clone().unwrap()).send(&long);
            sender.shutdown(Shutdown::Write).unwrap();
        });
        assert!(client.read_exact(long.len()) == long);
    });
    assert_eq!(client.rest(), b"");
    drop(client);
    let line = program.stdout_line();
    let pieces = [
        "\"client\":\"unix:\"",
        "\"end\":\"closed\"",
        "\"bytes_up\":1000000",
    ];
    for piece in pieces {
        assert!(line.contains(piece), "{piece} in {line}");
    }
    check_end(program, &path);
}

#[test]
fn a_socket_file_has_the_permissions_of_the_umask_and_is_replaced_when_stale() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 027; exec \"$0\" \"$@\""]);
    masked.args([
        env!("CARGO_BIN_EXE_uthread"),
        "echo",
        "--listen",
        &at(&path),
    ]);
    let program = Program::echoing(&mut masked);
    assert_eq!(
        program.startup_line,
        format!("listening on {}\n", at(&path))
    );
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    check_echo(&path);
    check_refusal(&at(&path), &["another process listens on it", "--listen"]);
    program.signal(Signal::KILL);
    wait_until(|| UnixStream::connect(&path).is_err());
    drop(program);
    assert!(path.exists());

    let program = echo_at(&path);
    check_echo(&path);
    check_end(program, &path);
}

/// Catches the removal of a file of another process.
#[test]
fn a_file_that_was_replaced_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let mut program = echo_at(&path);
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    program.terminate();
    assert_eq!(program.exit_code(), 0);
    assert!(UnixStream::connect(&path).is_ok());
}

#[test]
fn one_of_many_servers_that_start_at_once_replaces_a_stale_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let mut all = Vec::new();
    for _ in 0..8 {
        let mut command = command(&["echo", "--workers", "1", "--listen", &at(&path)]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        all.push(command.spawn().unwrap());
    }
    wait_until(|| {
        all.retain_mut(|program| program.try_wait().unwrap().is_none());
        all.len() == 1
    });
    wait_until(|| UnixStream::connect(&path).is_ok());
    check_echo(&path);
    all[0].kill().unwrap();
    all[0].wait().unwrap();
}

#[test]
fn an_inherited_unix_socket_is_served_and_keeps_its_file() {
    let files = site(&[("a", "hello")]);
    let path = files.path().join(".socket");
    let socket = UnixListener::bind(&path).unwrap();
    let mut command = inheriting(socket.try_clone().unwrap(), &["serve", "--log", "off"]);
    let mut program = Program::serving(command.arg(files.path()));
    let line = &program.startup_line;
    assert!(
        line.contains(&at(&path)) && line.contains("inherited socket"),
        "{line}"
    );
    let mut client = Client::at(&path);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    program.terminate();
    assert_eq!(program.exit_code(), 0);
    assert!(UnixStream::connect(&path).is_ok());
}

/// Checks that an echo server refuses to start, with one line that names the address.
fn check_refusal(address: &str, pieces: &[&str]) {
    check_refusal_with(&[], address, pieces);
}

fn check_refusal_with(args: &[&str], address: &str, pieces: &[&str]) {
    let mut command = command(&["echo", "--listen", address]);
    let Output { status, stderr, .. } = command.args(args).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for piece in pieces.iter().chain([&address]) {
        assert!(stderr.contains(piece), "{piece} in {stderr}");
    }
}

#[test]
fn paths_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| at(&dir.path().join(name));
    check_refusal(&at("none/socket"), &["os error 2", "create its directory"]);
    check_refusal(&at(&"x".repeat(108)), &["os error 36", "107 bytes"]);
    fs::write(dir.path().join("file"), "x").unwrap();
    check_refusal(&at("file"), &["not a socket"]);
    check_refusal(&at("file/socket"), &["os error 20"]);
    let _datagram = UnixDatagram::bind(dir.path().join("datagram")).unwrap();
    check_refusal(&at("datagram"), &["another process listens on it"]);
    check_refusal_with(
        &["--reuse-port"],
        &at("socket"),
        &["--reuse-port", "no port"],
    );
    assert!(!dir.path().join("socket").exists());
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"x");
}

//! Configuration files, their check, and reloads.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use super::users::{RIGHT, USERS};
use super::{Target, connect, drivers};
use crate::harness::{Program, command, site};

/// Starts a proxy with a configuration, whose other options are those of tests.
fn configured(file: &Path, args: &[&str]) -> Program {
    let mut command = command(&["tunnel", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(file).args(args).stdin(Stdio::null());
    Program::tunnelling(&mut command)
}

/// Sends SIGHUP, and returns what the program says.
fn reload(proxy: &mut Program) -> String {
    proxy.signal(Signal::HUP);
    proxy.stderr_line(" the settings")
}

#[test]
fn a_reload_changes_targets_users_and_limits_and_keeps_connections() {
    for driver in drivers() {
        let target = Target::start();
        let host = target.addr.to_string();
        let dir = site(&[("users", USERS)]);
        let file = dir.path().join("file");
        let allow = format!("log = 'off'\ndriver = '{driver}'\nallow = ['{host}']\n");
        fs::write(&file, &allow).unwrap();
        let mut proxy = configured(&file, &[]);
        let (mut client, mut server) = target.tunnel(&proxy);

        let users = dir.path().join("users");
        let users = users.to_str().unwrap();
        fs::write(&file, format!("{allow}users = '{users}'")).unwrap();
        assert!(reload(&mut proxy).contains("reloaded"));
        assert_eq!(connect(&mut proxy.connect(), &host), 407);
        let mut known = proxy.connect();
        known.send(format!("CONNECT {host} HTTP/1.1\r\nHost: a\r\n{RIGHT}\r\n"));
        assert_eq!(known.response_head().status, 200);
        target.accept();

        fs::write(users, "").unwrap();
        let line = reload(&mut proxy);
        let problem = format!("kept the settings: {users}: there are no users");
        assert!(line.contains(&problem), "{line}");
        assert_eq!(connect(&mut proxy.connect(), &host), 407);

        fs::write(&file, allow.replace(&host, "*:1")).unwrap();
        assert!(reload(&mut proxy).contains("reloaded"));
        assert_eq!(connect(&mut proxy.connect(), &host), 403);

        fs::write(&file, format!("{allow}max-per-client = 1")).unwrap();
        assert!(reload(&mut proxy).contains("reloaded"));
        assert_eq!(connect(&mut proxy.connect(), &host), 503);

        client.send("still here");
        assert_eq!(server.read_exact(10), b"still here");
    }
}

/// A proxy that became a forwarder would allow every target.
#[test]
fn a_change_that_needs_a_restart_keeps_all_settings() {
    let target = Target::start();
    let dir = site(&[("file", "log = 'off'\nallow = ['*:1']\n")]);
    let file = dir.path().join("file");
    let mut proxy = configured(&file, &[]);
    for text in [
        "log = 'off'\nto = 'a:1'\n",
        "log = 'text'\nallow = ['127.0.0.1:*']",
        "log = 'off'\nworkers = 3\nallow = ['127.0.0.1:*']",
        "log = 'off'\nallow = ['127.0.0.1:*']\nx = 1",
        "log = 'off'\nallow = ['127.0.0.1:*']\nrate = 0",
        "log = 'off'\n",
    ] {
        fs::write(&file, text).unwrap();
        let line = reload(&mut proxy);
        assert!(line.contains("kept"), "{text}: {line}");
        assert_eq!(connect(&mut proxy.connect(), &target.addr.to_string()), 403);
    }
    fs::remove_file(&file).unwrap();
    assert!(reload(&mut proxy).contains("kept"));
}

#[test]
fn without_a_file_the_other_files_are_read_again() {
    let target = Target::start();
    let dir = site(&[("users", USERS)]);
    let users = dir.path().join("users");
    let mut proxy = target.proxy(&["--users", users.to_str().unwrap()]);
    fs::write(users, USERS.replace("ann:", "bob:")).unwrap();
    assert!(reload(&mut proxy).contains("reloaded"));
    let mut client = proxy.connect();
    client.send(format!("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n{RIGHT}\r\n"));
    assert_eq!(client.response().status, 407);
}

#[test]
fn checks() {
    let dir = site(&[
        ("good", "allow = ['*:443']\nusers = 'users'\n"),
        ("users", USERS),
        ("bad", "allow = ['*:443']\nallowed = 1\n"),
        ("syntax", "allow = ['*:443'\n\n"),
        ("value", "\nallow = ['*']"),
        ("file", "allow = ['*:443']\nusers = 'bad'\n"),
        ("none", ""),
    ]);
    for (file, code, message) in [
        ("good", 0, "the options and their files are valid"),
        ("bad", 2, "uthread: bad:2: there is no option \"allowed\""),
        ("syntax", 2, "uthread: syntax:"),
        (
            "value",
            2,
            "uthread: value:2: invalid value '*' for '--allow <TARGET>'",
        ),
        ("file", 2, "uthread: bad:1: the name "),
        ("none", 2, "uthread: there are no targets: set allow or to"),
        (
            "missing",
            2,
            "uthread: cannot read the configuration in missing: No such file",
        ),
    ] {
        let mut command = command(&["tunnel", "--check", "--config", file]);
        let output = command.current_dir(dir.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(message), "{file}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(output.status.code(), Some(code), "{file}");
    }
    // Without a file, and on a port in use.
    let taken = Program::echo(&[]);
    let listen = taken.addr.to_string();
    let args = ["tunnel", "--check", "--to", "a:1", "--listen", &listen];
    assert_eq!(command(&args).output().unwrap().status.code(), Some(0));
}

#[test]
fn the_command_line_wins() {
    let target = Target::start();
    let dir = site(&[(
        "file",
        "log = 'json'\nallow = ['*:1']\nlisten = 'nonsense'\n",
    )]);
    let allowed = target.addr.to_string();
    let proxy = configured(&dir.path().join("file"), &["--allow", &allowed]);
    target.tunnel(&proxy);
}

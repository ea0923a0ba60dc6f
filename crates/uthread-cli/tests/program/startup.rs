//! Start-up, and its failures: one line with the remedy, and exit code 2.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use crate::harness::{Program, command, site};

fn check_failure(args: &[&str], expected: &[&str]) {
    let Output { status, stderr, .. } = command(args).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for piece in expected {
        assert!(stderr.contains(piece), "{piece} in {stderr}");
    }
}

#[test]
fn the_startup_line_shows_what_is_served_where() {
    let program = Program::serve(&[], &["--workers", "3"]);
    let dir = program.dir().canonicalize().unwrap();
    assert_ne!(program.addr.port(), 0);
    for piece in [
        format!("serving {}", dir.display()),
        format!("http://{}/", program.addr),
        "workers 3".to_owned(),
        "driver ".to_owned(),
    ] {
        assert!(program.startup_line.contains(&piece), "{piece}");
    }
}

#[test]
fn the_driver_is_the_one_asked_for_and_shown() {
    for driver in ["epoll", "threads"] {
        let arguments = [
            "echo",
            "--verbose",
            "--driver",
            driver,
            "--listen",
            "127.0.0.1:0",
        ];
        let mut verbose = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stderr = verbose.stderr.take().unwrap();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        verbose.kill().unwrap();
        verbose.wait().unwrap();
        assert!(line.contains(&format!("driver: {driver} (")), "{line}");
        assert!(line.ends_with("), as the program asked\n"), "{line}");
        let program = Program::serve(&[], &["--driver", driver]);
        let expected = format!("driver {driver})");
        assert!(
            program.startup_line.contains(&expected),
            "{}",
            program.startup_line
        );
    }
}

#[test]
fn an_unknown_driver_in_the_environment_is_refused() {
    let output = command(&["echo"])
        .env("UTHREAD_DRIVER", "kqueue")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    for piece in ["UTHREAD_DRIVER=kqueue", "choose uring, epoll or threads"] {
        assert!(stderr.contains(piece), "{piece} in {stderr}");
    }
}

#[test]
fn the_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    check_failure(
        &["serve", "--listen", &addr],
        &[&addr, "port is in use", "--listen"],
    );
    check_failure(
        &["echo", "--listen", &addr],
        &[&addr, "port is in use", "--listen"],
    );
}

#[test]
fn the_address_is_not_ours() {
    check_failure(
        &["echo", "--listen", "192.0.2.1:80"],
        &["192.0.2.1:80", "does not have the address"],
    );
}

#[test]
fn there_is_nothing_to_serve() {
    let files = site(&[("file", ""), ("large/404.html", &"x".repeat(65_537))]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    check_failure(
        &["serve", &path("none")],
        &[&path("none"), "does not exist"],
    );
    check_failure(
        &["serve", &path("file")],
        &[&path("file"), "not a directory"],
    );
    let dir = path("");
    check_failure(
        &["serve", &dir, "--error-pages", &path("none")],
        &[&path("none")],
    );
    check_failure(
        &["serve", &dir, "--error-pages", &path("file")],
        &["needs a directory"],
    );
    check_failure(
        &["serve", &dir, "--error-pages", &path("large")],
        &["404.html", "smaller"],
    );
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    for args in [
        &["serve", "--grace", "soon"][..],
        &["serve", "--idle-timeout", "0s"],
        &["doctor", "--seconds", "0"],
        &["none"],
        &[],
    ] {
        assert_eq!(
            command(args).output().unwrap().status.code(),
            Some(2),
            "{args:?}"
        );
    }
    for args in [
        &["--help"][..],
        &["serve", "--help"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
        &["man"],
        &["man", "serve"],
    ] {
        let output = command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stdout.len() > 300, "{args:?}");
        assert!(
            !output.stdout.contains(&0x1b),
            "colour, though not to a terminal: {args:?}"
        );
    }
    assert_eq!(
        command(&["man", "none"]).output().unwrap().status.code(),
        Some(2)
    );
    let folder = tempfile::tempdir().unwrap();
    let output = command(&["man", "--into"]).arg(folder.path()).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    for page in ["uthread.1", "uthread-serve.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

/// Catches a second package with a default program, which would make the command ambiguous that
/// README.md gives for the folder of the workspace. The command itself would build the workspace
/// again, with other features.
#[test]
fn cargo_run_means_this_program() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let defaults = packages.iter().map(|package| &package["default_run"]);
    let defaults: Vec<_> = defaults.filter_map(serde_json::Value::as_str).collect();
    assert_eq!(defaults, ["uthread"]);
}

#[test]
fn a_port_alone_is_listened_on() {
    for listen in ["--port", "-p", "--listen"] {
        for port in ["0", ":0", "localhost:0"] {
            let echo = Program::echoing(command(&["echo", listen, port]).stdin(Stdio::null()));
            assert!(echo.addr.ip().is_loopback(), "{}", echo.startup_line);
        }
    }
    for address in ["8080", ":8080", "localhost:8080"] {
        let remedy = format!("--listen {address}");
        check_failure(&["serve", address], &["does not exist", &remedy]);
    }
}

#[test]
fn numbers_that_must_not_be_zero_are_refused_clearly() {
    for args in [
        &["serve", "--max-connections", "0"][..],
        &["serve", "--workers", "0"],
        &["tunnel", "--to", "a:1", "--max-per-client", "0"],
        &["load", "tcp", "a:1", "--rate", "0"],
        &["load", "tcp", "a:1", "--size", "x"],
    ] {
        let Output { status, stderr, .. } = command(args).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("must be a whole number, and at least 1"),
            "{stderr}"
        );
    }
}

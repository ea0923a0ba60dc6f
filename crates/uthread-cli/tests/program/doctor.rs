//! `uthread doctor`: its findings on this machine, and where something is forbidden or short.

use std::process::{Command, Output};

use rustix::io::Errno;
use serde_json::Value;

use crate::harness::{command, copy_program};
use crate::restrict::{REGISTER, SETUP, become_nobody, has_ring, refuse, restricted};

/// Time limit of the self-test, long enough for all its parts.
const SECONDS: &str = "0.2";

/// Runs the doctor under a restriction, and returns its page and its JSON.
fn examine(restrict: impl Fn() + Send + Sync, exit_code: i32) -> (String, Value) {
    let examine = |options: &[&str]| {
        let arguments = [&["doctor", "--seconds", SECONDS], options].concat();
        let output = restricted(&restrict, || command(&arguments).output().unwrap());
        checked(output, exit_code)
    };
    let json = serde_json::from_str(&examine(&["--json"])).unwrap();
    (examine(&[]), json)
}

fn checked(output: Output, exit_code: i32) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let text = String::from_utf8(stdout).unwrap();
    let errors = String::from_utf8(stderr).unwrap();
    let is_page = !text.starts_with('{');
    for line in text.lines().filter(|_| is_page) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert_eq!(status.code(), Some(exit_code), "{text}{errors}");
    assert_eq!(errors, "");
    text
}

/// Returns the lines of a section of the page.
fn section<'a>(page: &'a str, title: &str) -> Vec<&'a str> {
    let mut lines = page.lines().skip_while(|line| *line != title);
    assert_eq!(lines.next(), Some(title), "{page}");
    lines.take_while(|line| !line.is_empty()).collect()
}

/// Returns the verdict of a driver's self-test.
fn verdict<'a>(json: &'a Value, driver: &str) -> &'a str {
    let mut tests = json["self_test"].as_array().unwrap().iter();
    let test = tests.find(|test| test["driver"] == driver).unwrap();
    test["verdict"].as_str().unwrap()
}

fn all_commands(json: &Value) -> String {
    let remedies = json["remedies"].as_array().unwrap();
    let commands = remedies
        .iter()
        .flat_map(|remedy| remedy["commands"].as_array().unwrap());
    commands.map(|command| format!("{command}\n")).collect()
}

#[test]
fn a_page_and_the_same_for_machines() {
    let (page, json) = examine(|| {}, 0);
    for title in [
        "System",
        "Driver",
        "Features of io_uring",
        "Operations of io_uring",
        "Features of the system",
        "Limits",
        "Self-test",
        "Remedies",
    ] {
        assert!(!section(&page, title).is_empty(), "{title} in {page}");
    }
    assert_eq!(json["healthy"], true);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    for driver in ["epoll", "threads"] {
        assert_eq!(verdict(&json, driver), "passed", "{json}");
    }
    let is_available = json["io_uring"]["available"].as_bool().unwrap();
    let expected = if is_available {
        "passed"
    } else {
        "unavailable"
    };
    assert_eq!(verdict(&json, "uring"), expected, "{json}");
    for test in json["self_test"].as_array().unwrap() {
        if test["verdict"] == "passed" {
            assert!(test["echoes_per_second"].as_u64() > Some(0), "{json}");
            assert!(test["file_reads_per_second"].as_u64() > Some(0), "{json}");
        }
    }
    for limit in json["limits"].as_array().unwrap() {
        assert_ne!(limit["allows"], "", "{limit}");
    }
}

#[test]
fn a_container_that_forbids_io_uring() {
    for errno in [Errno::PERM, Errno::NOSYS] {
        let (page, json) = examine(|| refuse(&[SETUP], errno), 0);
        assert_eq!(json["healthy"], true);
        assert_eq!(json["driver"]["name"], "epoll");
        assert_eq!(json["io_uring"]["available"], false);
        assert_eq!(json["io_uring"]["errno"], errno.raw_os_error());
        assert_eq!(json["io_uring"]["features"][0]["available"], Value::Null);
        assert_eq!(json["system"]["seccomp"], "filter");
        assert_eq!(verdict(&json, "uring"), "unavailable");
        assert_eq!(verdict(&json, "epoll"), "passed");
        let commands = all_commands(&json);
        assert!(
            commands.contains("docker run --security-opt seccomp="),
            "{commands}"
        );

        let what_to_do = section(&page, "Remedies").join(" ");
        for piece in ["seccomp filter", "io_uring_setup", "docker run"] {
            assert!(what_to_do.contains(piece), "{what_to_do}");
        }
        let driver = section(&page, "Driver").join(" ");
        let words: Vec<&str> = driver.split_whitespace().collect();
        let expected = "because io_uring is not available";
        assert!(words.join(" ").contains(expected), "{driver}");
    }
}

#[test]
fn features_that_a_program_has_to_ask_for_are_listed() {
    if !has_ring("what it can do on request") {
        return;
    }
    let (page, json) = examine(|| {}, 0);
    let name = "kernel polling (SQPOLL)";
    let mut features = json["io_uring"]["features"].as_array().unwrap().iter();
    let feature = features.find(|feature| feature["name"] == name).unwrap();
    let expected = if feature["available"].as_bool().unwrap() {
        "yes  used on request"
    } else {
        "no   instead: workers enter the kernel"
    };
    let section = section(&page, "Features of io_uring");
    let line = section.iter().find(|line| line.contains(name)).unwrap();
    assert!(line.ends_with(expected), "{line}");
}

/// Profiles can permit the ring, but not the operations that improve it.
#[test]
fn a_ring_without_its_features() {
    if !has_ring("all of it") {
        return;
    }
    let (page, json) = examine(|| refuse(&[REGISTER], Errno::PERM), 0);
    assert_eq!(json["driver"]["name"], "uring");
    assert_eq!(verdict(&json, "uring"), "passed");
    let features = section(&page, "Features of io_uring");
    let message = features
        .iter()
        .find(|line| line.contains("message without a ring"));
    assert!(
        message.unwrap().ends_with("no   instead: an eventfd"),
        "{page}"
    );
    assert_eq!(
        section(&page, "Operations of io_uring"),
        ["  not reported by the kernel"]
    );
}

#[test]
fn a_user_who_may_lock_little_memory() {
    // The user may have no access to the directory of the program.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let program = directory.path().join("uthread");
    copy_program(&program);
    rustix::fs::chmod(directory.path(), 0o755.into()).unwrap();
    let script = format!("ulimit -l 64 && exec \"$0\" doctor --seconds {SECONDS}");
    let output = restricted(become_nobody, || {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(script).arg(program).output().unwrap()
    });
    let page = checked(output, 0);
    let limits = section(&page, "Limits").join("\n");
    assert!(limits.contains("64 KiB"), "{page}");
    // Where rings count against the limit, a smaller one is the best.
    if page.contains("no   instead: small ones") {
        assert!(limits.contains("8 workers with rings of 8 KiB"), "{page}");
        assert!(page.contains("ulimit -l unlimited"), "{page}");
    }
}

#[test]
fn a_driver_that_cannot_be_had_was_asked_for() {
    let output = restricted(
        || refuse(&[SETUP], Errno::PERM),
        || {
            let mut command = command(&["doctor", "--seconds", SECONDS]);
            command.env("UTHREAD_DRIVER", "uring").output().unwrap()
        },
    );
    let page = checked(output, 1);
    assert!(page.contains("unset UTHREAD_DRIVER"), "{page}");
}

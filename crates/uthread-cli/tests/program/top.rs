//! `uthread top`: the workers and the fibers of a server.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, getuid, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::harness::{Program, command, copy_program, wait_until};
use crate::terminal::{read_until, terminal};

/// Shows what the terminal showed before.
const LEFT_SCREEN: &str = "\x1b[?1049l";

/// The user `nobody`.
const NOBODY: u32 = 65_534;

fn top(program: &Program, options: &[&str]) -> Command {
    let pid = program.pid().to_string();
    command(&[&["top", &*pid], options].concat())
}

/// Returns the output of a sample, which has to succeed.
fn once(program: &Program, options: &[&str]) -> String {
    let options = [&["--once", "--interval", "100ms"], options].concat();
    let output = top(program, &options).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, reason: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(reason), "{errors}");
}

#[test]
fn the_fibers_of_a_server_are_counted() {
    let program = Program::echo(&["--workers", "2"]);
    let _clients = [program.connect(), program.connect()];
    let sample = || -> Value { serde_json::from_str(&once(&program, &["--json"])).unwrap() };
    let waiting = |sample: &Value| {
        let sites = sample["sites"].as_array().unwrap().iter();
        let echo = |site: &&Value| site["spawned_at"].as_str().unwrap().contains("echo.rs:");
        let fibers = sites.filter(echo).map(|site| &site["fibers"]["operation"]);
        fibers.map(|number| number.as_u64().unwrap()).sum::<u64>()
    };
    wait_until(|| waiting(&sample()) == 2);
    let sample = sample();
    assert_eq!(sample["pid"], program.pid());
    assert_eq!(sample["workers"].as_array().unwrap().len(), 2);
    let per_second = &sample["workers"][0]["per_second"];
    assert!(per_second["switches"].is_f64(), "{sample}");
    assert!(sample["looks"].as_u64() > Some(1), "{sample}");

    let page = once(&program, &[]);
    let title = format!("process {}: ", program.pid());
    assert!(page.starts_with(&title), "{page}");
    assert!(page.contains(" on 2 workers, "), "{page}");
    let echo = page.lines().find(|line| line.contains("echo.rs:")).unwrap();
    let cells: Vec<_> = echo.split_whitespace().collect();
    assert_eq!(cells[..5], ["2", "0", "0", "0", "2"], "{page}");
}

/// Starts the program on a terminal of 80 columns, and reads until it shows the places.
fn on_terminal(program: &Program) -> (Child, File, String) {
    let (mut shown, theirs) = terminal();
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&shown, size).unwrap();
    let mut child = top(program, &["--interval", "100ms"]);
    child.stdin(Stdio::from(theirs.try_clone().unwrap()));
    child.stdout(Stdio::from(theirs)).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let text = read_until(&mut shown, Some("server.rs:"));
    (child, shown, text)
}

/// Returns the exit code and the messages.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut code = None;
    wait_until(|| {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    let errors = io::read_to_string(child.stderr.take().unwrap()).unwrap();
    (code.unwrap().code(), errors)
}

/// Returns `true` if a text sets a colour.
fn has_colours(text: &str) -> bool {
    let sequences = text.split("\x1b[").skip(1);
    let attributes = sequences.filter_map(|sequence| {
        let end = sequence.find(|character: char| character.is_ascii_alphabetic())?;
        sequence[end..].starts_with('m').then(|| &sequence[..end])
    });
    let mut numbers = attributes.flat_map(|attributes| attributes.split(';'));
    // Those that end in nine restore the default.
    numbers.any(|number| matches!(number.parse(), Ok(30..=38 | 40..=48 | 90..=107)))
}

#[test]
fn the_screen_shows_places_until_q() {
    let program = Program::echo(&[]);
    let (child, mut shown, text) = on_terminal(&program);
    assert!(text.contains("FIBERS"), "{text:?}");
    assert!(!has_colours(&text), "{text:?}");
    // The fibers of the selected place.
    shown.write_all(b"\r").unwrap();
    read_until(&mut shown, Some("operation"));
    shown.write_all(b"qq").unwrap();
    read_until(&mut shown, Some(LEFT_SCREEN));
    assert_eq!(end(child), (Some(0), String::new()));
}

#[test]
fn a_signal_restores_the_terminal() {
    let program = Program::echo(&[]);
    for signal in [Signal::TERM, Signal::INT] {
        let (child, mut shown, _) = on_terminal(&program);
        let is_raw = |terminal: &File| {
            let modes = tcgetattr(terminal).unwrap().local_modes;
            !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
        };
        assert!(is_raw(&shown));
        kill_process(Pid::from_child(&child), signal).unwrap();
        read_until(&mut shown, Some(LEFT_SCREEN));
        assert_eq!(end(child), (Some(0), String::new()), "{signal:?}");
        assert!(!is_raw(&shown), "{signal:?}");
    }
}

#[test]
fn the_end_of_the_program_is_an_error() {
    let mut program = Program::echo(&[]);
    let (child, mut shown, _) = on_terminal(&program);
    program.terminate();
    program.exit_code();
    read_until(&mut shown, Some(LEFT_SCREEN));
    let message = format!("uthread: process {} has ended\n", program.pid());
    assert_eq!(end(child), (Some(1), message));
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let output = command(&["top", "--once", &i32::MAX.to_string()]).output();
    assert_fails(&output.unwrap(), 1, "/proc/2147483647/");

    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let output = command(&["top", "--once", &child.id().to_string()]).output();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_fails(&output.unwrap(), 1, "does not use uthread");
}

#[test]
fn the_program_of_another_user_is_an_error() {
    if !getuid().is_root() {
        println!("not tested: only root can become another user");
        return;
    }
    let program = Program::echo(&[]);
    // One that this user may execute.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("uthread");
    copy_program(&copy);
    let pid = program.pid().to_string();
    let output = Command::new(copy)
        .args(["top", "--once", &pid])
        .uid(NOBODY)
        .output();
    assert_fails(&output.unwrap(), 1, "Permission denied");
}

#[test]
fn a_screen_needs_a_terminal() {
    let program = Program::echo(&[]);
    assert_fails(&top(&program, &[]).output().unwrap(), 2, "use --once");
    let output = top(&program, &["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = top(&program, &["--interval", "1ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

//! `uthread search`: what it finds, prints and reports, by itself and beside ripgrep.

mod changes;
mod command_lines;
mod corpus;
mod descriptors;
mod from_disk;
mod large;
mod like_ripgrep;
mod memory;
mod options;
mod results;
mod streams;
mod terminal;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::command;

/// Values of the environment variable `UTHREAD_DRIVER`.
const DRIVERS: [&str; 3] = ["uring", "epoll", "threads"];

/// Returns `true` if the tests may take long.
fn is_exhaustive() -> bool {
    std::env::var_os("UTHREAD_EXHAUSTIVE").is_some()
}

/// Returns the command of a search in this folder, on this driver.
fn search_on(driver: &str, arguments: &[&str], folder: &Path) -> Command {
    let mut command = command(&["search"]);
    command.args(arguments).current_dir(folder);
    command.env("UTHREAD_DRIVER", driver).stdin(Stdio::null());
    command
}

fn make_fifo(path: &Path) {
    let status = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}

/// Sends this signal to a search, and checks that it ends the process.
#[track_caller]
fn assert_ends_by(signal: Signal, child: &mut Child, described: &str) {
    kill_process(Pid::from_child(child), signal).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(signal.as_raw()), "{described}");
}

//! Files that change while they are searched, pipes without an end, and a directory that is gone.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{DRIVERS, make_fifo, search_on};
use crate::harness::site;

/// Number of files that do not change.
const FILES: usize = 200;
const SEARCHES: usize = 6;

/// Truncates, extends, removes and replaces files until told to end.
fn change(folder: &Path, is_over: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(1);
    let text = format!("{}text\n", "more ".repeat(200)).repeat(1000);
    while !is_over.load(Ordering::Relaxed) {
        let path = folder.join(format!("changes{}", random.usize(..6)));
        // A change fails if the path is of another kind, or missing, after an earlier change.
        let _ = match random.u8(..7) {
            0 => fs::write(&path, ""),
            1 => fs::write(&path, &text[..random.usize(..text.len())]),
            2 => fs::remove_file(&path),
            3 => fs::create_dir(&path),
            4 => fs::remove_dir(&path),
            5 => fs::rename(&path, folder.join("changes0")),
            _ => OpenOptions::new()
                .append(true)
                .open(&path)
                .and_then(|mut file| file.write_all(text.as_bytes())),
        };
    }
}

#[test]
fn files_may_change_while_they_are_searched() {
    let files = site(&[("a/", "")]);
    let folder = files.path().join("a");
    for index in 0..FILES {
        fs::write(folder.join(format!("stays{index:03}")), "text\n").unwrap();
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| change(&folder, &is_over));
        let result = std::panic::catch_unwind(|| {
            for round in 0..SEARCHES {
                let driver = DRIVERS[round % DRIVERS.len()];
                let order = ["none", "path"][round % 2];
                let arguments = ["text", "--sort", order, "."];
                let output = search_on(driver, &arguments, &folder).output().unwrap();
                let messages = String::from_utf8(output.stderr).unwrap();
                let code = output.status.code();
                assert!(
                    matches!(code, Some(0 | 2)),
                    "{:?} {messages}",
                    output.status
                );
                assert_eq!(code == Some(2), !messages.is_empty(), "{messages}");
                for message in messages.lines() {
                    assert!(message.starts_with("uthread: ./changes"), "{message}");
                }
                let printed = String::from_utf8(output.stdout).unwrap();
                let stable = printed.lines().filter(|line| line.starts_with("./stays"));
                let mut stable = Vec::from_iter(stable);
                stable.sort_unstable();
                let all = (0..FILES).map(|index| format!("./stays{index:03}:text"));
                assert_eq!(stable, Vec::from_iter(all), "{driver}");
            }
        });
        is_over.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

/// Catches a search that has enough and still waits for the writer of a pipe.
#[test]
fn a_pipe_is_read_no_further_than_to_the_match() {
    let files = site(&[]);
    let fifo = files.path().join("fifo");
    make_fifo(&fifo);
    for driver in DRIVERS {
        let mut into = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        into.write_all(b"text\nmore\n").unwrap();
        let output = search_on(driver, &["-m1", "text", "fifo"], files.path()).output();
        assert_eq!(output.unwrap().stdout, b"text\n", "{driver}");
        // Nothing is left for the next driver.
        drop(into);
    }
}

#[test]
fn a_removed_working_directory_is_not_needed() {
    let files = site(&[("src/a.rs", "text\n"), ("src/b.txt", "text\n")]);
    let folder = files.path().display().to_string();
    for (script, expected, code) in [
        ("echo text | \"$0\" search text", "text\n", 0),
        ("\"$0\" search text \"$1/src/a.rs\"", "text\n", 0),
        (
            "\"$0\" search -lg '*.rs' text \"$1\"",
            "FOLDER/src/a.rs\n",
            0,
        ),
        (
            "\"$0\" search -lg '!*.rs' text \"$1\"",
            "FOLDER/src/b.txt\n",
            0,
        ),
        ("\"$0\" search text missing", "", 2),
    ] {
        for unset in ["", "unset PWD;"] {
            let script = format!("mkdir gone; cd gone; rmdir ../gone; {unset} {script}");
            let output = Command::new("sh")
                .args(["-c", &script, env!("CARGO_BIN_EXE_uthread"), &folder])
                .current_dir(files.path())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&output.stdout).replace(&folder, "FOLDER");
            assert_eq!(shown, expected, "{script}: {output:?}");
            assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        }
    }
}

//! Few descriptors: a search finds what it finds with many, or says at once that they are too few.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tempfile::TempDir;

use super::{DRIVERS, make_fifo, search_on};
use crate::harness::site;

const LEVELS: usize = 40;
const FOLDERS: usize = 150;
/// Number of names, above that of a list.
const NAMES: usize = 1100;
/// Number of files, above that searched before the result of the first one.
const FILES: usize = 300;

/// Creates a deep and wide tree; returns it with what `-c text` finds in it, in the order of the
/// paths.
fn tree() -> (TempDir, Vec<String>) {
    let files = site(&[]);
    let mut counts = Vec::new();
    let mut put = |path: String, text: &str| {
        let full = files.path().join(&path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
        counts.push(format!("{path}:1"));
    };
    // More than is read at once, so that it stays open for a while.
    let long = format!("text\n{}", format!("{}\n", "x".repeat(1000)).repeat(270));
    let mut deep = String::from("deep");
    for level in 0..LEVELS {
        put(format!("{deep}/file"), "text\n");
        put(format!("{deep}/long"), &long);
        deep = format!("{deep}/{level}");
    }
    for folder in 0..FOLDERS {
        put(format!("wide/{folder}/.ignore"), "skipped\n");
        for name in ["a", "b"] {
            put(format!("wide/{folder}/{name}"), "text\n");
        }
        let skipped = format!("wide/{folder}/skipped");
        fs::write(files.path().join(skipped), "text\n").unwrap();
    }
    for name in 0..NAMES {
        put(format!("wide/many/{name}"), "text\n");
    }
    counts.retain(|line| !line.contains(".ignore"));
    counts.sort();
    (files, counts)
}

/// Runs a search with this limit, as the shell sets it.
fn limited(driver: &str, limit: &str, arguments: &[&str], folder: &Path) -> Output {
    let script = format!("ulimit {limit}; exec timeout 20 \"$0\" search \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_uthread")]);
    command.args(arguments).current_dir(folder);
    command.env("UTHREAD_DRIVER", driver).stdin(Stdio::null());
    command.output().unwrap()
}

/// Catches the loss of the files after those that cannot be opened: once, 33,807 of 39,403 were
/// searched with 32 workers and 1024 descriptors.
#[test]
fn few_descriptors_are_enough_for_all_files() {
    let (files, expected) = tree();
    for driver in DRIVERS {
        for (limit, workers, sort) in [
            (24, "1", "none"),
            (24, "32", "path"),
            (40, "4", "path"),
            (40, "32", "none"),
            (100, "128", "none"),
            (1024, "128", "none"),
        ] {
            let arguments = ["-c", "text", "-j", workers, "--sort", sort];
            let output = limited(driver, &format!("-n {limit}"), &arguments, files.path());
            let described = format!("{driver}, {limit} descriptors, -j{workers}, --sort {sort}");
            let messages = String::from_utf8(output.stderr).unwrap();
            assert_eq!(messages, "", "{described}");
            let mut found = Vec::from_iter(str::from_utf8(&output.stdout).unwrap().lines());
            found.sort_unstable();
            assert!(found == expected, "{described}: {} found", found.len());
            assert_eq!(output.status.code(), Some(0), "{described}");
        }
    }
}

#[test]
fn few_descriptors_are_enough_for_programs_that_read_files() {
    let files = site(&[]);
    for number in 0..40 {
        fs::write(files.path().join(number.to_string()), "text\n").unwrap();
    }
    for driver in DRIVERS {
        for (limit, sort) in [(40, "none"), (50, "path")] {
            let arguments = ["--pre", "cat", "-c", "text", "-j4", "--sort", sort];
            let output = limited(driver, &format!("-n {limit}"), &arguments, files.path());
            let described = format!("{driver}, {limit} descriptors, --sort {sort}");
            let messages = String::from_utf8(output.stderr).unwrap();
            assert_eq!(messages, "", "{described}");
            let found = str::from_utf8(&output.stdout).unwrap().lines().count();
            assert_eq!(found, 40, "{described}");
        }
    }
}

#[test]
fn a_soft_limit_is_raised() {
    // 8 descriptors are too few, as the next test shows.
    let files = site(&[("a", "text\n")]);
    for driver in DRIVERS {
        let output = limited(driver, "-S -n 8", &["text", "a"], files.path());
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{driver}");
        assert_eq!(output.stdout, b"text\n", "{driver}");
    }
}

#[test]
fn too_few_descriptors_are_an_error_before_the_search() {
    let files = site(&[("a", "text\n")]);
    for driver in DRIVERS {
        let mut has_failed = false;
        for limit in 4..24 {
            let output = limited(driver, &format!("-n {limit}"), &["text", "a"], files.path());
            let messages = String::from_utf8(output.stderr).unwrap();
            let described = format!("{driver} {limit}: {:?} {messages}", output.status);
            assert_eq!(output.status.signal(), None, "{described}");
            match output.status.code() {
                Some(0) => {
                    assert_eq!(messages, "", "{described}");
                    assert_eq!(output.stdout, b"text\n", "{described}");
                }
                Some(2) => {
                    let words = messages.to_lowercase();
                    assert!(words.contains("too many"), "{described}");
                    assert_eq!(output.stdout, b"", "{described}");
                    has_failed = true;
                }
                _ => panic!("{described}"),
            }
        }
        assert!(has_failed, "{driver}");
    }
}

#[test]
fn a_file_waits_for_a_free_descriptor() {
    // Descriptors may run out although the search has counted them: all processes of the machine
    // share the kernel's table of files.
    let files = site(&[("folder/", ""), ("last/file", "text\n")]);
    let mut expected = String::new();
    for number in 100..100 + FILES {
        fs::write(files.path().join(format!("folder/{number}")), "text\n").unwrap();
        expected += &format!("folder/{number}:text\n");
    }
    make_fifo(&files.path().join("fifo"));
    expected += "last/file:text\n";
    for driver in DRIVERS {
        let mut child = search_on(
            driver,
            &["-j1", "--sort=path", "text", "fifo", "folder", "last"],
            files.path(),
        );
        child.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let into = fs::OpenOptions::new()
            .write(true)
            .open(files.path().join("fifo"));
        let pid = Pid::from_child(&child);
        let few = Rlimit {
            current: Some(3),
            ..getrlimit(Resource::Nofile)
        };
        // The end of the pipe, which the search reads, lets it go on to files that it cannot open.
        let before = prlimit(Some(pid), Resource::Nofile, few).unwrap();
        drop(into.unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut message = String::new();
        stderr.read_line(&mut message).unwrap();
        let waits = "uthread: waiting for a free descriptor: Too many open files (os error 24)\n";
        assert_eq!(message, waits, "{driver}");
        prlimit(Some(pid), Resource::Nofile, before).unwrap();
        let printed = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert_eq!(printed, expected, "{driver}");
        assert!(child.wait().unwrap().success(), "{driver}");
        assert_eq!(std::io::read_to_string(stderr).unwrap(), "", "{driver}");
    }
}

//! The memory of a search is bounded, whatever it searches.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use super::{DRIVERS, is_exhaustive, make_fifo, search_on};
use crate::harness::{site, sparse_file};

const MIB: usize = 1024 * 1024;

/// Returns the most memory that a search of these paths has had, in bytes.
#[track_caller]
fn peak(driver: &str, arguments: &[&str], folder: &Path) -> usize {
    // All others have been searched when the last result is printed. Then it waits for the pipe.
    let arguments = [
        &["--sort=path", "--no-messages", "text"],
        arguments,
        &["last", "fifo"],
    ]
    .concat();
    let mut command = search_on(driver, &arguments, folder);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    while !line.starts_with("last:") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "{driver}: ended");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    // Opening it waits for the search to open it, and closing it ends the search.
    drop(
        OpenOptions::new()
            .write(true)
            .open(folder.join("fifo"))
            .unwrap(),
    );
    assert!(child.wait().unwrap().code().is_some(), "{driver}");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    1024 * kib.parse::<usize>().unwrap()
}

#[test]
fn the_memory_of_a_search_is_bounded() {
    let files = site(&[("last", "text\n"), ("many/", "")]);
    make_fifo(&files.path().join("fifo"));
    let line = format!("{}\n", "x".repeat(2000));
    fs::write(
        files.path().join("long"),
        line.repeat(40 * MIB / line.len()),
    )
    .unwrap();
    sparse_file(&files.path().join("one-line"), 1 << 30);
    let names = if is_exhaustive() { 100_000 } else { 4000 };
    for index in 0..names {
        fs::write(files.path().join(format!("many/{index}")), "").unwrap();
    }
    for (index, driver) in DRIVERS.into_iter().enumerate() {
        let base = peak(driver, &[], files.path());
        assert!(base < 48 * MIB, "{driver}: {base} bytes");
        // A file, a line without an end, many names.
        for (number, (arguments, more)) in [
            (&["long"][..], 8 * MIB),
            (&["-a", "one-line"], 128 * MIB + 16 * MIB),
            (&["many"], 24 * MIB + 200 * names),
        ]
        .into_iter()
        .enumerate()
        {
            if index == number || is_exhaustive() {
                let peak = peak(driver, arguments, files.path());
                assert!(
                    peak < base + more,
                    "{driver} {arguments:?}: {peak} bytes, not {base}"
                );
            }
        }
    }
}

#[test]
fn a_line_without_an_end_is_an_error() {
    let files = site(&[("b", "text\n")]);
    sparse_file(&files.path().join("a"), 1 << 30);
    let arguments = ["-a", "--sort=path", "text", "a", "b"];
    let output = search_on("uring", &arguments, files.path())
        .output()
        .unwrap();
    let too_long = "uthread: a: a line is longer than 128 MiB\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), too_long);
    assert_eq!(output.stdout, b"b:text\n");
    assert_eq!(output.status.code(), Some(2));
}

//! Searches on a terminal: the line with the progress, and Ctrl-C.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::{DRIVERS, assert_ends_by, make_fifo, search_on};
use crate::harness::site;
use crate::terminal::{read_until, terminal};

const ERASED: &str = "\r\x1b[K";

/// Starts the program, which alone has these descriptors then.
fn start(mut command: Command, stdout: Stdio, stderr: Stdio) -> Child {
    command.stdout(stdout).stderr(stderr).spawn().unwrap()
}

#[test]
fn the_progress_is_shown_after_a_second_and_erased() {
    let files = site(&[("a", "text\n")]);
    let (fifo, piped_fifo) = (files.path().join("fifo"), files.path().join("piped-fifo"));
    make_fifo(&fifo);
    make_fifo(&piped_fifo);
    for driver in DRIVERS {
        let write = |fifo| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(fifo)
                .unwrap()
        };
        let (mut into, mut into_piped) = (write(&fifo), write(&piped_fifo));
        // The results of this one are read through a pipe.
        let (mut silent, theirs) = terminal();
        let piped = search_on(driver, &["text", "a", "piped-fifo"], files.path());
        let mut piped = start(piped, Stdio::piped(), theirs.into());

        let (mut shown, theirs) = terminal();
        let child = search_on(driver, &["text", "a", "fifo"], files.path());
        let mut child = start(child, Stdio::null(), theirs.into());
        let line = read_until(&mut shown, Some("MiB/s"));
        assert!(
            line.contains("2 files, 0 MiB searched, 0 MiB/s"),
            "{driver}: {line:?}"
        );
        // The next line of progress replaces this one.
        read_until(&mut shown, Some(ERASED));
        into.write_all(b"text\n").unwrap();
        drop(into);
        let last = read_until(&mut shown, None);
        assert!(last.ends_with(ERASED), "{driver}: {last:?}");
        assert!(child.wait().unwrap().success());

        into_piped.write_all(b"text\n").unwrap();
        drop(into_piped);
        let printed = std::io::read_to_string(piped.stdout.take().unwrap()).unwrap();
        assert_eq!(printed.lines().count(), 2, "{driver}: {printed}");
        assert!(piped.wait().unwrap().success());
        assert_eq!(read_until(&mut silent, None), "", "{driver}");
    }
}

#[test]
fn an_interrupted_search_leaves_the_terminal_in_order() {
    let files = site(&[("a", "text\n")]);
    let fifo = files.path().join("fifo");
    make_fifo(&fifo);
    let _into = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&fifo)
        .unwrap();
    for (driver, signal) in DRIVERS
        .into_iter()
        .zip([Signal::INT, Signal::TERM, Signal::INT])
    {
        let (mut shown, theirs) = terminal();
        let mut child = search_on(driver, &["text", "a", "fifo"], files.path());
        child.stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let started = child.env("TERM", "xterm").env_remove("NO_COLOR").spawn();
        drop(child);
        let mut child = started.unwrap();
        let matched = read_until(&mut shown, Some("text"));
        assert!(matched.contains("\x1b["), "{driver}: {matched:?}");
        assert_ends_by(signal, &mut child, driver);
        let last = read_until(&mut shown, None);
        assert!(last.ends_with("\x1b[0m\r\x1b[K"), "{driver}: {last:?}");
    }
}

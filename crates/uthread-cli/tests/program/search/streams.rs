//! Pipes that stay open: their lines are printed as they are found, nobody waits for them, and
//! Ctrl-C loses nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::{DRIVERS, assert_ends_by, make_fifo, search_on};
use crate::harness::site;
use crate::terminal::{read_until, terminal};

fn start(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

/// Creates a pipe that is also open for reading, so that opening it waits for nobody.
fn pipe(path: &Path) -> File {
    make_fifo(path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// Reads the next line. The test fails if it does not come while the search runs.
#[track_caller]
fn next_line(stdout: &mut BufReader<ChildStdout>) -> String {
    if stdout.buffer().is_empty() {
        let hang = Timespec::try_from(Duration::from_secs(20)).unwrap();
        let mut polled = [PollFd::new(stdout.get_ref(), PollFlags::IN)];
        assert_eq!(poll(&mut polled, Some(&hang)), Ok(1), "waited for too long");
    }
    let mut line = String::new();
    assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "ended");
    line
}

#[track_caller]
fn assert_next(stdout: &mut BufReader<ChildStdout>, expected: &str, described: &str) {
    assert_eq!(next_line(stdout), expected, "{described}");
}

/// Catches lines that are printed only at the end of the pipe.
#[test]
fn lines_are_printed_while_the_pipe_is_open() {
    let files = site(&[]);
    let fifo = files.path().join("fifo");
    make_fifo(&fifo);
    for driver in DRIVERS {
        for options in [&[][..], &["--sort=path"], &["--line-buffered"], &["--json"]] {
            for path in ["fifo", "-"] {
                let described = format!("{driver} {options:?} {path}");
                let mut command = search_on(driver, &["text", path], files.path());
                command.args(options).stdin(Stdio::piped());
                let (mut child, mut stdout) = start(command);
                let mut into: Box<dyn Write> = match path {
                    "-" => Box::new(child.stdin.take().unwrap()),
                    _ => Box::new(OpenOptions::new().write(true).open(&fifo).unwrap()),
                };
                for number in 0..3 {
                    write!(into, "nothing\ntext {number}\nnothing\n").unwrap();
                    if options == ["--json"] {
                        let is_wanted = |line: &str| line.contains(&format!("text {number}"));
                        while !is_wanted(&next_line(&mut stdout)) {}
                    } else {
                        assert_next(&mut stdout, &format!("text {number}\n"), &described);
                    }
                }
                drop(into);
                assert!(child.wait().unwrap().success(), "{described}");
            }
        }
    }
}

/// Catches files that wait in the hands of a reader of a pipe, and pipes that take the places of
/// readers and of long files.
#[test]
fn other_files_do_not_wait_for_pipes() {
    let files = site(&[("a", "text\n"), ("folder/b", "text\n")]);
    let long = format!("{}text\n", "nothing\n".repeat(100_000));
    fs::write(files.path().join("long"), long).unwrap();
    let names = Vec::from_iter((0..10).map(|index| format!("fifo{index}")));
    let mut pipes = Vec::from_iter(names.iter().map(|name| pipe(&files.path().join(name))));
    for driver in DRIVERS {
        let mut command = search_on(driver, &["-j1", "text"], files.path());
        command.args(&names).args(["a", "folder", "long"]);
        let (mut child, mut stdout) = start(command);
        let mut lines = [(); 3].map(|()| next_line(&mut stdout));
        lines.sort();
        assert_eq!(
            lines,
            ["a:text\n", "folder/b:text\n", "long:text\n"],
            "{driver}"
        );
        for index in [7, 0, 7] {
            pipes[index].write_all(b"text in a pipe\n").unwrap();
            let expected = format!("fifo{index}:text in a pipe\n");
            assert_next(&mut stdout, &expected, driver);
        }
        assert_ends_by(Signal::INT, &mut child, driver);
    }
}

#[test]
fn the_path_is_repeated_above_lines_behind_those_of_another_file() {
    let files = site(&[]);
    let mut pipes = ["one", "two"].map(|name| pipe(&files.path().join(name)));
    for driver in DRIVERS {
        let arguments = ["--heading", "-n", "text", "one", "two"];
        let (mut child, mut stdout) = start(search_on(driver, &arguments, files.path()));
        for (index, expected) in [
            (0, "one\n1:text\n"),
            (0, "2:text\n"),
            (1, "\ntwo\n1:text\n"),
            (0, "\none\n3:text\n"),
            (1, "\ntwo\n2:text\n"),
            (1, "3:text\n"),
        ] {
            pipes[index].write_all(b"text\n").unwrap();
            for line in expected.split_inclusive('\n') {
                assert_next(&mut stdout, line, driver);
            }
        }
        assert_ends_by(Signal::TERM, &mut child, driver);
    }
}

#[test]
fn a_closed_stdout_ends_the_search_of_a_pipe() {
    let files = site(&[]);
    for driver in DRIVERS {
        let mut command = search_on(driver, &["text"], files.path());
        let (mut child, mut stdout) = start({
            command.stdin(Stdio::piped());
            command
        });
        let mut into = child.stdin.take().unwrap();
        into.write_all(b"text\n").unwrap();
        assert_next(&mut stdout, "text\n", driver);
        drop(stdout);
        // Fails once the search has ended.
        while into.write_all(b"text\n").is_ok() {}
        assert!(child.wait().unwrap().success(), "{driver}");
    }
}

#[test]
fn an_interrupt_prints_results_that_wait_for_their_turn() {
    // A result waits for those of a pipe before it.
    let files = site(&[]);
    let _first = pipe(&files.path().join("a"));
    // More than the progress shows as nothing, and more than a pipe has room for.
    let text = format!("text\n{}", "nothing\n".repeat(200_000));
    fs::write(files.path().join("b"), &text).unwrap();
    for driver in DRIVERS {
        let out = files.path().join("out");
        let (mut shown, theirs) = terminal();
        let mut command = search_on(driver, &["--sort=path", "text", "a", "b"], files.path());
        command.stdout(File::create(&out).unwrap()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        drop(command);
        read_until(&mut shown, Some("2 MiB searched"));
        assert_eq!(fs::read(&out).unwrap(), b"", "{driver}");
        assert_ends_by(Signal::INT, &mut child, driver);
        let printed = fs::read_to_string(&out).unwrap();
        assert_eq!(printed, "b:text\n", "{driver}");
    }
}

/// Pattern with too many states for tables, in which the search of a byte is fast.
const SLOW: &str = r"text|a[ab]{20}\W\w";

/// Creates a file whose search takes seconds, with a match at its beginning.
fn slow_file(folder: &Path) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut text = String::from("text\n");
    for _ in 0..6000 {
        text.extend((0..500).map(|_| if random.bool() { 'a' } else { 'b' }));
        text += &format!("\n{}", format!("{}\n", "z".repeat(499)).repeat(9));
    }
    fs::write(folder.join("slow"), text).unwrap();
}

#[test]
fn lines_of_a_single_file_are_printed_as_found_if_wanted() {
    let files = site(&[]);
    slow_file(files.path());
    for driver in DRIVERS {
        let arguments = ["--block-buffered", "--line-buffered", SLOW, "slow"];
        let (mut child, mut stdout) = start(search_on(driver, &arguments, files.path()));
        assert_next(&mut stdout, "text\n", driver);
        assert_eq!(child.try_wait().unwrap(), None, "{driver}");
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn an_interrupt_prints_what_was_found_in_the_file_that_is_searched() {
    let files = site(&[]);
    slow_file(files.path());
    for driver in DRIVERS {
        let (mut shown, theirs) = terminal();
        let arguments = ["--color=never", "--block-buffered", SLOW, "slow"];
        let mut command = search_on(driver, &arguments, files.path());
        command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        drop(command);
        let before = read_until(&mut shown, Some("searched"));
        assert!(!before.contains("text"), "{driver}: {before:?}");
        assert_ends_by(Signal::INT, &mut child, driver);
        let after = read_until(&mut shown, None);
        assert!(after.contains("text"), "{driver}: {after:?}");
    }
}

#[test]
fn an_ignored_interrupt_stays_ignored() {
    // Shells start a program in the background like this, so that Ctrl-C ends only the one in the
    // foreground.
    let files = site(&[]);
    for driver in DRIVERS {
        let mut command = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_uthread");
        command.args(["-c", "trap '' INT; exec \"$0\" search text", program]);
        command.env("UTHREAD_DRIVER", driver).stdin(Stdio::piped());
        let (mut child, mut stdout) = start({
            command.current_dir(files.path());
            command
        });
        let mut into = child.stdin.take().unwrap();
        into.write_all(b"text 1\n").unwrap();
        assert_next(&mut stdout, "text 1\n", driver);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        into.write_all(b"text 2\n").unwrap();
        drop(into);
        assert_next(&mut stdout, "text 2\n", driver);
        assert!(child.wait().unwrap().success(), "{driver}");
    }
}

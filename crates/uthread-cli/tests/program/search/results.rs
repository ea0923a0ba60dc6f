//! The output, its order and the ends of searches, without another program to compare with.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use super::{DRIVERS, make_fifo};
use crate::harness::{command, copy_program, site};

fn search(arguments: &[&str], folder: &Path) -> Command {
    let mut command = command(&["search"]);
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::null());
    command
}

/// Returns the output on each driver, which is the same.
#[track_caller]
fn output(arguments: &[&str], folder: &Path) -> Output {
    let outputs = DRIVERS.map(|driver| {
        let mut command = search(arguments, folder);
        command.env("UTHREAD_DRIVER", driver).output().unwrap()
    });
    let [uring, epoll, threads] = outputs;
    assert_eq!(uring, epoll, "{arguments:?}");
    assert_eq!(uring, threads, "{arguments:?}");
    uring
}

#[track_caller]
fn assert_prints(arguments: &[&str], folder: &Path, stdout: &str, stderr: &str, code: i32) {
    let output = output(arguments, folder);
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout);
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn matches_are_printed_with_paths_and_in_order() {
    let files = site(&[
        ("b.txt", "one\ntwo\nthree\n"),
        ("a/z.rs", "let two = 2;\r\n"),
        ("a.txt", "no end: two"),
        (".hidden", "two\n"),
    ]);
    let found = "a/z.rs:let two = 2;\r\na.txt:no end: two\nb.txt:two\n";
    assert_prints(&["--sort=path", "two"], files.path(), found, "", 0);
    let found = "a/z.rs:1\na.txt:1\nb.txt:2\n";
    assert_prints(&["--sort=path", "-c", "t[wh]"], files.path(), found, "", 0);
    let found = "b.txt-1-one\nb.txt:2:two\nb.txt-3-three\n";
    assert_prints(&["-nC1", "two", "b.txt", "-H"], files.path(), found, "", 0);
    assert_prints(&["four"], files.path(), "", "", 1);
}

#[test]
fn ignore_files_hold_beneath_directories_without_any() {
    let files = site(&[
        ("a/b/.ignore", "x*\n"),
        ("a/b/xa", "two\n"),
        ("a/b/c/xb", "two\n"),
        ("a/b/c/y", "two\n"),
        ("a/x", "two\n"),
        ("a/.hidden/x", "two\n"),
        ("git/.git/head", "two\n"),
        ("git/.gitignore", "z\n"),
        ("git/s/z", "two\n"),
        ("git/s/y", "two\n"),
    ]);
    let arguments = ["--sort=path", "-l", "two"];
    let found = "a/b/c/y\na/x\ngit/s/y\n";
    assert_prints(&arguments, files.path(), found, "", 0);
    // The rules also hold where the search begins beneath their files.
    assert_prints(&arguments, &files.path().join("a/b/c"), "y\n", "", 0);
    assert_prints(&arguments, &files.path().join("git/s"), "y\n", "", 0);
    let arguments = ["--sort=path", "-l", "--hidden", "two", "a"];
    let found = "a/.hidden/x\na/b/c/y\na/x\n";
    assert_prints(&arguments, files.path(), found, "", 0);
}

#[test]
fn a_file_of_git_holds_only_in_a_repository_but_its_errors_are_reported() {
    let files = site(&[
        ("a/.gitignore", "x\n"),
        ("a/x", "two\n"),
        ("a/b/.git/head", ""),
        ("a/b/.gitignore", "y\n"),
        ("a/b/x", "two\n"),
        ("a/b/y", "two\n"),
        ("c/.gitignore", "{\n"),
        ("c/x", "two\n"),
    ]);
    let arguments = ["--sort=path", "-l", "two", "a"];
    assert_prints(&arguments, files.path(), "a/b/x\na/x\n", "", 0);
    let arguments = ["--sort=path", "-l", "--no-require-git", "two", "a"];
    assert_prints(&arguments, files.path(), "", "", 1);
    let message = "uthread: c/.gitignore: line 1: error parsing glob '{': unclosed alternate group; \
                   missing '}' (maybe escape '{' with '[{]'?)\n";
    assert_prints(&["-l", "two", "c"], files.path(), "c/x\n", message, 0);
    // A part of a directory is listed at a time, and the file may be in a later one.
    for number in 0..2000 {
        fs::write(files.path().join(format!("c/{number}")), "").unwrap();
    }
    assert_prints(&["-l", "two", "c"], files.path(), "c/x\n", message, 0);
}

#[test]
fn a_path_may_be_longer_than_the_kernel_resolves() {
    let files = site(&[("top", "two\n")]);
    let name = "n".repeat(200);
    let mut folder = OwnedFd::from(fs::File::open(files.path()).unwrap());
    let levels = 25;
    for _ in 0..levels {
        mkdirat(&folder, &name, Mode::RWXU).unwrap();
        folder = openat(&folder, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = openat(&folder, "file", flags, Mode::RWXU).unwrap();
    fs::File::from(file).write_all(b"two\n").unwrap();
    let found = format!("{}file:two\ntop:two\n", format!("{name}/").repeat(levels));
    assert_prints(&["--sort=path", "two"], files.path(), &found, "", 0);
}

#[test]
fn wrong_arguments_are_refused_with_a_remedy() {
    let files = site(&[("a", "")]);
    for (arguments, message) in [
        (&["("][..], "Use -F to search for the text as it is."),
        (
            &[],
            "no pattern given; try: uthread search PATTERN [PATH...]",
        ),
        (
            &["a\nb"],
            "Use -U (--multiline) for matches that span lines, or -e for each alternative.",
        ),
        (&["a\\x00"], "Use -a (--text) to search for NUL bytes."),
        (
            &["-tnothing", "a"],
            "see uthread search --type-list for the known types",
        ),
        (&["-E", "klingon", "a"], "unknown encoding \"klingon\""),
        (
            &["-f", "missing", "a"],
            "missing: No such file or directory",
        ),
        (&["-g", "[", "a"], "unclosed character class"),
        (
            &["-f", "-", "-f", "-"],
            "patterns can be read from stdin only once",
        ),
        (
            &["--max-filesize", "5X", "a"],
            "invalid value '5X' for '--max-filesize <SIZE>'",
        ),
    ] {
        let output = output(arguments, files.path());
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(shown.contains(message), "{arguments:?}: {shown}");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn stdin_is_searched_and_read_for_patterns() {
    let files = site(&[("a", "first\nsecond\n")]);
    for (arguments, input, printed) in [
        (&["b"][..], "abc\ndef\nb", "abc\nb\n"),
        (&["b", "-", "-H"], "abc\n", "<stdin>:abc\n"),
        (&["-f", "-", "a"], "second\n", "second\n"),
        (&["-c", "x", "-"], "", ""),
    ] {
        for driver in DRIVERS {
            let mut command = search(arguments, files.path());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.env("UTHREAD_DRIVER", driver).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(input.as_bytes()).unwrap();
            drop(stdin);
            let output = child.wait_with_output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                printed,
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_searched() {
    let files = site(&[("a", "text\n"), ("b/c", "text\n")]);
    let arguments = ["--sort=path", "text", "missing", "a", "b"];
    let missing = "uthread: missing: No such file or directory (os error 2)\n";
    assert_prints(&arguments, files.path(), "a:text\nb/c:text\n", missing, 2);
    let arguments = ["--no-messages", "text", "missing", "a"];
    assert_prints(&arguments, files.path(), "a:text\n", "", 2);
    assert_prints(&["-q", "text", "a", "missing"], files.path(), "", "", 0);
}

/// Runs as another user: nothing is unreadable to root.
#[test]
fn files_and_folders_without_permission_are_reported() {
    let files = site(&[
        ("open", "text\n"),
        ("closed", "text\n"),
        ("folder/file", "text\n"),
    ]);
    let mode = |name: &str, mode| {
        let path = files.path().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // The other user has to reach the program, too.
    let program = files.path().join("program");
    copy_program(&program);
    for (name, bits) in [
        ("", 0o755),
        ("program", 0o755),
        ("closed", 0),
        ("folder", 0),
    ] {
        mode(name, bits);
    }
    for driver in DRIVERS {
        let mut command = Command::new(&program);
        command
            .args(["search", "--sort=path", "text", "closed", "folder", "open"])
            .current_dir(files.path())
            .env("UTHREAD_DRIVER", driver);
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        let output = command.output().unwrap();
        let refused = "Permission denied (os error 13)\n";
        let stderr = String::from_utf8(output.stderr).unwrap();
        // Messages are in no order.
        for path in ["closed", "folder"] {
            let message = format!("uthread: {path}: {refused}");
            assert!(stderr.contains(&message), "{driver}: {stderr}");
        }
        assert_eq!(stderr.lines().count(), 2, "{driver}: {stderr}");
        assert_eq!(output.stdout, b"open:text\n", "{driver}");
        assert_eq!(output.status.code(), Some(2), "{driver}");
    }
    mode("folder", 0o755);
}

#[test]
fn a_loop_of_links_is_reported_once() {
    let files = site(&[("a/b/file", "text\n")]);
    std::os::unix::fs::symlink("../..", files.path().join("a/b/up")).unwrap();
    let reported = "uthread: File system loop found: ./a/b/up points to an ancestor .\n";
    assert_prints(
        &["-L", "text", "."],
        files.path(),
        "./a/b/file:text\n",
        reported,
        2,
    );
    assert_prints(&["text", "."], files.path(), "./a/b/file:text\n", "", 0);
}

#[test]
fn a_loop_of_links_in_an_ignored_directory_is_reported() {
    let files = site(&[("a/file", "text\n"), (".ignore", "up\n")]);
    std::os::unix::fs::symlink("..", files.path().join("a/up")).unwrap();
    let reported = "uthread: File system loop found: ./a/up points to an ancestor .\n";
    let found = "./a/file:text\n";
    assert_prints(&["-L", "text", "."], files.path(), found, reported, 2);
}

#[test]
fn a_wrong_glob_in_an_ignore_file_is_reported_once_and_the_search_succeeds() {
    let files = site(&[
        ("a/.ignore", "{b\nc\n"),
        ("a/b", "text\n"),
        ("a/c", "text\n"),
    ]);
    let reported = "uthread: ./a/.ignore: line 1: error parsing glob '{b': unclosed alternate group; \
                    missing '}' (maybe escape '{' with '[{]'?)\n";
    let found = "./a/b:text\n./a/b:text\n";
    assert_prints(&["text", ".", "."], files.path(), found, reported, 0);
    let arguments = ["--no-ignore-messages", "text", ".", "."];
    assert_prints(&arguments, files.path(), found, "", 0);
}

#[test]
fn the_message_that_nothing_was_searched_names_no_option_that_does_not_help() {
    let files = site(&[("a", "text\n")]);
    let reported =
        "uthread: no file was searched: ignore files, globs, types or other options exclude all\n";
    assert_prints(&["-trust", "text"], files.path(), "", reported, 2);
}

#[test]
fn the_beginning_of_the_text_is_where_ripgrep_finds_it() {
    // After the bytes that ripgrep has read for the byte order mark.
    let files = site(&[("a", "t\nneedles\n")]);
    assert_prints(
        &["-o", "\\Aneedle", "."],
        files.path(),
        "./a:needle\n",
        "",
        0,
    );
}

#[test]
fn a_closed_stdout_ends_the_search_quietly() {
    let files = site(&[]);
    for index in 0..200 {
        fs::write(
            files.path().join(index.to_string()),
            "text\n".repeat(10_000),
        )
        .unwrap();
    }
    for driver in DRIVERS {
        let mut command = search(&["text"], files.path());
        command.env("UTHREAD_DRIVER", driver);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.ends_with(":text\n"), "{line}");
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{driver}");
        assert_eq!(output.status.signal(), None, "{driver}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let files = site(&[("a", "text\n")]);
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = search(&["text"], files.path())
        .stdout(full)
        .output()
        .unwrap();
    let message = "uthread: cannot write to stdout: No space left on device (os error 28)\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    assert_eq!(output.status.code(), Some(2));
}

/// Catches results of one file between those of another, however large they are.
#[test]
fn results_of_a_file_stay_together() {
    let files = site(&[]);
    for index in 0..12 {
        // Some are printed in parts, as they are longer than what is kept.
        let lines = if index % 3 == 0 { 1500 } else { 30 };
        let text = format!("a line with text{}\n", " ".repeat(1000)).repeat(lines);
        fs::write(files.path().join(format!("{index:02}")), text).unwrap();
    }
    for order in ["none", "path"] {
        for driver in DRIVERS {
            let mut command = search(&["text", "--sort", order], files.path());
            let output = command.env("UTHREAD_DRIVER", driver).output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            let mut names = Vec::from_iter(stdout.lines().map(|line| &line[..2]));
            assert_eq!(names.len(), 4 * 1500 + 8 * 30);
            names.dedup();
            assert_eq!(names.len(), 12, "{order} {driver}: {names:?}");
            assert!(order == "none" || names.is_sorted(), "{driver}: {names:?}");
        }
    }
}

/// Catches a search that never ends because it also searches the file to which it prints, which
/// grows meanwhile.
#[test]
fn the_output_is_not_searched() {
    let files = site(&[("a", "text\n")]);
    for driver in DRIVERS {
        let out = fs::File::create(files.path().join("out")).unwrap();
        let mut command = search(&["text"], files.path());
        let status = command.env("UTHREAD_DRIVER", driver).stdout(out).status();
        assert_eq!(status.unwrap().code(), Some(0));
        assert_eq!(
            fs::read(files.path().join("out")).unwrap(),
            b"a:text\n",
            "{driver}"
        );
    }
}

#[test]
fn many_names_and_a_deep_tree_are_searched() {
    let files = site(&[]);
    let mut path = files.path().to_owned();
    for _ in 0..300 {
        path.push("deep");
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("file"), "text\n").unwrap();
    for index in 0..1100 {
        fs::write(files.path().join(index.to_string()), "").unwrap();
    }
    let found = format!("{}file:text\n", "deep/".repeat(300));
    assert_prints(&["text"], files.path(), &found, "", 0);
    let listed = output(&["--files", "--sort=path"], files.path());
    assert_eq!(listed.stdout.split(|byte| *byte == b'\n').count(), 1102);
}

#[test]
fn a_fifo_is_read_if_it_is_named() {
    let files = site(&[("a", "text\n")]);
    let fifo = files.path().join("fifo");
    make_fifo(&fifo);
    assert_prints(&["text"], files.path(), "a:text\n", "", 0);
    for driver in DRIVERS {
        let mut command = search(&["text", "fifo"], files.path());
        let child = command
            .env("UTHREAD_DRIVER", driver)
            .stdout(Stdio::piped())
            .spawn();
        fs::write(&fifo, "a\ntext in a pipe\n").unwrap();
        let mut child = child.unwrap();
        let printed = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert_eq!(printed, "text in a pipe\n", "{driver}");
        assert!(child.wait().unwrap().success());
    }
}

//! `uthread port`: the files it accepts, its output and its exit codes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{command, site};

#[track_caller]
fn port(arguments: &[&str], folder: &Path, code: i32) -> String {
    let mut command = command(&["port"]);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.unwrap();
    let shown = [output.stdout, output.stderr].concat();
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(output.status.code(), Some(code), "{shown}");
    shown
}

#[test]
fn files_are_ported_in_place() {
    let main = "use std::{fmt, io};\n\nthread_local!(static A: u8 = 0);\nfn main() {}\n";
    let files = site(&[
        ("src/main.rs", main),
        ("src/a/b.rs", "use std::fs;\n"),
        ("src/a/c.rs", "use std::fmt;\n"),
        ("src/a/d.txt", "use std::fs;\n"),
        ("src/target/e.rs", "use std::fs;\n"),
        ("src/.hidden/f.rs", "use std::fs;\n"),
        ("build.rs", "use std::fs;\n"),
    ]);
    let read = |name: &str| fs::read_to_string(files.path().join(name)).unwrap();
    let to_change = "\
src/a/b.rs: changes to make: 1
src/main.rs:3: kept thread_local!: the fibers of a worker share its values: `--locals` gives each fiber its own
src/main.rs: changes to make: 2
changes to make: 3 in 2 of 3 files; lines that need attention: 1
";
    let shown = port(&["--check", "--main", "src"], files.path(), 1);
    assert_eq!(shown, to_change);
    assert_eq!(read("src/main.rs"), main);

    let shown = port(&["--main", "src"], files.path(), 0);
    assert!(shown.ends_with("\nchanges made: 3 in 2 of 3 files; lines that need attention: 1\n"));
    let ported = "use std::fmt;\nuse uthread::io;\n\nthread_local!(static A: u8 = 0);\n\
                  #[uthread::main]\nfn main() {}\n";
    assert_eq!(read("src/main.rs"), ported);
    assert_eq!(read("src/a/b.rs"), "use uthread::fs;\n");
    for name in [
        "src/a/d.txt",
        "src/target/e.rs",
        "src/.hidden/f.rs",
        "build.rs",
    ] {
        assert_eq!(read(name), "use std::fs;\n", "{name}");
    }
    let shown = port(&["--check", "--main", "src"], files.path(), 0);
    assert!(
        shown.ends_with("\nchanges to make: 0 in 0 of 3 files; lines that need attention: 1\n")
    );

    let arguments = ["--locals", "--tests", "src/main.rs", "build.rs"];
    let shown = port(&arguments, files.path(), 0);
    assert_eq!(
        shown,
        "changes made: 2 in 2 of 2 files; lines that need attention: 0\n"
    );
    assert!(read("src/main.rs").contains("uthread::local!(static A"));
}

#[test]
fn a_source_that_cannot_be_written_stays_whole() {
    let source = "use std::fs;\n".repeat(1000);
    let files = site(&[("a.rs", &source)]);
    // A file that may have 512 or 1,024 bytes stands for a disk that is nearly full.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" port a.rs";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_uthread")])
        .current_dir(files.path())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let expected = "uthread: cannot write a.rs: File too large";
    assert!(errors.starts_with(expected), "{errors}");
    let left = fs::read_to_string(files.path().join("a.rs")).unwrap();
    assert!(left == source, "{} bytes are left", left.len());
    assert_eq!(fs::read_dir(&files).unwrap().count(), 1, "litter");
}

#[test]
fn files_that_cannot_be_ported_are_reported() {
    let files = site(&[("a.rs", "fn f( {")]);
    let shown = port(&["a.rs"], files.path(), 0);
    assert!(
        shown.starts_with("a.rs:1: kept the file: it is not Rust"),
        "{shown}"
    );
    fs::write(files.path().join("a.rs"), b"\xff").unwrap();
    let shown = port(&["."], files.path(), 0);
    assert!(
        shown.contains("a.rs:1: kept the file: it is not UTF-8"),
        "{shown}"
    );
    let shown = port(&["none"], files.path(), 2);
    assert!(shown.starts_with("uthread: cannot read none: "), "{shown}");
    port(&[], files.path(), 2);
}

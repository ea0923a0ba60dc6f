//! Tests `cargo xtask` from outside: its output and exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn xtask(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("xtask runs")
}

/// Creates a repository with a page.
fn repository(name: &str, page: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(root.join("docs")).expect("a folder");
    for (path, text) in [("Cargo.lock", ""), ("README.md", page)] {
        fs::write(root.join(path), text).expect("a file");
    }
    root
}

#[test]
fn without_arguments_it_helps() {
    let output = xtask(Path::new("."), &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("cargo xtask <command>"));
}

#[test]
fn an_unknown_command_is_an_error_of_usage() {
    let output = xtask(Path::new("."), &["tody"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown command: tody"));
}

#[test]
fn an_unknown_machine_is_an_error_of_usage() {
    let output = xtask(Path::new("."), &["kernels", "2.4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no machine 2.4"));
}

#[test]
fn an_unknown_crate_is_an_error_of_usage() {
    let output = xtask(Path::new("."), &["foreign", "--only", "none"]);
    assert_eq!(output.status.code(), Some(2));
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("--only none: there are "), "{shown}");
}

#[test]
fn tidy_is_silent_where_all_is_well() {
    let output = xtask(&repository("good", "[itself](README.md)\n"), &["tidy"]);
    assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()));
}

#[test]
fn tidy_prints_its_findings_and_fails() {
    let output = xtask(&repository("bad", "[a](a.md)\n").join("docs"), &["tidy"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout);
    let expected = "README.md:1: the link to a.md leads nowhere: correct it or write the file\n";
    assert_eq!(shown, expected);
}

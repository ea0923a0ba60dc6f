//! `cargo xtask` as its user meets it: what it prints and how it exits.

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

/// A repository of its own, with all that tidy asks for and the file `a.rs`.
fn repository(name: &str, a: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let files = [
        ("Cargo.lock", ""),
        (
            "README.md",
            "    cargo run --release -- serve .\n    cargo test\n",
        ),
        (".ci/run", "#!/bin/sh\ncargo test\n"),
        ("a.rs", a),
    ];
    fs::create_dir_all(root.join(".ci")).expect("a folder");
    for (path, text) in files {
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
    assert!(String::from_utf8_lossy(&output.stderr).contains("no machine is called 2.4"));
}

#[test]
fn tidy_is_silent_where_all_is_well() {
    let output = xtask(&repository("good", "//! What a is.\n"), &["tidy"]);
    assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()));
}

#[test]
fn tidy_prints_its_findings_and_fails() {
    let output = xtask(&repository("bad", "fn a() {}\n").join(".ci"), &["tidy"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.starts_with("a.rs:1: ") && shown.lines().count() == 1,
        "{shown}"
    );
}

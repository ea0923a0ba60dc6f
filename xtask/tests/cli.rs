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

/// Creates a repository with everything that tidy requires, and the file `a.rs`.
fn repository(name: &str, a: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let files = [
        ("Cargo.lock", ""),
        (
            "README.md",
            "    cargo run --release -- serve .\n    cargo test --no-fail-fast\n    uthread port --main src\n",
        ),
        (
            "crates/uthread/src/guide/porting.md",
            "uthread port --main src\n",
        ),
        (".ci/run", "#!/bin/sh\ncargo xtask ci\n"),
        ("a.rs", a),
    ];
    for (path, text) in files {
        let folder = root.join(path);
        fs::create_dir_all(folder.parent().expect("a folder")).expect("a folder");
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
    let output = xtask(&repository("good", "//! The module a.\n"), &["tidy"]);
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

#[test]
fn figures_are_compared_and_written() {
    let root = repository("figures", "//! The module a.\n");
    let readme = root.join("README.md");
    let report = root.join("docs/results/report.json");
    let run = |arguments: &[&str], code: i32, expected: &str| {
        let output = xtask(&root, arguments);
        let shown = [&output.stdout[..], &output.stderr[..]].concat();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert_eq!(output.status.code(), Some(code), "{shown}");
        assert!(shown.contains(expected), "{shown}");
    };
    let _ = fs::remove_file(&report);
    run(&["figures"], 0, "nothing to compare");
    run(
        &["figures", "--write"],
        2,
        "docs/results/report.json does not exist",
    );

    fs::create_dir_all(report.parent().expect("a folder")).expect("a folder");
    fs::write(&report, r#"{ "summary": ["| a |", "| b |"] }"#).expect("a file");
    run(&["figures"], 1, "README.md:1: no line");
    let marks = "<!-- figures: begin -->\n<!-- figures: end -->\n";
    let text = fs::read_to_string(&readme).expect("a README");
    fs::write(&readme, text.clone() + marks).expect("a file");
    run(
        &["figures"],
        1,
        "`| a |`: run `cargo xtask figures --write`",
    );
    run(&["tidy"], 1, "`| a |`: run `cargo xtask figures --write`");
    run(&["figures", "--write"], 0, "written");
    run(&["figures", "--write"], 0, "is up to date");
    run(&["figures"], 0, "2 lines of README.md equal those of");
    run(&["tidy"], 0, "");
    let marks = "<!-- figures: begin -->\n| a |\n| b |\n<!-- figures: end -->\n";
    assert_eq!(fs::read_to_string(&readme).expect("a README"), text + marks);

    fs::remove_file(&report).expect("the report was there");
    run(&["figures"], 1, "figures without docs/results/report.json");
}

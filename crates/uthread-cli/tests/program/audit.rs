//! `uthread audit`: the dependencies that it finds, their verdicts, and what `uthread port` says
//! about them.

use std::path::Path;

use tempfile::TempDir;

use crate::harness::{command, site};

#[track_caller]
fn run(arguments: &[&str], folder: &Path, code: i32) -> String {
    let mut command = command(arguments);
    let output = command.current_dir(folder).output().unwrap();
    let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{shown}");
    shown
}

/// The crates that the program may depend on, with the text of their libraries.
const CRATES: [(&str, &str); 8] = [
    ("plain", "pub fn double(number: u32) -> u32 { 2 * number }"),
    ("blocks", "use std::{fmt, sync::Condvar};"),
    ("hidden", "fn wait() {\n    std::thread::park();\n}"),
    (
        "locks",
        "use std::sync::Mutex;\n#[cfg(test)]\nmod tests { use std::thread::park; }",
    ),
    ("foreign", "extern \"C\" { fn wait(); }"),
    ("r2d2", "// It waits in another crate."),
    ("tracing", "thread_local! { static A: u8 = 0; }"),
    ("of-builds", "use std::sync::Condvar;"),
];

/// Creates a program with dependencies, which cargo takes from a folder.
fn program(dependencies: &str) -> TempDir {
    let config =
        "[source.crates-io]\nreplace-with = \"folder\"\n[source.folder]\ndirectory = \"crates\"\n";
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{dependencies}"
    );
    let mut files = vec![
        ("Cargo.toml".to_owned(), manifest),
        (".cargo/config.toml".to_owned(), config.to_owned()),
        (
            "src/main.rs".to_owned(),
            "use std::io;\nfn main() {}\n".to_owned(),
        ),
    ];
    for (name, source) in CRATES {
        // Reached through another crate only.
        let hidden = if name == "plain" {
            "hidden = \"1\""
        } else {
            ""
        };
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\n{hidden}\n"
        );
        let folder = format!("crates/{name}");
        files.push((format!("{folder}/Cargo.toml"), manifest));
        files.push((format!("{folder}/src/lib.rs"), source.to_owned()));
        files.push((
            format!("{folder}/.cargo-checksum.json"),
            "{\"files\":{}}".to_owned(),
        ));
    }
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    site(&files)
}

const DEPENDENCIES: &str = "[dependencies]\nplain = \"1\"\nblocks = \"1\"\nlocks = \"1\"\nforeign = \"1\"\nr2d2 = \"1\"\n\
                            tracing = \"1\"\n[build-dependencies]\nof-builds = \"1\"\n";

#[test]
fn each_dependency_has_a_verdict_and_a_place() {
    let program = program(DEPENDENCIES);
    let expected = "\
can block the worker: 3
  remedy: call it in uthread::blocking, or set UTHREAD_OWN_TLS=1 (Builder::own_tls)
  blocks 1.0.0                 std::sync::Condvar at src/lib.rs:1
  hidden 1.0.0                 std::thread::park at src/lib.rs:2
  r2d2 1.0.0                   tried

keeps context in thread-locals, which the fibers of a worker share: 1
  remedy: leave its guards and scopes before a call that waits, save the context by Builder::context, or set UTHREAD_OWN_TLS=1
  tracing 1.0.0                thread_local! at src/lib.rs:1; tried

calls functions of C: 1
  remedy: if they wait: as for one that can block
  foreign 1.0.0                extern at src/lib.rs:1

takes locks: 1
  remedy: nothing, unless it calls your code, which waits, while it holds one
  locks 1.0.0                  std::sync::Mutex at src/lib.rs:1

works as it is: 1 of 7; starts threads, whose calls are no fibers': 0
";
    assert_eq!(run(&["audit"], program.path(), 0), expected);
    let folder = program.path().join("src");
    assert_eq!(run(&["audit", ".."], &folder, 0), expected);
}

#[test]
fn porting_reports_dependencies_that_can_block() {
    let warned = program(DEPENDENCIES);
    let shown = run(&["port", "src"], warned.path(), 0);
    let warning = "dependencies that can block a worker: blocks, hidden, r2d2 (`uthread audit` shows where; with UTHREAD_OWN_TLS=1 they may)\n";
    assert!(shown.ends_with(warning), "{shown}");
    let clear = program("[dependencies]\nlocks = \"1\"\n");
    let shown = run(&["port", "src"], clear.path(), 0);
    assert!(
        shown.ends_with("dependencies that can block a worker: none of 1\n"),
        "{shown}"
    );
    let unknown = program("[dependencies]\nmissing = \"1\"\n");
    let shown = run(&["port", "src"], unknown.path(), 0);
    assert!(
        shown.contains("\ndependencies are not checked: "),
        "{shown}"
    );
}

#[test]
fn a_folder_without_a_program_is_refused() {
    let empty = TempDir::new().unwrap();
    let shown = run(&["audit"], empty.path(), 2);
    assert!(
        shown.contains("uthread: cargo cannot list the dependencies: "),
        "{shown}"
    );
    let shown = run(&["audit", "missing"], empty.path(), 2);
    assert!(shown.contains("cannot run cargo in missing: "), "{shown}");
}

#[test]
fn a_system_without_cargo_is_named_as_the_reason() {
    let program = program("[dependencies]\n");
    let mut command = command(&["audit"]);
    let output = command
        .current_dir(program.path())
        .env("CARGO", "/no/cargo");
    let output = output.output().unwrap();
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{shown}");
    let expected = "uthread: cannot run /no/cargo; is it installed?: ";
    assert!(shown.starts_with(expected), "{shown}");
}

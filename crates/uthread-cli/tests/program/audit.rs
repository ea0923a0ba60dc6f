//! `uthread audit`: the dependencies that it finds, their verdicts, and what `uthread port` says
//! about them.

use std::fs;
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
  remedy: call it in uthread::blocking, or do without lean fibers (Builder::lean)
  blocks 1.0.0                 std::sync::Condvar at src/lib.rs:1
  hidden 1.0.0                 std::thread::park at src/lib.rs:2
  r2d2 1.0.0                   tried

keeps context in thread-locals, which the fibers of a worker share: 1
  remedy: leave its guards and scopes before a call that waits, save the context by Builder::context, or do without lean fibers
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
    let warning = "dependencies that can block the worker of lean fibers: blocks, hidden, r2d2 (`uthread audit` shows where; other fibers may block)\n";
    assert!(shown.ends_with(warning), "{shown}");
    let clear = program("[dependencies]\nlocks = \"1\"\n");
    let shown = run(&["port", "src"], clear.path(), 0);
    assert!(
        shown.ends_with("dependencies that can block the worker of lean fibers: none of 1\n"),
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

/// A crate: its name, the rest of its manifest, and its files.
type Crate<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// Creates a program that depends on crates in folders beside it.
fn program_of(crates: &[Crate<'_>]) -> TempDir {
    let manifest = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n{rest}\n")
    };
    let dependencies = crates.iter().map(|(name, ..)| dependency(name, "../"));
    let dependencies = dependencies.collect::<Vec<_>>().join("\n");
    let own = manifest("program", &format!("[dependencies]\n{dependencies}"));
    let mut files = vec![
        ("program/Cargo.toml".to_owned(), own),
        (
            "program/src/main.rs".to_owned(),
            "fn main() {}\n".to_owned(),
        ),
    ];
    for (name, rest, sources) in crates {
        files.push((format!("{name}/Cargo.toml"), manifest(name, rest)));
        for (file, source) in *sources {
            files.push((format!("{name}/{file}"), (*source).to_owned()));
        }
    }
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    site(&files)
}

fn dependency(name: &str, folder: &str) -> String {
    format!("{name} = {{ path = \"{folder}{name}\" }}")
}

/// Returns the lines of the report about crates, and the last one.
fn lines_about_crates(program: &TempDir) -> Vec<String> {
    let shown = run(&["audit"], &program.path().join("program"), 0);
    let is_of_crate = |line: &&str| line.contains(" 1.0.0 ") || line.starts_with("works as it is");
    let lines = shown.lines().filter(is_of_crate);
    // Without the columns.
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect()
}

#[test]
fn dependencies_in_folders_are_audited() {
    let patched = program(
        "[dependencies]\nplain = \"1\"\nnear = { path = \"near\" }\n[patch.crates-io]\nplain = { path = \"fork\" }\n",
    );
    let write = |name: &str, manifest: &str, source: &str| {
        let folder = patched.path().join(name);
        fs::create_dir_all(folder.join("src")).unwrap();
        let package = format!("[package]\nversion = \"1.0.0\"\nedition = \"2021\"\n{manifest}");
        fs::write(folder.join("Cargo.toml"), package).unwrap();
        fs::write(folder.join("src/lib.rs"), source).unwrap();
    };
    write("near", "name = \"near\"", "use std::thread::park;");
    write("fork", "name = \"plain\"", "use std::sync::Condvar;");
    let shown = run(&["audit"], patched.path(), 0);
    let expected = "  near 1.0.0                   std::thread::park at src/lib.rs:1\n  \
                    plain 1.0.0                  std::sync::Condvar at src/lib.rs:1\n";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("works as it is: 0 of 2;"), "{shown}");
}

#[test]
fn libraries_of_a_workspace_are_audited_if_others_use_them() {
    let workspace = program_of(&[
        ("library", "", &[("src/lib.rs", "use std::thread::park;")]),
        ("alone", "", &[("src/main.rs", "fn main() {}")]),
    ]);
    let manifest = "[workspace]\nresolver = \"2\"\nmembers = [\"library\", \"program\"]\n";
    fs::write(workspace.path().join("Cargo.toml"), manifest).unwrap();
    let own = workspace.path().join("program/Cargo.toml");
    let text = fs::read_to_string(&own).unwrap();
    fs::write(&own, text.replace(&dependency("alone", "../"), "")).unwrap();
    let shown = run(&["audit"], workspace.path(), 0);
    assert!(shown.contains("  library 1.0.0 "), "{shown}");
    assert!(shown.contains("works as it is: 0 of 1;"), "{shown}");
    assert!(!workspace.path().join("Cargo.lock").exists());
}

#[test]
fn callers_of_a_library_of_c_are_named() {
    let build = ("build.rs", "fn main() {}");
    let declares = ("src/lib.rs", "extern \"C\" { pub fn wait(); }");
    let calls = ("src/lib.rs", "pub fn a() {}");
    let uses = |name| format!("[dependencies]\n{}", dependency(name, "../"));
    let program = program_of(&[
        ("z-sys", "links = \"z\"", &[build, declares]),
        ("z-safe", &uses("z-sys"), &[calls]),
        ("z", &uses("z-safe"), &[calls]),
        ("above", &uses("z"), &[calls]),
        ("y-sys", "", &[("src/lib.rs", "use std::fs::read;")]),
        ("y", &uses("y-sys"), &[calls]),
    ]);
    let expected = [
        "z 1.0.0 calls z-sys",
        "z-safe 1.0.0 calls z-sys",
        "z-sys 1.0.0 extern at src/lib.rs:1; links z",
        "y-sys 1.0.0 std::fs at src/lib.rs:1",
        "works as it is: 2 of 6; starts threads, whose calls are no fibers': 0",
    ];
    assert_eq!(lines_about_crates(&program), expected);
}

#[test]
fn guards_of_thread_locals_keep_context() {
    let context = "\
thread_local! {
    static CURRENT: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
}
struct Guard;
impl Drop for Guard {
    fn drop(&mut self) {
        CURRENT.with(|stack| stack.borrow_mut().pop());
    }
}
";
    let cache =
        "thread_local! { static CACHE: u8 = 0; }\npub fn get() -> u8 { CACHE.with(|a| *a) }";
    let both = format!("{context}fn a() {{ std::thread::park() }}\n");
    let program = program_of(&[
        ("context", "", &[("src/lib.rs", context)]),
        ("cache", "", &[("src/lib.rs", cache)]),
        ("both", "", &[("src/lib.rs", &both)]),
    ]);
    let expected = [
        "both 1.0.0 std::thread::park at src/lib.rs:10; a guard of CURRENT at src/lib.rs:5",
        "context 1.0.0 a guard of CURRENT at src/lib.rs:5",
        "works as it is: 1 of 3; starts threads, whose calls are no fibers': 0",
    ];
    assert_eq!(lines_about_crates(&program), expected);
}

#[test]
fn places_that_the_program_does_not_contain_are_left_out() {
    let blocks = "use std::thread::park;";
    let main = "use std::thread::park;\nfn main() {}";
    let clear = "\
#[cfg(target_os = \"macos\")]
mod kqueue;
#[cfg(all(test, feature = \"a\"))]
mod checks;
mod inner {
    #[cfg(windows)]
    mod iocp;
}
#[cfg(not(unix))]
#[path = \"imp_other.rs\"]
mod imp;
#[cfg(unix)]
#[path = \"imp_unix.rs\"]
mod imp;
";
    let both = "#[cfg(test)]\nmod used;\n#[cfg(not(test))]\nmod used;\n";
    let program = program_of(&[
        (
            "clear",
            "[features]\na = []",
            &[
                ("src/lib.rs", clear),
                ("src/kqueue.rs", "mod events;"),
                ("src/kqueue/events.rs", blocks),
                ("src/checks/mod.rs", blocks),
                ("src/inner/iocp.rs", blocks),
                ("src/imp_other.rs", blocks),
                ("src/imp_unix.rs", "pub fn a() {}"),
                ("src/whole.rs", "#![cfg(windows)]\nuse std::thread::park;"),
                ("src/main.rs", main),
                ("src/bin/tool.rs", main),
                ("src/bin/other/main.rs", main),
                ("src/bin/other/part.rs", blocks),
            ],
        ),
        (
            "flat",
            "[lib]\npath = \"lib.rs\"",
            &[
                ("lib.rs", "pub fn a() {}"),
                ("build.rs", main),
                ("examples/a.rs", main),
                ("tests/a.rs", blocks),
            ],
        ),
        (
            "kept",
            "",
            &[
                ("src/lib.rs", both),
                ("src/used.rs", blocks),
                ("src/used/windows.rs", blocks),
            ],
        ),
    ]);
    let expected = [
        "kept 1.0.0 std::thread::park at src/used.rs:1",
        "works as it is: 2 of 3; starts threads, whose calls are no fibers': 0",
    ];
    assert_eq!(lines_about_crates(&program), expected);
}

#[test]
fn code_for_features_that_a_crate_does_not_have_is_left_out() {
    let source =
        "#[cfg(feature = \"on\")]\nuse std::fs::read;\n#[cfg(feature = \"off\")]\nmod off;";
    let off = "use std::thread::park;";
    let program = program_of(&[(
        "featured",
        "[features]\ndefault = [\"on\"]\non = []\noff = []",
        &[("src/lib.rs", source), ("src/off.rs", off)],
    )]);
    let expected = [
        "featured 1.0.0 std::fs at src/lib.rs:2",
        "works as it is: 0 of 1; starts threads, whose calls are no fibers': 0",
    ];
    assert_eq!(lines_about_crates(&program), expected);
}

#[test]
fn the_lock_file_is_left_as_it_is() {
    let program = program_of(&[("near", "", &[("src/lib.rs", "pub fn a() {}")])]);
    let folder = program.path().join("program");
    let lock = folder.join("Cargo.lock");
    assert_eq!(lines_about_crates(&program).len(), 1);
    assert!(!lock.exists());
    // One that is out of date, without the dependency.
    let old = "version = 4\n\n[[package]]\nname = \"program\"\nversion = \"1.0.0\"\n";
    fs::write(&lock, old).unwrap();
    assert_eq!(lines_about_crates(&program).len(), 1);
    assert_eq!(fs::read_to_string(&lock).unwrap(), old);
    // `port` warns of the same dependencies.
    run(&["port", "src"], &folder, 0);
    assert_eq!(fs::read_to_string(&lock).unwrap(), old);
}

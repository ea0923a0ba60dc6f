//! Builds the programs that run in the guest: the library's tests and the doctor.

use std::collections::BTreeSet;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::plan::{DOCTOR, DOCTOR_PACKAGE, PACKAGE, RUNS, UNIT_TESTS};
use super::tools::output;

/// Slightly optimized, with all checks, and small.
const PROFILE: &str = "guest";

/// A program by the name of its target; `lib` for the library's unit tests.
pub(crate) struct Program {
    pub(super) name: String,
    pub(crate) file: PathBuf,
}

/// Returns cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

pub(super) fn build(root: &Path) -> io::Result<Vec<Program>> {
    let names: BTreeSet<_> = RUNS.iter().map(|(name, _)| *name).collect();
    let mut tests = cargo(root, PROFILE, PACKAGE, &["test", "--no-run"]);
    for name in &names {
        match *name {
            UNIT_TESTS => tests.arg("--lib"),
            name => tests.args(["--test", name]),
        };
    }
    let mut doctor = cargo(root, PROFILE, DOCTOR_PACKAGE, &["build", "--bin", DOCTOR]);
    let mut programs = built(&mut tests)?;
    programs.extend(built(&mut doctor)?);
    let expected = names.len() + 1;
    assert_eq!(programs.len(), expected, "cargo says what it has built");
    Ok(programs)
}

/// Builds the only program of a package, with these flags of the compiler.
pub(crate) fn only(root: &Path, profile: &str, package: &str, flags: &str) -> io::Result<Program> {
    let mut build = cargo(root, profile, package, &["build"]);
    let mut programs = built(build.env("RUSTFLAGS", flags))?;
    let program = programs.pop();
    program.ok_or_else(|| io::Error::other(format!("{package} has no program")))
}

/// Builds a program of a package.
pub(super) fn named(root: &Path, profile: &str, package: &str, name: &str) -> io::Result<Program> {
    let mut build = cargo(root, profile, package, &["build", "--bin", name]);
    let program = built(&mut build)?.pop();
    program.ok_or_else(|| io::Error::other(format!("cargo does not say where {name} is")))
}

/// Runs cargo, and returns the programs in its messages.
pub(crate) fn built(command: &mut Command) -> io::Result<Vec<Program>> {
    Ok(output(command)?.lines().filter_map(program).collect())
}

fn cargo(root: &Path, profile: &str, package: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    command.args(["--message-format=json", "--profile", profile]);
    command.args(["--package", package]);
    command
}

/// Returns the program in a message of cargo, if the message contains one.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let file = message["executable"].as_str()?;
    let target = &message["target"];
    let name = match target["kind"][0].as_str()? {
        "lib" => UNIT_TESTS,
        _ => target["name"].as_str()?,
    };
    Some(Program {
        name: name.to_owned(),
        file: file.into(),
    })
}

/// Returns the shared libraries of a program, and its loader.
pub(crate) fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let text = output(Command::new("ldd").arg(program))?;
    Ok(text.lines().filter_map(library).collect())
}

/// Parses the path in a line of ldd: `name => /path (address)`, or `/path (address)`.
fn library(line: &str) -> Option<PathBuf> {
    let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
    Some(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_output_of_cargo() {
        let check = |message: &str, expected: Option<(&str, &str)>| {
            let found = program(message);
            let found = found.as_ref();
            let found =
                found.map(|program| (program.name.as_str(), program.file.to_str().unwrap()));
            assert_eq!(found, expected);
        };
        check(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"uthread"},"executable":"/a/b"}"#,
            Some(("lib", "/a/b")),
        );
        check(
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"net"},"executable":"/a/c"}"#,
            Some(("net", "/a/c")),
        );
        check(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"libc"},"executable":null}"#,
            None,
        );
        check(r#"{"reason":"build-finished","success":true}"#, None);
        check("not of cargo", None);
    }

    #[test]
    fn libraries_are_found_in_the_output_of_ldd() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(library(line).as_deref(), expected.map(Path::new));
        };
        check("\tlinux-vdso.so.1 (0x00007ffd)", None);
        check(
            "\tlibc.so.6 => /lib/libc.so.6 (0x00007f00)",
            Some("/lib/libc.so.6"),
        );
        check(
            "\t/lib64/ld-linux-x86-64.so.2 (0x00007f00)",
            Some("/lib64/ld-linux-x86-64.so.2"),
        );
        check("\tstatically linked", None);
    }
}

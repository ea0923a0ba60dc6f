//! The test programs of a crate, and their tests.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::cargo::cargo;
use super::plan::{Behind, Crate, JOBS};
use crate::kernels::tools::output;

/// A test program, by the name of its target.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// Folder of its crate, in which it runs.
    pub(super) folder: PathBuf,
}

/// Builds the tests of the crate in `folder`.
pub(super) fn build(of: &Crate, folder: &Path, target: &Path) -> io::Result<Vec<Program>> {
    let mut command = cargo(folder, &["test", "--no-run", "--tests"]);
    command.args(["--message-format=json", "--jobs", JOBS, "--target-dir"]);
    command.arg(target);
    if !of.features.is_empty() {
        command.arg(format!("--features={}", of.features.join(",")));
    }
    // Ignore the crate's own lints.
    command.env("RUSTFLAGS", "--cap-lints=allow");
    let messages = output(&mut command)?;
    let programs = messages.lines().filter_map(|it| program(it, folder));
    // The unit tests of a program do not run it.
    let is_unit = |it: &Program| of.behind.as_ref().is_some_and(|own| own.name == it.name);
    Ok(programs.filter(|it| !is_unit(it)).collect())
}

/// Returns copies of the programs in `folder` that run `uthread` where they would run their own
/// program: the one in the folder above theirs.
pub(super) fn put_behind(
    programs: Vec<Program>,
    behind: &Behind,
    uthread: &Path,
    folder: &Path,
) -> io::Result<Vec<Program>> {
    let own = folder.join("deps");
    fs::create_dir_all(&own)?;
    let script = folder.join(behind.name);
    let (uthread, subcommand) = (uthread.display(), behind.subcommand);
    fs::write(
        &script,
        format!("#!/bin/sh\nexec '{uthread}' {subcommand} \"$@\"\n"),
    )?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    let moved = programs.into_iter().map(|program| {
        let file = own.join(&program.name);
        fs::copy(&program.file, &file)?;
        Ok(Program { file, ..program })
    });
    moved.collect()
}

/// Returns the test program in a message of cargo, if the message contains one.
fn program(message: &str, folder: &Path) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let file = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let target = &message["target"];
    let name = match target["kind"][0].as_str()? {
        "test" | "bin" => target["name"].as_str()?,
        _ => "lib",
    };
    Some(Program {
        name: name.to_owned(),
        file: file.into(),
        folder: folder.to_owned(),
    })
}

impl Program {
    /// Returns its tests, except ignored ones.
    pub(super) fn tests(&self) -> io::Result<Vec<String>> {
        let all = self.list(&[])?;
        let ignored = self.list(&["--ignored"])?;
        let tests = all.into_iter().filter(|test| !ignored.contains(test));
        Ok(tests.collect())
    }

    /// Returns a command that starts the program as cargo does.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    fn list(&self, arguments: &[&str]) -> io::Result<Vec<String>> {
        let mut command = self.command();
        command.args(["--list", "--format=terse"]).args(arguments);
        let text = output(&mut command)?;
        let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(tests.map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_output_of_cargo() {
        let check = |message: &str, expected: Option<&str>| {
            let found = program(message, Path::new("/f"));
            assert_eq!(found.as_ref().map(|it| it.name.as_str()), expected);
        };
        check(
            r#"{"profile":{"test":true},"target":{"kind":["lib"],"name":"a"},"executable":"/a/b"}"#,
            Some("lib"),
        );
        check(
            r#"{"profile":{"test":true},"target":{"kind":["test"],"name":"net"},"executable":"/a/c"}"#,
            Some("net"),
        );
        check(
            r#"{"profile":{"test":false},"target":{"kind":["bin"],"name":"cat"},"executable":"/a/d"}"#,
            None,
        );
        check(r#"{"reason":"build-finished","success":true}"#, None);
    }
}

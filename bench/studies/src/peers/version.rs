//! Which version of a program there is, where that is cheap to find out.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What it prints when it is asked for its version, whatever its exit code is then.
pub(super) fn of_program(program: impl AsRef<OsStr>, argument: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.arg(argument).stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    in_text(&String::from_utf8_lossy(&said))
}

/// Of the package `name`, as a `Cargo.lock` has fixed it.
pub(super) fn in_lock_file(path: &Path, name: &str) -> Option<String> {
    in_lock(&fs::read_to_string(path).ok()?, name)
}

fn in_lock(text: &str, name: &str) -> Option<String> {
    let name = format!("name = \"{name}\"");
    let mut lines = text.lines().skip_while(|line| *line != name);
    let version = lines.nth(1)?.strip_prefix("version = \"")?;
    Some(version.strip_suffix('"')?.to_owned())
}

/// The first number with a point in it, and what belongs to it: `nginx version: nginx/1.22.1`.
fn in_text(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == '/');
    words.find_map(|word| {
        let digit = word.find(|c: char| c.is_ascii_digit())?;
        let version = &word[digit..];
        version.contains('.').then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let check = |text, expected: Option<&str>| {
            assert_eq!(in_text(text).as_deref(), expected, "{text:?}");
        };
        check("nginx version: nginx/1.22.1\n", Some("1.22.1"));
        check(
            "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012",
            Some("4.1.0-3+b2"),
        );
        check("fio-3.33\n", Some("3.33"));
        check("go version go1.26.8 linux/amd64\n", Some("1.26.8"));
        check("static-web-server 2.44.1\n", Some("2.44.1"));
        check("no version, not even of 2012", None);
        check("", None);
    }

    #[test]
    fn versions_are_found_in_lock_files() {
        let lock = "version = 4\n\n[[package]]\nname = \"may_queue\"\nversion = \"0.1.24\"\n\n\
                    [[package]]\nname = \"may\"\nversion = \"0.3.51\"\nsource = \"registry\"\n";
        assert_eq!(in_lock(lock, "may").as_deref(), Some("0.3.51"));
        assert_eq!(in_lock(lock, "go"), None);
        assert_eq!(in_lock("name = \"may\"\n", "may"), None);
    }

    #[test]
    fn who_cannot_be_asked_has_none() {
        assert_eq!(of_program("no-such-program", "--version"), None);
    }
}

//! The system programs that are needed, and how to run them.

use std::env;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs for a guest, with the Debian package of each.
const GUEST: [(&str, &str); 2] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("ldd", "libc-bin"),
];

/// Programs for packages of Debian's archive, with the package of each.
const ARCHIVE: [(&str, &str); 3] = [
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("dpkg-deb", "dpkg"),
];

/// Keys that sign Debian's archive, from the package `debian-archive-keyring`.
pub(super) const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Checks that all tools for testing packages in a guest exist, also those of `more`: programs or
/// files, with the package of each.
///
/// # Errors
///
/// The errors of [`check_archive`].
pub(crate) fn check(more: &[(&str, &'static str)]) -> io::Result<()> {
    check_all(&[&GUEST[..], &ARCHIVE, more].concat())
}

/// Checks that all tools for packages exist.
///
/// # Errors
///
/// `Other` if a tool is missing, with the packages to install, or if the CPU is another one.
pub(crate) fn check_archive() -> io::Result<()> {
    check_all(&ARCHIVE)
}

fn check_all(tools: &[(&str, &'static str)]) -> io::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(io::Error::other(
            "this command needs x86-64: it builds tests here, and runs them with Debian's packages for that kind of machine",
        ));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // Joining an absolute path to a folder results in that path.
    let exists = |tool: &str| env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    let missing = missing(tools, exists, Path::new(KEYS).exists());
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    let text = format!("install the missing packages: apt-get install {packages}");
    Err(io::Error::other(text))
}

/// Returns the packages to install.
fn missing(
    tools: &[(&str, &'static str)],
    exists: impl Fn(&str) -> bool,
    keys: bool,
) -> Vec<&'static str> {
    let tools = tools.iter().filter(|(tool, _)| !exists(tool));
    let mut packages: Vec<_> = tools.map(|(_, package)| *package).collect();
    if !keys {
        packages.push("debian-archive-keyring");
    }
    packages.dedup();
    packages
}

/// Runs a program and returns its output. Its standard error goes to ours.
///
/// # Errors
///
/// Any error of starting the program; `Other` if it fails.
pub(crate) fn output(command: &mut Command) -> io::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let name = command.get_program().display();
    let output =
        output.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    if !output.status.success() {
        let text = format!("{name} failed: {}: {command:?}", output.status);
        return Err(io::Error::other(text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_by_their_package() {
        let tools = [&GUEST[..], &ARCHIVE].concat();
        assert_eq!(missing(&tools, |_| true, true), [""; 0]);
        let packages = missing(&tools, |tool| tool == "ldd", false);
        let expected = ["qemu-system-x86", "apt", "dpkg", "debian-archive-keyring"];
        assert_eq!(packages, expected);
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        assert_eq!(output(Command::new("echo").arg("a")).unwrap(), "a\n");
        let error = output(&mut Command::new("false")).unwrap_err().to_string();
        assert!(error.starts_with("false failed: exit status: 1"), "{error}");
        let error = output(&mut Command::new("no such program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

//! `cargo xtask glibc`: runs the tests of own thread-local storage with the C libraries of newer
//! Debian releases.
//!
//! A fiber's block is made by the C library, whose private formats differ between releases. The
//! library and its loader come from Debian's archive, and nothing is installed: the test programs
//! name a loader and a folder of libraries below cargo's target folder, which is a symbolic link to
//! those of one release after the other. A test that starts its own program again gets the same
//! library; other programs get the system's.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kernels::archive::Archive;
use crate::kernels::programs::{self, target};
use crate::kernels::tools::{self, output};

/// Debian suites, from the oldest. An older library than the one that the tests were linked with
/// may lack symbols.
const SUITES: [&str; 3] = ["trixie", "forky", "sid"];

/// The loader of a program, below the folder of libraries.
const LOADER: &str = "ld-linux-x86-64.so.2";

const PACKAGE: &str = "uthread";
const PACKAGE_FOLDER: &str = "crates/uthread";

/// The test programs: the target in the words of cargo, and the filter for its tests. The second
/// filter is a part of the names of two places.
const RUNS: [(&[&str], &str); 2] = [
    (&["--lib", "--profile", "test"], "tls::"),
    (&["--test", "behaviours"], "2]"),
];

/// Runs the tests with the C libraries of these suites, or of all; returns true if all passed.
pub(crate) fn run(root: &Path, names: &[&str]) -> io::Result<bool> {
    let suites = chosen(names)?;
    tools::check_archive()?;
    let folder = target(root).join("glibc");
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let archive = Archive::of_this_machine(&folder)?;
    let libraries = folder.join("libraries");
    let mut programs = Vec::new();
    for (target, filter) in RUNS {
        programs.push((build(root, target, &libraries)?, filter));
    }
    let (mut tested, mut failed) = (Vec::new(), Vec::new());
    for suite in suites {
        point(&libraries, &archive.suite(suite)?.c_library()?)?;
        let version = version(&libraries)?;
        println!("\n== {suite}: {version} ==");
        if tested.contains(&version) {
            println!("tested above");
            continue;
        }
        for (program, filter) in &programs {
            let mut tests = Command::new(program);
            tests.arg(filter).current_dir(root.join(PACKAGE_FOLDER));
            if !tests.stdin(Stdio::null()).status()?.success() {
                failed.push(format!("{version}: tests {filter}"));
            }
        }
        tested.push(version);
    }
    for text in &failed {
        eprintln!("failed: {text}");
    }
    Ok(failed.is_empty())
}

fn chosen(names: &[&str]) -> io::Result<Vec<&'static str>> {
    if let Some(stranger) = names.iter().find(|name| !SUITES.contains(name)) {
        let text = format!("no suite {stranger}; choose from {}", SUITES.join(", "));
        return Err(io::Error::other(text));
    }
    let is_chosen = |suite: &&str| names.is_empty() || names.contains(suite);
    Ok(SUITES.into_iter().filter(is_chosen).collect())
}

/// Builds a test program that is loaded by the loader in `libraries`, and searches its own
/// libraries there first.
fn build(root: &Path, target: &[&str], libraries: &Path) -> io::Result<PathBuf> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).arg("rustc").args(target);
    command.args(["--package", PACKAGE, "--message-format=json", "--"]);
    let loader = libraries.join(LOADER);
    command.args(link(&format!("--dynamic-linker={}", loader.display())));
    command.args(link(&format!("-rpath={}", libraries.display())));
    let built = programs::built(&mut command)?.pop();
    let built = built.ok_or_else(|| io::Error::other("cargo has built no test program"))?;
    Ok(built.file)
}

/// Returns the arguments with which the compiler passes an argument to the linker.
fn link(argument: &str) -> [String; 2] {
    ["-C".to_owned(), format!("link-arg=-Wl,{argument}")]
}

/// Makes `link` a symbolic link to `folder`.
fn point(link: &Path, folder: &Path) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(folder, link),
    }
}

/// Returns the release in the loader's own words.
fn version(libraries: &Path) -> io::Result<String> {
    let text = output(Command::new(libraries.join(LOADER)).arg("--version"))?;
    Ok(release(&text).to_owned())
}

/// Parses `ld.so (Debian GLIBC 2.41-12) stable release version 2.41.`.
fn release(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let inner = line
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    inner.map_or(line, |(release, _)| release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name() {
        assert_eq!(chosen(&["sid"]).unwrap(), ["sid"]);
        assert_eq!(chosen(&[]).unwrap(), SUITES);
        let error = chosen(&["sid", "potato"]).err().unwrap().to_string();
        assert!(error.starts_with("no suite potato; "), "{error}");
    }

    #[test]
    fn the_release_is_in_the_words_of_the_loader() {
        let text =
            "ld.so (Debian GLIBC 2.41-12) stable release version 2.41.\nCopyright (C) 2025\n";
        assert_eq!(release(text), "Debian GLIBC 2.41-12");
        assert_eq!(release("ld.so 2.41\n"), "ld.so 2.41");
    }
}

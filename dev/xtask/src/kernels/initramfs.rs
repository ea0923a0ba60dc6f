//! The only file system of the guest: busybox, the programs with their libraries, and the script of
//! the first process.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use super::cpio::Cpio;
use super::plan::{DOCTOR, ENVIRONMENT, LEFT_OUT, PACKAGE_FOLDER, RUN_LIMIT, RUNS};
use super::programs::{self, Program};

const INIT: &str = include_str!("init.sh");
const TESTS: &str = include_str!("tests.sh");

/// Folders that the first process needs.
const FOLDERS: [&str; 4] = ["/proc", "/sys", "/dev", "/tmp"];

/// Files that name lookups read.
const FILES: [(&str, &str); 4] = [
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("/etc/nsswitch.conf", "hosts: files\n"),
    (
        "/etc/passwd",
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    ),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
];

/// Packs the archive from which the kernel fills the file system: for tests.
pub(super) fn pack(root: &Path, busybox: &Path, programs: &[Program]) -> io::Result<Vec<u8>> {
    // A test reads it, because every package has it.
    let manifest = fs::read(root.join(PACKAGE_FOLDER).join("Cargo.toml"))?;
    let plan = plan();
    let files = [
        ("/package/Cargo.toml", &*manifest),
        ("/plan", plan.as_bytes()),
    ];
    pack_runs(busybox, programs, TESTS, &environment(), &files)
}

/// Packs such an archive with this script of runs, their environment, and these files.
pub(super) fn pack_runs(
    busybox: &Path,
    programs: &[Program],
    runs: &str,
    environment: &str,
    files: &[(&str, &[u8])],
) -> io::Result<Vec<u8>> {
    let mut cpio = Cpio::default();
    for folder in FOLDERS {
        cpio.folder(folder);
    }
    for (path, text) in FILES {
        cpio.file(path, text.as_bytes());
    }
    for (path, bytes) in files {
        cpio.file(path, bytes);
    }
    cpio.file("/init", INIT.as_bytes());
    cpio.file("/runs", runs.as_bytes());
    cpio.file("/environment", environment.as_bytes());
    cpio.file("/bin/busybox", &fs::read(busybox)?);
    let mut libraries = BTreeSet::new();
    for program in programs {
        cpio.file(&place(&program.name), &fs::read(&program.file)?);
        libraries.extend(programs::libraries(&program.file)?);
    }
    for library in libraries {
        cpio.file(&library.to_string_lossy(), &fs::read(&library)?);
    }
    Ok(cpio.finish())
}

pub(super) fn place(program: &str) -> String {
    format!("/programs/{program}")
}

/// Returns the environment of the first process.
fn environment() -> String {
    let mut text = format!("DOCTOR={}\nLIMIT={}\n", place(DOCTOR), RUN_LIMIT.as_secs());
    for (name, value) in ENVIRONMENT {
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

/// Returns one line per run: its name, and the command.
fn plan() -> String {
    let mut text = String::new();
    for (program, filter) in RUNS {
        let name = format!("{program}/{filter}");
        let name = name.trim_end_matches([':', '/']);
        let _ = write!(text, "{name} {} {filter}", place(program));
        for (test, _) in LEFT_OUT {
            let _ = write!(text, " --skip {test}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_a_line_per_run() {
        let plan = plan();
        assert!(
            plan.starts_with("lib/driver /programs/lib driver:: --skip "),
            "{plan}"
        );
        assert_eq!(plan.lines().count(), RUNS.len());
    }
}

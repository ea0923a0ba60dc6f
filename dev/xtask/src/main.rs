//! `cargo xtask`: repository chores for which cargo has no command.

mod build_cost;
mod ci;
mod cost;
mod foreign;
mod glibc;
mod install;
mod kernel_patch;
mod kernels;
mod tidy;

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Repository chores.

Usage: cargo xtask <command>

Commands:
  ci                 run all checks that must pass before a merge: format, lints, documentation, all tests in full
  cost [--write]     count the instructions of the library's operations, and compare them with dev/bench/cost/counts.tsv,
                     or write them there; needs valgrind
  build-cost         build an echo server on uthread and one on Tokio, and print the time and the size of both
  install [--prefix DIR] [--built DIR]
                     install the program, the libraries for C, their headers and the manual pages in /usr/local or DIR, below
                     the variable DESTDIR: a release build, or what cargo has built, such as in target/release
  tidy               check the rules of CONTRIBUTING.md that no lint covers
  kernels [NAME ..]  run the library's tests in qemu on Debian's kernels, all or the named ones
  kernels echo       measure an echo server on io_uring beside epoll on each of them
  glibc [SUITE ..]   run the tests of own thread-local storage with the C libraries of newer Debian releases, all or
                     the named ones
  kernel-patch       build Debian's kernel without and with the patches of kernel/, and test both in qemu
  foreign [--only CRATE] [--driver DRIVER] [--write]
                     port other crates, run their tests, and compare with docs/results/foreign.tsv, or write it
  foreign --draw     draw docs/results/foreign.md from docs/results/foreign.tsv
  help               print this help

Exit codes: 0 success, 1 findings, differences or failed tests, 2 the command could not run.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if matches!(arguments[..], [] | ["help" | "--help" | "-h"]) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let root = env::current_dir().and_then(|folder| workspace_root(&folder));
    match root.and_then(|root| run(&root, &arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command. Returns `true` if it has found nothing.
fn run(root: &Path, arguments: &[&str]) -> io::Result<bool> {
    match *arguments {
        ["tidy"] => tidy(root),
        ["ci"] => ci::run(root),
        ["cost"] => cost::run(root, false),
        ["cost", "--write"] => cost::run(root, true),
        ["build-cost"] => build_cost::run(root).map(|()| true),
        ["install", ref arguments @ ..] => install::run(root, arguments).map(|()| true),
        ["kernels", ref names @ ..] => kernels::run(root, names),
        ["glibc", ref names @ ..] => glibc::run(root, names),
        ["kernel-patch"] => kernel_patch::run(root),
        ["foreign", ref arguments @ ..] => foreign::run(root, arguments),
        _ => {
            let unknown = arguments.join(" ");
            let what = format!("unknown command: {unknown}\n\n{HELP}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

fn tidy(root: &Path) -> io::Result<bool> {
    let findings = tidy::findings(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        eprintln!("tidy: {} finding(s)", findings.len());
    }
    Ok(findings.is_empty())
}

/// Finds the root of the workspace, the only folder with a lock file.
fn workspace_root(start: &Path) -> io::Result<PathBuf> {
    let root = start
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists());
    root.map(Path::to_path_buf).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no Cargo.lock in this folder or above",
        )
    })
}

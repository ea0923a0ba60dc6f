//! `cargo xtask`: repository chores for which cargo has no command.

mod build_cost;
mod ci;
mod cost;
mod figures;
mod foreign;
mod glibc;
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
  cost [--write]     count the instructions of the library's operations, and compare them with bench/cost/counts.tsv,
                     or write them there; needs valgrind
  build-cost         build an echo server on uthread and one on Tokio, and print the time and the size of both
  tidy               check the rules of CONTRIBUTING.md that no lint covers
  figures [--write]  check that README.md has the figures of docs/results/report.json, or write them there
  kernels [NAME ..]  run the library's tests in qemu on Debian's kernels, all or the named ones
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
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        ["tidy"] => tidy().unwrap_or_else(|error| {
            eprintln!("xtask: cannot read the repository: {error}");
            ExitCode::from(2)
        }),
        ["ci"] => ci().unwrap_or_else(|error| {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }),
        ["cost"] => cost(false),
        ["cost", "--write"] => cost(true),
        ["build-cost"] => build_cost(),
        ["figures"] => figures(figures::check),
        ["figures", "--write"] => figures(figures::write),
        ["kernels", ref names @ ..] => kernels(names).unwrap_or_else(|error| {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }),
        ["glibc", ref names @ ..] => glibc(names).unwrap_or_else(|error| {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }),
        ["kernel-patch"] => kernel_patch().unwrap_or_else(|error| {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }),
        ["foreign", ref arguments @ ..] => foreign(arguments).unwrap_or_else(|error| {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }),
        _ => {
            eprintln!("xtask: unknown command: {}\n\n{HELP}", arguments.join(" "));
            ExitCode::from(2)
        }
    }
}

fn tidy() -> io::Result<ExitCode> {
    let findings = tidy::findings(&workspace_root(&env::current_dir()?)?)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} finding(s)", findings.len());
    Ok(ExitCode::FAILURE)
}

fn ci() -> io::Result<ExitCode> {
    let passed = ci::run(&workspace_root(&env::current_dir()?)?)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn cost(writes: bool) -> ExitCode {
    let root = env::current_dir().and_then(|folder| workspace_root(&folder));
    match root.and_then(|root| cost::run(&root, writes)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn build_cost() -> ExitCode {
    let root = env::current_dir().and_then(|folder| workspace_root(&folder));
    match root.and_then(|root| build_cost::run(&root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn figures(run: fn(&Path) -> io::Result<Result<String, tidy::Finding>>) -> ExitCode {
    let root = env::current_dir().and_then(|folder| workspace_root(&folder));
    match root.and_then(|root| run(&root)) {
        Ok(Ok(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Err(finding)) => {
            println!("{finding}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn kernels(names: &[&str]) -> io::Result<ExitCode> {
    let passed = kernels::run(&workspace_root(&env::current_dir()?)?, names)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn glibc(names: &[&str]) -> io::Result<ExitCode> {
    let passed = glibc::run(&workspace_root(&env::current_dir()?)?, names)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn kernel_patch() -> io::Result<ExitCode> {
    let passed = kernel_patch::run(&workspace_root(&env::current_dir()?)?)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn foreign(arguments: &[&str]) -> io::Result<ExitCode> {
    let same = foreign::run(&workspace_root(&env::current_dir()?)?, arguments)?;
    Ok(if same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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

//! The programs of `peers/`, the same small ones on other runtimes, built where their tools are installed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The repository this program was built from.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A program that has the commands of `peers/README.md`.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// What goes before a command.
    pub(crate) prefix: &'static [&'static str],
}

/// The programs that have an echo server, ours first.
pub(crate) fn echo_servers() -> Result<Vec<Program>> {
    let mut servers = vec![
        own("uthread", &["own"])?,
        own("uthread, migrating", &["own", "--migrating"])?,
    ];
    servers.extend(["tokio", "go", "monoio"].into_iter().filter_map(build));
    Ok(servers)
}

/// This program itself: `prefix` leads to our side.
pub(crate) fn own(name: &'static str, prefix: &'static [&'static str]) -> Result<Program> {
    let path = env::current_exe().context("find this program's own path")?;
    Ok(Program { name, path, prefix })
}

/// Builds the peer `name`. One that cannot be built here is named with the remedy, and is `None`.
pub(crate) fn build(name: &'static str) -> Option<Program> {
    let source = Path::new(REPOSITORY).join("peers").join(name);
    let target = Path::new(REPOSITORY).join("target/peers");
    let ((mut command, path), remedy) = match name {
        "go" => (go(&source, &target), "apt-get install golang"),
        _ => (cargo(name, &source, &target), "rustup"),
    };
    eprintln!("building the peer {name}");
    match command.status() {
        Ok(status) if status.success() => Some(Program {
            name,
            path,
            prefix: &[],
        }),
        Ok(status) => {
            eprintln!("{name} is missing: its build ended with {status}");
            None
        }
        Err(error) => {
            eprintln!("{name} is missing: {error}; to have it: {remedy}");
            None
        }
    }
}

fn cargo(name: &str, source: &Path, target: &Path) -> (Command, PathBuf) {
    let mut command = Command::new("cargo");
    command
        .args(["build", "--quiet", "--release", "--manifest-path"])
        .arg(source.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    (command, target.join(format!("release/peer-{name}")))
}

fn go(source: &Path, target: &Path) -> (Command, PathBuf) {
    let program = target.join("peer-go");
    let mut command = Command::new("go");
    command
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source);
    (command, program)
}

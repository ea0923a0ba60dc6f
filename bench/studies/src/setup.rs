//! Preconditions of a study: programs that are installed, and enough open files.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs besides its connections: listeners, rings, pipes, files in `/proc`.
pub(crate) const OPEN_FILES_SPARE: u64 = 128;

/// The study cannot start here: exit code 2. The message has the remedy.
#[derive(Debug)]
pub(crate) struct Unavailable(pub(crate) String);

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Finds the program `uthread`: at `given`, or beside this program.
pub(crate) fn find_uthread(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => own_path()?.with_file_name("uthread"),
    };
    if path.is_file() {
        return Ok(path);
    }
    let path = path.display();
    let remedy = format!("{path} is missing: cargo build --release, or pass --server PATH");
    Err(Unavailable(remedy).into())
}

pub(crate) fn own_path() -> Result<PathBuf> {
    env::current_exe().context("find this program's own path")
}

/// Raises the soft limit of open files to `needed`.
///
/// # Errors
///
/// `Unavailable` if the hard limit is lower.
pub(crate) fn raise_open_files(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < needed) {
        let remedy = "lower the number of connections, or raise the hard limit (ulimit -Hn)";
        return Err(Unavailable(format!(
            "this needs {needed} open files, the limit is {maximum}: {remedy}"
        ))
        .into());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("raise the limit of open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_open_files_than_the_hard_limit_is_unavailable() {
        raise_open_files(1).unwrap();
        if let Some(maximum) = getrlimit(Resource::Nofile).maximum {
            let error = raise_open_files(maximum.saturating_add(1)).unwrap_err();
            assert!(error.is::<Unavailable>());
        }
    }
}

//! Preconditions of a study: programs that are installed.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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

/// Returns the path of our peer, beside this program.
pub(crate) fn peer_path() -> Result<PathBuf> {
    Ok(own_path()?.with_file_name("uthread-peer"))
}

pub(crate) fn own_path() -> Result<PathBuf> {
    env::current_exe().context("find this program's own path")
}

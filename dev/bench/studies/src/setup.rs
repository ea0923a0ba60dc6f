//! Preconditions of a study: programs that are installed, and ours in their present state.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use uthread_report::Unavailable;

/// Descriptors that a process needs besides its connections: listeners, rings, pipes, files in
/// `/proc`.
pub(crate) const OPEN_FILES_SPARE: u64 = 128;

/// Finds the program `uthread`: at `given`, or beside this program.
pub(crate) fn find_uthread(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => built("uthread")?,
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
    built("uthread-peer")
}

/// Returns the path of one of our programs, beside this one, whether it is there or not.
///
/// # Errors
///
/// A source of it, or of this program, has changed since: its figures would be taken for those of
/// this build. Debug builds measure nothing and are not compared.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    let own = own_path()?;
    let path = own.with_file_name(name);
    if !cfg!(debug_assertions) {
        check_sources(&own)?;
        check_sources(&path)?;
    }
    Ok(path)
}

/// Compares a program with its sources, by the list that cargo has written beside it. A program
/// without a list is taken as it is.
fn check_sources(program: &Path) -> Result<()> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let list = fs::read_to_string(program.with_extension("d"));
    let (Ok(list), Ok(built)) = (list, modified(program)) else {
        return Ok(());
    };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    // Spaces within paths are escaped.
    let sources = sources.trim_end().replace("\\ ", "\0");
    for source in sources.split(' ') {
        let source = source.replace('\0', " ");
        let is_unchanged = modified(Path::new(&source)).is_ok_and(|changed| changed <= built);
        ensure!(
            is_unchanged,
            "{source} has changed since {} was built: cargo build --release",
            program.display()
        );
    }
    Ok(())
}

pub(crate) fn own_path() -> Result<PathBuf> {
    env::current_exe().context("find this program's own path")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_program_is_as_new_as_its_sources() {
        let folder = tempfile::tempdir().unwrap();
        let (program, source) = (folder.path().join("program"), folder.path().join("a b.rs"));
        let built = SystemTime::now() - Duration::from_secs(60);
        for path in [&program, &source] {
            File::create(path).unwrap().set_modified(built).unwrap();
        }
        let check = || check_sources(&program).map_err(|error| error.to_string());
        assert_eq!(check(), Ok(()), "without a list");
        let escaped = source.display().to_string().replace(' ', "\\ ");
        let list = format!("{}: {escaped} {escaped}\n", program.display());
        fs::write(program.with_extension("d"), list).unwrap();
        assert_eq!(check(), Ok(()));
        let changed = File::options().write(true).open(&source).unwrap();
        changed
            .set_modified(built + Duration::from_secs(1))
            .unwrap();
        assert!(check().unwrap_err().contains("a b.rs has changed"));
        fs::remove_file(&source).unwrap();
        assert!(check().unwrap_err().contains("a b.rs has changed"));
    }
}

//! Queries about paths.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::options;
use crate::sched::caller;
use crate::sched::features::offload;

/// Queries metadata about the file at `path`, following symbolic links.
///
/// # Errors
///
/// `NotFound` if the path does not exist; `PermissionDenied` if a directory on the way may not be
/// searched; any other error that `statx(2)` reports.
///
/// ```
/// let bytes = uthread::spawn(|| uthread::fs::metadata("Cargo.toml").map(|file| file.len()));
/// assert!(bytes.join().unwrap()? > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    ask(path.as_ref(), true)
}

/// Queries metadata about the file at `path`, or about the link itself if it is a symbolic link.
///
/// # Errors
///
/// The errors of [`metadata`].
///
/// ```
/// use uthread::{fs, os::unix::fs::symlink};
///
/// let directory = tempfile::tempdir()?;
/// let link = directory.path().join("link");
/// symlink("nothing", &link)?;
/// assert!(fs::symlink_metadata(&link)?.is_symlink());
/// assert!(fs::metadata(&link).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    ask(path.as_ref(), false)
}

/// Returns `true` if `path` exists. Symbolic links are followed; a broken link does not exist.
///
/// # Errors
///
/// `PermissionDenied` if a directory on the way may not be searched; any error of [`metadata`]
/// other than `NotFound`.
///
/// ```
/// use uthread::fs;
///
/// assert!(!fs::exists("does_not_exist.txt")?);
/// assert!(fs::exists("Cargo.toml/name").is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the absolute form of `path`, with `.`, `..` and symbolic links resolved.
///
/// # Errors
///
/// `NotFound` if the path does not exist; `NotADirectory` if a component other than the last one is
/// not a directory; any other error that `realpath(3)` reports.
///
/// ```
/// let path = uthread::fs::canonicalize("./src/../Cargo.toml")?;
/// assert!(path.is_absolute() && path.ends_with("uthread/Cargo.toml"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn canonicalize<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    let path = path.as_ref();
    offload::perform(|| std::fs::canonicalize(path))
}

/// Returns the target of a symbolic link, unresolved.
///
/// # Errors
///
/// `InvalidInput` (`EINVAL`) if the file is not a symbolic link; `NotFound` if the path does not
/// exist; any other error that `readlink(2)` reports.
///
/// ```
/// use std::path::Path;
/// use uthread::{fs, os::unix::fs::symlink};
///
/// let directory = tempfile::tempdir()?;
/// let link = directory.path().join("a.txt");
/// symlink("b.txt", &link)?;
/// assert_eq!(fs::read_link(link)?, Path::new("b.txt"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_link<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    let path = path.as_ref();
    offload::perform(|| std::fs::read_link(path))
}

/// Queries metadata. On a worker it opens the path with `O_PATH`: if the metadata is in memory,
/// this takes a fifth of the time of a pool thread or of an io_uring `statx`, which the kernel
/// always runs on a thread.
fn ask(path: &Path, follow: bool) -> io::Result<Metadata> {
    if caller::is_on_worker() {
        match options::open_for_metadata(path, follow) {
            // No descriptor is free; the call below needs none.
            Err(error) if is_shortage(&error) => {}
            result => return result?.metadata(),
        }
    }
    offload::perform(|| {
        if follow {
            std::fs::metadata(path)
        } else {
            std::fs::symlink_metadata(path)
        }
    })
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

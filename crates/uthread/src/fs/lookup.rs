//! What there is at a path.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::options;
use crate::sched::{offload, wait};

/// What is known of the file at `path`; symbolic links are followed.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `EACCES` and so on.
///
/// ```
/// let bytes = uthread::spawn(|| uthread::fs::metadata("Cargo.toml").map(|file| file.len()));
/// assert!(bytes.join().unwrap()? > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    ask(path.as_ref(), true)
}

/// What is known of the file at `path`, or of the link itself where it is a symbolic one.
///
/// # Errors
///
/// As [`metadata`].
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

/// Whether there is something at `path`; symbolic links are followed, and a broken one leads to nothing.
///
/// # Errors
///
/// The kernel's, where it cannot tell: `EACCES` of a directory on the way.
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

/// The absolute path of what is at `path`, without `.`, `..` and symbolic links.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `ELOOP`, `ENOTDIR`.
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

/// Where a symbolic link points, as it was written.
///
/// # Errors
///
/// The kernel's: `EINVAL` where it is no symbolic link.
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

/// On a worker through an open handle: of what is in memory that takes a fifth of the time that a thread or the ring's own
/// request takes, which the kernel always gives to a thread of its own.
fn ask(path: &Path, follow: bool) -> io::Result<Metadata> {
    if wait::is_on_worker() {
        match options::open_for_metadata(path, follow) {
            // There is no descriptor left, and no need of one.
            Err(error) if is_shortage(&error) => {}
            result => return result?.metadata(),
        }
    }
    offload::perform(|| match follow {
        true => std::fs::metadata(path),
        false => std::fs::symlink_metadata(path),
    })
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

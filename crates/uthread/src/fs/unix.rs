//! The functions of `std::os::unix::fs`.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::sched::features::offload;

/// Creates a symbolic link `link` to `original`, which need not exist.
///
/// # Errors
///
/// `AlreadyExists` if `link` exists; `ENAMETOOLONG` if a path is too long; any other error that
/// `symlink(2)` reports.
///
/// ```
/// use uthread::os::unix::fs;
///
/// let directory = tempfile::tempdir()?;
/// fs::symlink("a.txt", directory.path().join("b.txt"))?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn symlink<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    offload::perform(|| std::os::unix::fs::symlink(original, link))
}

/// Changes the owner and group of a file, following symbolic links. `None` leaves the owner or the
/// group unchanged.
///
/// # Errors
///
/// `NotFound` if the path does not exist; `PermissionDenied` (`EPERM`) if the process may not
/// change the owner; any other error that `chown(2)` reports.
///
/// ```
/// use uthread::os::unix::fs;
///
/// let directory = tempfile::tempdir()?;
/// fs::chown(directory.path(), None, None)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn chown<P: AsRef<Path>>(dir: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let path = dir.as_ref();
    offload::perform(|| std::os::unix::fs::chown(path, uid, gid))
}

/// Changes the owner and group of an open file. `None` leaves the owner or the group unchanged.
///
/// # Errors
///
/// `PermissionDenied` (`EPERM`) if the process may not change the owner; any other error that
/// `fchown(2)` reports.
///
/// ```
/// use uthread::{fs::File, os::unix::fs};
///
/// let directory = tempfile::tempdir()?;
/// let f = File::open(directory.path())?;
/// fs::fchown(&f, None, None)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn fchown<F: AsFd>(fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let fd = fd.as_fd();
    offload::perform(|| std::os::unix::fs::fchown(fd, uid, gid))
}

/// Changes the owner and group of a file, or of the link itself if it is a symbolic link.
///
/// # Errors
///
/// The errors of [`chown`].
///
/// ```
/// use uthread::os::unix::fs;
///
/// let directory = tempfile::tempdir()?;
/// let link = directory.path().join("link");
/// fs::symlink("nothing", &link)?;
/// fs::lchown(&link, None, None)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn lchown<P: AsRef<Path>>(dir: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let path = dir.as_ref();
    offload::perform(|| std::os::unix::fs::lchown(path, uid, gid))
}

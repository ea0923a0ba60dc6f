//! What `std` has in `std::os::unix::fs`.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::sched::offload;

/// Makes a symbolic link at `link` to `original`, which need not be there.
///
/// # Errors
///
/// The kernel's: `EEXIST`, `ENAMETOOLONG`.
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

/// Changes who owns a file; `None` leaves that as it is. Symbolic links are followed.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `EPERM`.
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

/// The same for an open file.
///
/// # Errors
///
/// The kernel's: `EPERM`.
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

/// As [`chown`], of the link itself where it is a symbolic one.
///
/// # Errors
///
/// As [`chown`].
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

//! Changes of directory entries and permissions, each one call on a pool thread.
//!
//! io_uring supports some of these operations, but the kernel passes each of them to a kernel
//! thread, which takes as long.

use std::fs::Permissions;
use std::io;
use std::path::Path;

use crate::sched::features::offload;

/// Renames a file or directory, replacing the destination if it exists. Both paths must be on the
/// same file system.
///
/// # Errors
///
/// `NotFound` if `from` does not exist; `CrossesDevices` if the paths are on different file
/// systems; `DirectoryNotEmpty` if the destination is a directory with entries; any other error
/// that `rename(2)` reports.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let at = |name| directory.path().join(name);
/// fs::write(at("a.txt"), "text")?;
/// fs::rename(at("a.txt"), at("b.txt"))?; // Rename a.txt to b.txt
/// assert_eq!(fs::read(at("b.txt"))?, b"text");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    offload::perform(|| std::fs::rename(from, to))
}

/// Creates a hard link `link` to the file `original`. If `original` is a symbolic link, it is not
/// followed.
///
/// # Errors
///
/// `AlreadyExists` if `link` exists; `CrossesDevices` if the paths are on different file systems;
/// `TooManyLinks` if the file has the maximum number of links; any other error that `link(2)`
/// reports.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let at = |name| directory.path().join(name);
/// fs::write(at("a.txt"), "text")?;
/// fs::hard_link(at("a.txt"), at("b.txt"))?; // Hard link a.txt to b.txt
/// assert_eq!(fs::read(at("b.txt"))?, b"text");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn hard_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    offload::perform(|| std::fs::hard_link(original, link))
}

/// Creates a symbolic link; the deprecated name of
/// [`os::unix::fs::symlink`](crate::os::unix::fs::symlink).
///
/// # Errors
///
/// The errors of [`os::unix::fs::symlink`](crate::os::unix::fs::symlink).
///
/// ```
/// # #![allow(deprecated)]
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// fs::soft_link("a.txt", directory.path().join("b.txt"))?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[deprecated = "as in std: use uthread::os::unix::fs::symlink instead"]
pub fn soft_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    super::unix::symlink(original, link)
}

/// Removes a directory entry of a file. The file itself is deleted with its last entry and its last
/// open handle.
///
/// # Errors
///
/// `NotFound` if the path does not exist; `IsADirectory` if it is a directory; `PermissionDenied`
/// if its directory may not be changed; any other error that `unlink(2)` reports.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("a.txt");
/// fs::write(&path, "text")?;
/// fs::remove_file(&path)?;
/// assert!(!fs::exists(&path)?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    offload::perform(|| std::fs::remove_file(path))
}

/// Removes an empty directory.
///
/// # Errors
///
/// `NotFound` if the path does not exist; `NotADirectory` if it is not a directory;
/// `DirectoryNotEmpty` if it has entries; any other error that `rmdir(2)` reports.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("dir");
/// fs::create_dir(&path)?;
/// fs::remove_dir(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    offload::perform(|| std::fs::remove_dir(path))
}

/// Removes a directory and all its contents. A cancelled fiber waits until everything is removed.
///
/// Symbolic links are removed, not followed, even if a directory is replaced by a link at the same
/// time: this is `std`'s implementation.
///
/// # Errors
///
/// The first error that occurs, such as `NotFound` or `PermissionDenied`. Entries removed before
/// stay removed.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("some");
/// fs::create_dir_all(path.join("deep/directory"))?;
/// fs::remove_dir_all(&path)?;
/// assert!(!fs::exists(&path)?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    offload::perform(|| std::fs::remove_dir_all(path))
}

/// Changes the permissions of the file at `path`, following symbolic links.
///
/// # Errors
///
/// `NotFound` if the path does not exist; `PermissionDenied` (`EPERM`) if the process does not own
/// the file; any other error that `chmod(2)` reports.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("foo.txt");
/// fs::write(&path, "text")?;
/// let mut perms = fs::metadata(&path)?.permissions();
/// perms.set_readonly(true);
/// fs::set_permissions(&path, perms)?;
/// assert!(fs::metadata(&path)?.permissions().readonly());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_permissions<P: AsRef<Path>>(path: P, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    offload::perform(|| std::fs::set_permissions(path, permissions))
}

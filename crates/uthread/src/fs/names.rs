//! Changes of names and of what stands by them: each one call on a thread of the pool.
//!
//! The ring has some of these requests, and the kernel gives each to a thread of its own, which takes as long.

use std::fs::Permissions;
use std::io;
use std::path::Path;

use crate::sched::offload;

/// Gives a file another name, in place of what has it so far. Both names are on one file system.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `EXDEV`, `ENOTEMPTY`.
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

/// Gives a file a further name. A symbolic link is not followed.
///
/// # Errors
///
/// The kernel's: `EEXIST`, `EXDEV`, `EMLINK`.
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

/// The older name of [`os::unix::fs::symlink`](crate::os::unix::fs::symlink).
///
/// # Errors
///
/// As that.
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

/// Removes the name of a file, and the file with its last name and handle.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `EISDIR`, `EACCES` of its directory.
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
/// The kernel's: `ENOENT`, `ENOTDIR`, `ENOTEMPTY`.
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

/// Removes a directory with all that is in it. Symbolic links are removed and not followed, also where somebody puts
/// one in the place of a directory meanwhile: it is `std`'s code. A cancelled fiber waits until all is removed.
///
/// # Errors
///
/// The kernel's, of the first that cannot be removed: what came before it is gone.
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

/// Changes the permissions of a file; symbolic links are followed.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `EPERM`.
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

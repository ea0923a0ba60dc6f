//! New directories.

use std::fmt;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::sched::offload;

/// Makes a directory.
///
/// # Errors
///
/// The kernel's: `EEXIST`, `ENOENT` where its parent is missing.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// fs::create_dir(directory.path().join("dir"))?;
/// assert!(fs::create_dir(directory.path().join("dir")).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Makes a directory and those above it that are missing. It may be there before.
///
/// # Errors
///
/// The kernel's: `EEXIST` where a part of the path is no directory.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// fs::create_dir_all(directory.path().join("some/dir"))?;
/// fs::create_dir_all(directory.path().join("some/dir"))?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// How a directory is made, as [`std::fs::DirBuilder`]; `DirBuilderExt` of `std::os::unix` works with it too.
///
/// ```
/// use std::os::unix::fs::DirBuilderExt;
/// use uthread::fs::{self, DirBuilder};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("foo/bar/baz");
/// DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
/// assert!(fs::metadata(path)?.is_dir());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct DirBuilder {
    inner: std::fs::DirBuilder,
}

impl fmt::Debug for DirBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl DirBuilder {
    /// With the mode that the process's umask leaves of 0o777, for one directory at a time.
    /// See the example of [`DirBuilder`].
    #[must_use]
    #[expect(clippy::new_without_default, reason = "as in std")]
    pub fn new() -> DirBuilder {
        DirBuilder {
            inner: std::fs::DirBuilder::new(),
        }
    }

    /// Whether missing parents are made too, and what is there already is no error.
    /// See the example of [`DirBuilder`].
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.inner.recursive(recursive);
        self
    }

    /// Makes the directory, as in the example of [`DirBuilder`].
    ///
    /// # Errors
    ///
    /// As [`create_dir`] and [`create_dir_all`].
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        offload::perform(|| self.inner.create(path))
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.inner.mode(mode);
        self
    }
}

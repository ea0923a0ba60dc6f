//! Creating directories.

use std::fmt;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::sched::features::offload;

/// Creates a directory.
///
/// # Errors
///
/// `AlreadyExists` if `path` exists; `NotFound` if its parent directory does not; any other error
/// that `mkdir(2)` reports.
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

/// Creates a directory and all missing parent directories. Succeeds if the directory exists.
///
/// # Errors
///
/// `AlreadyExists` or `NotADirectory` if a component of the path exists and is not a directory; any
/// other error that `mkdir(2)` reports.
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

/// A builder for directories; the counterpart of [`std::fs::DirBuilder`]. It implements
/// `DirBuilderExt` of `std::os::unix`.
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
    /// Creates a builder for a single directory with mode `0o777`, less the umask of the process.
    /// See the example of [`DirBuilder`].
    #[must_use]
    #[expect(clippy::new_without_default, reason = "as in std")]
    pub fn new() -> DirBuilder {
        DirBuilder {
            inner: std::fs::DirBuilder::new(),
        }
    }

    /// Sets whether [`create`](DirBuilder::create) also creates missing parent directories and
    /// accepts an existing directory. See the example of [`DirBuilder`].
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.inner.recursive(recursive);
        self
    }

    /// Creates the directory. See the example of [`DirBuilder`].
    ///
    /// # Errors
    ///
    /// The errors of [`create_dir`], or of [`create_dir_all`] if the builder is recursive.
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

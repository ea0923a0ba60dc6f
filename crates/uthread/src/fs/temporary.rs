//! Files that are gone when nobody needs them. Names are the business of the crate `tempfile`, on threads of the pool.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::{env, fmt};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::TempPath;

use super::{File, OpenOptions};
use crate::sched::offload;

/// Permissions: nobody but the owner has to do with it.
const PRIVATE: u32 = 0o600;

/// A file without a name in the system's directory for temporary files, to write and read: it is gone with its last handle,
/// also when the process is killed. Only its owner may read it.
///
/// # Errors
///
/// The kernel's: `ENOSPC`, `EACCES`.
///
/// ```
/// use std::io::{Read, Seek, Write};
///
/// let mut file = uthread::fs::tempfile()?;
/// file.write_all(b"for a while")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "for a while");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn tempfile() -> io::Result<File> {
    tempfile_in(env::temp_dir())
}

/// The same on the file system of a directory. Where that has no files without a name, the file has one for a moment.
///
/// # Errors
///
/// As [`tempfile()`].
///
/// ```
/// uthread::fs::tempfile_in(std::env::temp_dir())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn tempfile_in<P: AsRef<Path>>(directory: P) -> io::Result<File> {
    let mut nameless = OpenOptions::new();
    nameless.read(true).write(true).mode(PRIVATE);
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let opened = nameless.custom_flags(flags).open(directory.as_ref());
    match opened.as_ref().err().and_then(Errno::from_io_error) {
        // The two ways to say that the file system has no such thing. The name is removed at once.
        Some(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(TempFile::new_in(directory)?.file),
        _ => opened,
    }
}

/// A file with a name that nobody can guess, and that is removed when this is dropped: to be opened by others, or to take
/// the place of another file once it is complete. Only its owner may read it.
///
/// ```
/// use std::io::Write;
/// use uthread::fs::{self, TempFile};
///
/// let directory = tempfile::tempdir()?;
/// let settings = directory.path().join("settings");
/// let mut file = TempFile::new_in(directory.path())?;
/// file.write_all(b"complete, or not at all")?;
/// file.persist(&settings)?;
/// assert_eq!(fs::read(&settings)?, b"complete, or not at all");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TempFile {
    file: File,
    name: Name,
}

/// Removes the name when it is dropped; `None` once that is done, or the file persists.
struct Name(Option<TempPath>);

impl TempFile {
    /// In the system's directory for temporary files.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOSPC`, `EACCES`.
    ///
    /// ```
    /// let file = uthread::fs::TempFile::new()?;
    /// assert!(uthread::fs::exists(file.path())?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<TempFile> {
        TempFile::new_in(env::temp_dir())
    }

    /// In this directory; see the example of [`TempFile`].
    ///
    /// # Errors
    ///
    /// As [`new`](TempFile::new).
    pub fn new_in<P: AsRef<Path>>(directory: P) -> io::Result<TempFile> {
        let directory = directory.as_ref();
        let (file, path) = offload::perform(|| create(directory))?;
        Ok(TempFile {
            file: file.into(),
            name: Name(Some(path)),
        })
    }

    /// Where the file is; see the example of [`new`](TempFile::new).
    #[must_use]
    pub fn path(&self) -> &Path {
        self.name.0.as_ref().expect("taken only with all")
    }

    /// Gives the file a lasting name on the same file system, in place of what has that name, in one step.
    ///
    /// # Errors
    ///
    /// The kernel's: `EXDEV`, `EISDIR`. The file is removed then.
    ///
    /// ```
    /// let directory = tempfile::tempdir()?;
    /// let file = uthread::fs::TempFile::new_in(directory.path())?;
    /// let file = file.persist(directory.path().join("kept"))?;
    /// file.sync_all()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn persist<P: AsRef<Path>>(self, path: P) -> io::Result<File> {
        let path = path.as_ref();
        let TempFile { file, mut name } = self;
        offload::perform(|| match name.0.take() {
            Some(name) => name.persist(path).map_err(|refused| refused.error),
            None => Ok(()),
        })?;
        Ok(file)
    }
}

fn create(directory: &Path) -> io::Result<(std::fs::File, TempPath)> {
    let mut options = std::fs::OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(PRIVATE);
    let mut number = None;
    let made = tempfile::Builder::new().make_in(directory, |path| {
        let opened = options.open(path);
        number = opened.as_ref().err().and_then(io::Error::raw_os_error);
        opened
    });
    match made {
        Ok(named) => Ok(named.into_parts()),
        // The crate's own errors have a path, and no number.
        Err(error) => Err(number.map_or(error, io::Error::from_raw_os_error)),
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // Also for a cancelled fiber.
        if let Some(path) = self.0.take() {
            offload::run(|| drop(path));
        }
    }
}

impl Deref for TempFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for TempFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl AsRef<Path> for TempFile {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl fmt::Debug for TempFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TempFile")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

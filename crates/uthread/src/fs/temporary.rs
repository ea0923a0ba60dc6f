//! Temporary files. Those with a name are created on pool threads.

use std::hash::{BuildHasher, RandomState};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fmt, io, process};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{File, OpenOptions};
use crate::sched::features::offload;

/// Permissions: only the owner may access the file.
const PRIVATE: u32 = 0o600;

/// How many names are tried. Each has 64 random bits, so already a second one is hardly ever
/// needed.
const ATTEMPTS_MAX: usize = 16;

/// Creates an unnamed temporary file, open for reading and writing, in the system's directory for
/// temporary files.
///
/// The file is deleted with its last handle, also if the process is killed. Only its owner may
/// access it.
///
/// # Errors
///
/// `StorageFull` if the disk is full; `PermissionDenied` if the directory may not be written; any
/// other error that `open(2)` reports.
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

/// Creates an unnamed temporary file on the file system of `directory`. If that does not support
/// unnamed files, the file has a name for a moment.
///
/// # Errors
///
/// The errors of [`tempfile()`].
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
        // The two errors by which a file system reports that it has no unnamed files. The name is
        // removed at once.
        Some(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(TempFile::new_in(directory)?.file),
        _ => opened,
    }
}

/// A temporary file with an unpredictable name, removed on drop. Only its owner may access it.
///
/// Use it for a file that other processes open, or that replaces another file once it is complete.
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

/// Removes the file on drop; `None` once it is removed or persisted.
struct Name(Option<PathBuf>);

impl TempFile {
    /// Creates a temporary file in the system's directory for temporary files.
    ///
    /// # Errors
    ///
    /// `StorageFull` if the disk is full; `PermissionDenied` if the directory may not be written;
    /// any other error that `open(2)` reports.
    ///
    /// ```
    /// let file = uthread::fs::TempFile::new()?;
    /// assert!(uthread::fs::exists(file.path())?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<TempFile> {
        TempFile::new_in(env::temp_dir())
    }

    /// Creates a temporary file in `directory`. See the example of [`TempFile`].
    ///
    /// # Errors
    ///
    /// The errors of [`new`](TempFile::new).
    pub fn new_in<P: AsRef<Path>>(directory: P) -> io::Result<TempFile> {
        let directory = directory.as_ref();
        let (file, path) = offload::perform(|| create(directory))?;
        Ok(TempFile {
            file: file.into(),
            name: Name(Some(path)),
        })
    }

    /// Returns the path of the file. See the example of [`new`](TempFile::new).
    #[must_use]
    pub fn path(&self) -> &Path {
        self.name
            .0
            .as_ref()
            .expect("set until the file is persisted or dropped")
    }

    /// Renames the file to `path` on the same file system, atomically replacing an existing file,
    /// and returns it. The file is not removed on drop any more.
    ///
    /// # Errors
    ///
    /// `CrossesDevices` if `path` is on another file system; `IsADirectory` if it is a directory;
    /// any other error that `rename(2)` reports. The temporary file is removed then.
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
        if let Some(name) = &name.0 {
            offload::perform(|| std::fs::rename(name, path))?;
        }
        name.0 = None;
        Ok(file)
    }
}

/// Creates a file with a new name in `directory`. Returns it with its absolute path, so that it can
/// be removed after a change of the current directory.
fn create(directory: &Path) -> io::Result<(std::fs::File, PathBuf)> {
    let mut options = std::fs::OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(PRIVATE);
    let directory = if directory.is_absolute() {
        directory.to_owned()
    } else {
        env::current_dir()?.join(directory)
    };
    let mut attempts = 0;
    loop {
        let path = directory.join(format!(".tmp{:016x}", unpredictable()));
        attempts += 1;
        match options.open(&path) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS_MAX => {}
            opened => return Ok((opened?, path)),
        }
    }
}

/// Returns a number that other processes cannot predict: a hash under a key from the system's
/// random numbers. A child made by `fork` has the same key, so the hash is one of the process and
/// the time.
fn unpredictable() -> u64 {
    RandomState::new().hash_one((process::id(), Instant::now()))
}

impl Drop for Name {
    fn drop(&mut self) {
        // Runs in a cancelled fiber too.
        if let Some(path) = self.0.take() {
            let _ = offload::run(|| std::fs::remove_file(path));
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

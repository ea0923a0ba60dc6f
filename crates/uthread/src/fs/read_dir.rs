//! Reading a directory. No driver supports this, so a pool thread fetches the entries in batches.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};

use crate::sched::features::offload;

/// Number of entries per batch: about as many as one `getdents64` call returns into the 32 KiB
/// buffer of `std`.
const BATCH_ENTRIES: usize = 512;

/// Returns an iterator over the entries of a directory, without `.` and `..`, in the order of the
/// file system.
///
/// # Errors
///
/// `NotFound` if `path` does not exist; `NotADirectory` if it is not a directory;
/// `PermissionDenied` if it may not be read; any other error that `open(2)` reports. The items of
/// the iterator report the errors of `getdents64(2)`.
///
/// ```
/// let names: Vec<_> = uthread::fs::read_dir("src")?
///     .map(|entry| Ok(entry?.file_name()))
///     .collect::<std::io::Result<_>>()?;
/// assert!(names.contains(&"lib.rs".into()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let source = offload::perform(|| std::fs::read_dir(path))?;
    Ok(ReadDir {
        source: Some(source),
        fetched: VecDeque::new(),
    })
}

/// An iterator over the entries of a directory. See the example of [`read_dir`].
pub struct ReadDir {
    /// `None` after the last entry was fetched.
    source: Option<std::fs::ReadDir>,
    fetched: VecDeque<io::Result<DirEntry>>,
}

// A panic cannot leave a batch incomplete.
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

impl fmt::Debug for ReadDir {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => source.fmt(formatter),
            None => formatter.debug_struct("ReadDir").finish_non_exhaustive(),
        }
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if self.fetched.is_empty()
            && let Some(mut source) = self.source.take()
        {
            let batch = offload::perform(move || {
                let fetched: VecDeque<_> = source
                    .by_ref()
                    .take(BATCH_ENTRIES)
                    .map(|entry| entry.map(DirEntry::new))
                    .collect();
                Ok((source, fetched))
            });
            match batch {
                Ok((source, fetched)) => {
                    self.source = (fetched.len() == BATCH_ENTRIES).then_some(source);
                    self.fetched = fetched;
                }
                Err(cancelled) => return Some(Err(cancelled)),
            }
        }
        self.fetched.pop_front()
    }
}

/// An entry of a directory; the counterpart of [`std::fs::DirEntry`].
///
/// ```
/// use uthread::fs::{self, DirEntry};
///
/// let entries: Vec<DirEntry> = fs::read_dir("src")?.collect::<std::io::Result<_>>()?;
/// let library = entries.iter().find(|entry| entry.file_name() == "lib.rs").unwrap();
/// assert!(library.path().ends_with("src/lib.rs"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct DirEntry {
    inner: std::fs::DirEntry,
    /// `None` if the directory does not contain the type.
    file_type: Option<FileType>,
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl DirEntry {
    /// Wraps an entry and reads its type. Called outside the worker, as some file systems have to
    /// look the type up.
    fn new(inner: std::fs::DirEntry) -> DirEntry {
        let file_type = inner.file_type().ok();
        DirEntry { inner, file_type }
    }

    /// Returns the path of the entry: the path passed to [`read_dir`] joined with the name. See the
    /// example of [`DirEntry`].
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.inner.path()
    }

    /// Returns the name of the entry, without its directory. See the example of [`DirEntry`].
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.inner.file_name()
    }

    /// Returns the type of the entry. Symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// `NotFound` if the directory does not contain the type and the entry has been removed; any
    /// other error that `lstat(2)` reports. Never fails if the directory contains the type.
    ///
    /// ```
    /// for entry in uthread::fs::read_dir("src")? {
    ///     let entry = entry?;
    ///     assert!(entry.file_type()?.is_dir() || entry.file_name().to_str().unwrap().ends_with(".rs"));
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn file_type(&self) -> io::Result<FileType> {
        match self.file_type {
            Some(file_type) => Ok(file_type),
            None => offload::perform(|| self.inner.file_type()),
        }
    }

    /// Queries metadata about the entry. Symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// `NotFound` if the entry has been removed; any other error that `statx(2)` reports.
    ///
    /// ```
    /// for entry in uthread::fs::read_dir("src")? {
    ///     assert!(entry?.metadata()?.len() > 0);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metadata(&self) -> io::Result<Metadata> {
        match super::symlink_metadata(self.path()) {
            Ok(metadata) if metadata.ino() == self.inner.ino() => Ok(metadata),
            // The directory was renamed, or the entry is another file now: query relative to the
            // open directory.
            _ => offload::perform(|| self.inner.metadata()),
        }
    }
}

impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.inner.ino()
    }
}

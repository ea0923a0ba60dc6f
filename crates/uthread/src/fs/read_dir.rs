//! Reading a directory. No driver can, so a thread fetches entries in batches.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};

use crate::sched::offload;

/// Entries fetched at once: about what one `getdents64` of `std`'s 32 KiB buffer returns.
const BATCH_ENTRIES: usize = 512;

/// The entries of a directory, in the file system's order, without `.` and `..`.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `ENOTDIR`, `EACCES`.
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

/// An iterator over a directory's entries; see the example of [`read_dir`].
pub struct ReadDir {
    /// `None` at the directory's end.
    source: Option<std::fs::ReadDir>,
    fetched: VecDeque<io::Result<DirEntry>>,
}

// What has been fetched is whole whenever anything can panic.
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

/// One entry of a directory, as [`std::fs::DirEntry`].
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
    /// `None` where the directory does not tell.
    file_type: Option<FileType>,
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl DirEntry {
    /// Asks for the type here, off the worker: some file systems must look it up.
    fn new(inner: std::fs::DirEntry) -> DirEntry {
        let file_type = inner.file_type().ok();
        DirEntry { inner, file_type }
    }

    /// The directory's path as given, joined by the name; see the example of [`DirEntry`].
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.inner.path()
    }

    /// The name alone; see the example of [`DirEntry`].
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.inner.file_name()
    }

    /// The type of the entry itself; symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// The kernel's, where the directory does not tell: `ENOENT` where the entry was removed since.
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

    /// What is known of the entry itself; symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOENT` where it was removed since.
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
            // Its directory has another name by now, or the entry another file: ask by the open directory.
            _ => offload::perform(|| self.inner.metadata()),
        }
    }
}

impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.inner.ino()
    }
}

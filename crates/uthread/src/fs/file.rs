//! An open file.

use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::OpenOptions;
use crate::op::fs::FileOperation;
use crate::op::{self, Operation, buffers};
use crate::resource::descriptor::{Descriptor, FdState, impl_has_fd_state};
use crate::sched::caller;
use crate::sched::features::{file_calls, offload};
use crate::sync::exclusive::{Exclusive, Held};

/// An open file; the counterpart of [`std::fs::File`].
///
/// Reads and writes transfer data directly between the kernel and the caller's buffer. `File`
/// implements `FileExt` of `std::os::unix`: `read_at` and `write_at` do not use the file position.
///
/// Calls that use the file position are serialized among all clones of a `File`, as in `std`.
/// Descriptors of the same open file that were duplicated by other means are not included.
///
/// A read or a write of a pipe, a terminal or another such file suspends a fiber until it is ready.
/// If the descriptor is non-blocking (`O_NONBLOCK`), the call fails with `WouldBlock` instead.
///
/// ```
/// use std::io::Read;
/// let text = uthread::run(|| {
///     let mut text = String::new();
///     uthread::fs::File::open("Cargo.toml")?.read_to_string(&mut text)?;
///     std::io::Result::Ok(text)
/// })?;
/// assert!(text.starts_with("[package]"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct File {
    pub(super) inner: std::fs::File,
    /// Determined by the first call that needs it, or from metadata that was requested earlier.
    position: OnceLock<Position>,
    pub(super) state: FdState,
}

/// The kind of the file position, which decides whether concurrent calls must be serialized.
#[derive(Clone)]
enum Position {
    /// A device without contents, a directory or a pipe: calls need no serialization, and may not
    /// support offsets.
    Unshared,
    /// The kernel serializes `read` and `write` calls, but not the requests of a driver.
    Shared(Arc<Exclusive>),
}

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// `NotFound` if the file does not exist; `PermissionDenied` if it may not be read; `EMFILE` or
    /// `ENFILE` if there is no free descriptor; any other error that `open(2)` reports.
    ///
    /// ```
    /// use std::io::Read;
    /// use uthread::fs::File;
    ///
    /// let mut f = File::open("Cargo.toml")?;
    /// let mut data = vec![];
    /// f.read_to_end(&mut data)?;
    /// assert!(data.starts_with(b"[package]"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing, creating it if it does not exist and truncating it if it does.
    ///
    /// # Errors
    ///
    /// `NotFound` if the parent directory does not exist; `PermissionDenied` if the file may not be
    /// written or created; any other error that `open(2)` reports.
    ///
    /// ```
    /// use std::io::Write;
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut f = File::create(directory.path().join("foo.txt"))?;
    /// f.write_all(&1234_u32.to_be_bytes())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
    }

    /// Creates a file and opens it for reading and writing. The file must not exist.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the file exists; any other error of [`create`](File::create).
    ///
    /// ```
    /// use std::io::{ErrorKind, Write};
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("foo.txt");
    /// let mut f = File::create_new(&path)?;
    /// f.write_all("Hello, world!".as_bytes())?;
    /// assert_eq!(File::create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
    }

    /// Returns new options for opening a file, as [`OpenOptions::new`] does.
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// File::options().append(true).create(true).open(directory.path().join("example.log"))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Queries metadata about the file. On a local file system, this does not access the disk.
    ///
    /// # Errors
    ///
    /// Any error that `statx(2)` reports.
    ///
    /// ```
    /// let metadata = uthread::fs::File::open("Cargo.toml")?.metadata()?;
    /// assert!(metadata.is_file() && metadata.len() > 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metadata(&self) -> io::Result<Metadata> {
        let metadata = self.inner.metadata()?;
        if has_contents(&metadata) {
            // Remembered, so that a read need not query the metadata again.
            self.position
                .get_or_init(|| Position::Shared(Arc::default()));
        }
        Ok(metadata)
    }

    /// Waits until the contents and the metadata of the file are on the disk.
    ///
    /// # Errors
    ///
    /// `EIO`, `StorageFull` or any other error that `fsync(2)` reports. It may be the error of an
    /// earlier write that returned successfully.
    ///
    /// ```
    /// use std::io::Write;
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut f = File::create(directory.path().join("foo.txt"))?;
    /// f.write_all(b"Hello, world!")?;
    /// f.sync_all()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    /// Waits until the contents of the file are on the disk, with the metadata needed to read them.
    ///
    /// # Errors
    ///
    /// The errors of [`sync_all`](File::sync_all).
    ///
    /// ```
    /// use std::io::Write;
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut f = File::create(directory.path().join("foo.txt"))?;
    /// f.write_all(b"Hello, world!")?;
    /// f.sync_data()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(true)
    }

    fn sync(&self, data_only: bool) -> io::Result<()> {
        perform(FileOperation::Sync {
            file: self.descriptor(),
            data_only,
        })?;
        Ok(())
    }

    /// Truncates the file to `bytes` bytes, or extends it with zeroes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) if the file is not open for writing; `FileTooLarge` (`EFBIG`) if
    /// the file system does not support the length; any other error that `ftruncate(2)` reports.
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let f = File::create(directory.path().join("foo.txt"))?;
    /// f.set_len(10)?;
    /// assert_eq!(f.metadata()?.len(), 10);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        offload::perform(|| self.inner.set_len(bytes))
    }

    /// Changes the permissions of the file.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` (`EPERM`) if the process does not own the file; any other error that
    /// `fchmod(2)` reports.
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let file = File::create(directory.path().join("foo.txt"))?;
    /// let mut perms = file.metadata()?.permissions();
    /// perms.set_readonly(true);
    /// file.set_permissions(perms)?;
    /// assert!(file.metadata()?.permissions().readonly());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        offload::perform(|| self.inner.set_permissions(permissions))
    }

    /// Changes the access and modification times of the file, as far as they are set in `times`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the kernel cannot represent a time; `PermissionDenied` if the process does
    /// not own the file; any other error that `futimens(3)` reports.
    ///
    /// ```
    /// use uthread::fs::{self, File, FileTimes};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let src = fs::metadata("Cargo.toml")?;
    /// let dest = File::create(directory.path().join("dest"))?;
    /// let times = FileTimes::new()
    ///     .set_accessed(src.accessed()?)
    ///     .set_modified(src.modified()?);
    /// dest.set_times(times)?;
    /// assert_eq!(dest.metadata()?.modified()?, src.modified()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        offload::perform(|| self.inner.set_times(times))
    }

    /// Changes the modification time of the file.
    ///
    /// # Errors
    ///
    /// The errors of [`set_times`](File::set_times).
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let file = File::create(directory.path().join("foo.txt"))?;
    /// file.set_modified(SystemTime::UNIX_EPOCH)?;
    /// assert_eq!(file.metadata()?.modified()?, SystemTime::UNIX_EPOCH);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Creates another handle to the same open file. Both handles share the file position.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; any other error that `fcntl(2)` reports for
    /// `F_DUPFD_CLOEXEC`.
    ///
    /// ```
    /// use std::io::{Read, Seek, SeekFrom};
    /// use uthread::fs::File;
    ///
    /// let mut file = File::open("Cargo.toml")?;
    /// let mut file_copy = file.try_clone()?;
    /// file.seek(SeekFrom::Start(1))?;
    /// let mut contents = vec![];
    /// file_copy.read_to_end(&mut contents)?;
    /// assert!(contents.starts_with(b"package]"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_clone(&self) -> io::Result<File> {
        let inner = self.inner.try_clone()?;
        let position = OnceLock::from(self.position()?.clone());
        let mut state = FdState::new();
        state.set_direct(self.state.is_direct());
        Ok(File {
            inner,
            position,
            state,
        })
    }

    /// Returns `true` if the file is a terminal. This is a method because only `std` types can
    /// implement `std::io::IsTerminal`.
    ///
    /// ```
    /// assert!(!uthread::fs::File::open("Cargo.toml")?.is_terminal());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.inner.is_terminal()
    }

    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor {
            fd: self.as_fd(),
            state: &self.state,
        }
    }

    fn position(&self) -> io::Result<&Position> {
        if self.position.get().is_none() && !has_contents(&self.metadata()?) {
            self.position.get_or_init(|| Position::Unshared);
        }
        Ok(self.position.get().expect("determined above"))
    }

    /// Waits until no other call uses the file position, if the file has one.
    fn lock_position(&self) -> io::Result<Option<Held<'_>>> {
        Ok(match self.position()? {
            Position::Unshared => None,
            Position::Shared(lock) => Some(lock.lock()),
        })
    }

    pub(super) fn read_from(&self, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
        let file = self.descriptor();
        let read = FileOperation::Read {
            file,
            buffer,
            offset,
        };
        self.transfer(read, offset)
    }

    fn write_to(&self, buffer: &[u8], offset: Option<u64>) -> io::Result<usize> {
        let file = self.descriptor();
        let write = FileOperation::Write {
            file,
            buffer,
            offset,
        };
        self.transfer(write, offset)
    }

    fn transfer(&self, operation: FileOperation<'_>, offset: Option<u64>) -> io::Result<usize> {
        if let Some(offset) = offset {
            if i64::try_from(offset).is_err() {
                // The largest one is the current position to a driver.
                return Err(io::Error::from_raw_os_error(op::INVALID));
            }
            return match self.position()? {
                Position::Shared(_) => perform(operation),
                Position::Unshared => file_calls::transfer(Operation::File(operation)),
            };
        }
        let Some(_held) = self.lock_position()? else {
            return file_calls::transfer(Operation::File(operation));
        };
        if !caller::is_on_worker() {
            return perform(operation);
        }
        let is_write = matches!(
            operation,
            FileOperation::Write { .. } | FileOperation::WriteVectored { .. }
        );
        let before = rustix::fs::tell(&self.inner)?;
        let count = perform(operation)?;
        if count > 0 && rustix::fs::tell(&self.inner)? == before {
            self.move_position(before + count as u64, is_write)?;
        }
        Ok(count)
    }

    /// Moves the file position to `to` when io_uring has not moved it: it does not after direct
    /// I/O, nor after a transfer that an error cut short, such as on a full disk.
    #[cold]
    fn move_position(&self, to: u64, is_write: bool) -> io::Result<()> {
        let appends = is_write && rustix::fs::fcntl_getfl(&self.inner)?.contains(OFlags::APPEND);
        let to = if appends {
            SeekFrom::End(0)
        } else {
            SeekFrom::Start(to)
        };
        (&self.inner).seek(to)?;
        Ok(())
    }
}

/// Returns `true` if the file has a position, so that concurrent transfers must be serialized.
fn has_contents(metadata: &Metadata) -> bool {
    metadata.is_file() || metadata.file_type().is_block_device()
}

fn perform(operation: FileOperation<'_>) -> io::Result<usize> {
    Ok(file_calls::perform(&mut Operation::File(operation))? as usize)
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, None)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let file = self.descriptor();
        let read = FileOperation::ReadVectored {
            file,
            buffers: &mut buffers::to_fill(buffers),
            offset: None,
        };
        self.transfer(read, None)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.read_rest(bytes)
    }

    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        self.read_rest_as_text(text)
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_to(buffer, None)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let file = self.descriptor();
        let write = FileOperation::WriteVectored {
            file,
            buffers: &mut buffers::to_empty(buffers),
            offset: None,
        };
        self.transfer(write, None)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let _held = self.lock_position()?;
        // Only changes a number in memory; never waits.
        (&self.inner).seek(position)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.read_rest(bytes)
    }

    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        self.read_rest_as_text(text)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&*self).seek(position)
    }
}

impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(buffer, Some(offset))
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(buffer, Some(offset))
    }
}

impl_has_fd_state!(File, state);

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.inner.into_raw_fd()
    }
}

#[allow(unsafe_code, reason = "the trait's method is unsafe to call")]
impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> File {
        // SAFETY: the caller passes ownership of an open descriptor, as `FromRawFd` requires.
        unsafe { OwnedFd::from_raw_fd(fd) }.into()
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> File {
        File::from(std::fs::File::from(fd))
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.inner.into()
    }
}

impl From<std::fs::File> for File {
    fn from(inner: std::fs::File) -> File {
        File {
            inner,
            position: OnceLock::new(),
            state: FdState::new(),
        }
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        file.inner
    }
}

impl From<File> for Stdio {
    fn from(file: File) -> Stdio {
        file.inner.into()
    }
}

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
use crate::resource::descriptor::{Descriptor, FdState};
use crate::ring::registered_file::impl_registrable;
use crate::sched::ticket_lock::{Ticket, TicketLock};
use crate::sched::{offload, wait};

/// An open file, as [`std::fs::File`].
///
/// Reads and writes go straight between the kernel and the caller's buffer. `FileExt` of
/// `std::os::unix` works with it: `read_at` and `write_at` need no position.
///
/// Calls at the file's position take lock among all clones of this file, as with `std`. A
/// descriptor of the same open file that was duplicated outside of this type takes no turn.
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
    /// Found out at the first call that needs it, or by a look at the metadata.
    position: OnceLock<Position>,
    pub(super) state: FdState,
}

/// Whether the open file has a position, which calls that use it must not use at once.
#[derive(Clone)]
enum Position {
    /// A device without contents, a directory: calls need no lock.
    Unshared,
    /// A pipe: it has none, nor offsets. The ring would read on regardless of the offset.
    None,
    /// The kernel takes lock for `read` and `write`, but not for requests of a driver.
    Shared(Arc<TicketLock>),
}

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl File {
    /// Opens a file to read.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOENT`, `EACCES`, `EMFILE`.
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

    /// Opens a file to write, created or emptied.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// Creates a file to read and write that must not exist before.
    ///
    /// # Errors
    ///
    /// The kernel's: `EEXIST`.
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

    /// The same as [`OpenOptions::new`].
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

    /// What is known of the file. Answered from memory on a local file system.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let metadata = uthread::fs::File::open("Cargo.toml")?.metadata()?;
    /// assert!(metadata.is_file() && metadata.len() > 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metadata(&self) -> io::Result<Metadata> {
        let metadata = self.inner.metadata()?;
        if has_contents(&metadata) {
            // Kept, so that reading need not ask again.
            self.position
                .get_or_init(|| Position::Shared(Arc::default()));
        }
        Ok(metadata)
    }

    /// Waits until contents and metadata are on the disk.
    ///
    /// # Errors
    ///
    /// The kernel's: `EIO` and `ENOSPC` of writes that seemed to succeed before.
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

    /// Waits until the contents, and what is needed to find them, are on the disk.
    ///
    /// # Errors
    ///
    /// As [`sync_all`](File::sync_all).
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
        let mut operation = Operation::File(FileOperation::Sync {
            file: self.descriptor(),
            data_only,
        });
        wait::perform(&mut operation, None)?;
        Ok(())
    }

    /// Cuts the file off at `bytes`, or extends it by zeroes.
    ///
    /// # Errors
    ///
    /// The kernel's: `EINVAL` where the file is not open to write, `EFBIG`.
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

    /// Changes the permissions.
    ///
    /// # Errors
    ///
    /// The kernel's: `EPERM`.
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

    /// Changes when the file was last read and written, as far as `times` says.
    ///
    /// # Errors
    ///
    /// The kernel's: `EPERM`; `InvalidInput` for a time that the kernel cannot express.
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

    /// Changes when the file was last written: [`set_times`](File::set_times) of that alone.
    ///
    /// # Errors
    ///
    /// As [`set_times`](File::set_times).
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

    /// Another handle to the same open file; the position is shared.
    ///
    /// # Errors
    ///
    /// The kernel's, `EMFILE` above all.
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

    /// Whether the file is a terminal, as `std::io::IsTerminal`, which only types of `std` can implement.
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
            let seekable = (&self.inner).stream_position().is_ok();
            self.position.get_or_init(|| match seekable {
                true => Position::Unshared,
                false => Position::None,
            });
        }
        Ok(self
            .position
            .get()
            .expect("known before, or found just now"))
    }

    /// Waits until no other call uses the position.
    fn lock_position(&self) -> io::Result<Option<Ticket<'_>>> {
        Ok(match self.position()? {
            Position::None | Position::Unshared => None,
            Position::Shared(lock) => Some(lock.lock()),
        })
    }

    /// Refuses what `pread` and `pwrite` refuse, but drivers do not: an offset in a pipe, and one
    /// that the kernel, whose offsets are signed, takes for another (-1 is "at the position").
    fn check_offset(&self, offset: u64) -> io::Result<()> {
        if i64::try_from(offset).is_err() {
            return Err(io::Error::from_raw_os_error(op::INVALID));
        }
        match self.position()? {
            Position::None => Err(io::Error::from_raw_os_error(op::NOT_SEEKABLE)),
            Position::Unshared | Position::Shared(_) => Ok(()),
        }
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
            self.check_offset(offset)?;
            return perform(operation);
        }
        let ticket = self.lock_position()?;
        if ticket.is_none() || !wait::is_on_worker() {
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

    /// Moves the position where the ring leaves it: before what it has moved without the page cache, and what
    /// an error cut short, as on a full disk.
    #[cold]
    fn move_position(&self, to: u64, is_write: bool) -> io::Result<()> {
        let appends = is_write && rustix::fs::fcntl_getfl(&self.inner)?.contains(OFlags::APPEND);
        let to = match appends {
            true => SeekFrom::End(0),
            false => SeekFrom::Start(to),
        };
        (&self.inner).seek(to)?;
        Ok(())
    }
}

/// Whether what is moved is counted by a position that must not be used by two at once.
fn has_contents(metadata: &Metadata) -> bool {
    metadata.is_file() || metadata.file_type().is_block_device()
}

fn perform(operation: FileOperation<'_>) -> io::Result<usize> {
    Ok(wait::perform(&mut Operation::File(operation), None)? as usize)
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
        let _ticket = self.lock_position()?;
        // Moves a number in memory; looks nothing up.
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

impl_registrable!(File, state);

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
        // SAFETY: the caller owns the descriptor, as the trait demands.
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

//! An open file.

use std::fmt;
use std::fs::{Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::OpenOptions;
use crate::op::descriptor::{Descriptor, Watcher};
use crate::op::fs::FileOperation;
use crate::op::{self, Operation, buffers};
use crate::sched::turn::{Turn, Turns};
use crate::sched::{offload, wait};

/// By how much a read to the end goes on where the file turned out longer than it said: files of
/// `/proc` say zero and are mostly shorter than this.
const GROWTH_BYTES: usize = 8 * 1024;

/// An open file, as [`std::fs::File`].
///
/// Reads and writes go straight between the kernel and the caller's buffer. `FileExt` of
/// `std::os::unix` works with it: `read_at` and `write_at` need no position.
///
/// Calls at the file's position take turns among all clones of this file, as with `std`. A
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
    inner: std::fs::File,
    /// Found out at the first call that needs it, or by a look at the metadata.
    position: OnceLock<Position>,
    watcher: Watcher,
}

/// Whether the open file has a position, which calls that use it must not use at once.
#[derive(Clone)]
enum Position {
    /// A device, a directory: calls need no turns.
    Unshared,
    /// A pipe: it has none, nor offsets. The ring would read on regardless of the offset.
    None,
    /// The kernel takes turns for `read` and `write`, but not for requests of a driver.
    Shared(Arc<Turns>),
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
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file to write, created or emptied.
    ///
    /// # Errors
    ///
    /// The kernel's.
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
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
    }

    /// The same as [`OpenOptions::new`].
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// What is known of the file. Answered from memory on a local file system.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let metadata = self.inner.metadata()?;
        if metadata.is_file() {
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
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    /// Waits until the contents, and what is needed to find them, are on the disk.
    ///
    /// # Errors
    ///
    /// As [`sync_all`](File::sync_all).
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
    /// The kernel's.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        let file = self.inner.try_clone()?;
        offload::perform(move || file.set_len(bytes))
    }

    /// Changes the permissions.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let file = self.inner.try_clone()?;
        offload::perform(move || file.set_permissions(permissions))
    }

    /// Another handle to the same open file; the position is shared.
    ///
    /// # Errors
    ///
    /// The kernel's, `EMFILE` above all.
    pub fn try_clone(&self) -> io::Result<File> {
        let inner = self.inner.try_clone()?;
        let position = OnceLock::from(self.position()?.clone());
        Ok(File {
            inner,
            position,
            watcher: Watcher::new(),
        })
    }

    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor {
            fd: self.as_fd(),
            watcher: &self.watcher,
        }
    }

    fn position(&self) -> io::Result<&Position> {
        if self.position.get().is_none() && !self.metadata()?.is_file() {
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
    fn take_turn(&self) -> io::Result<Option<Turn<'_>>> {
        Ok(match self.position()? {
            Position::None | Position::Unshared => None,
            Position::Shared(turns) => Some(turns.take()),
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

    /// Reads to the end: at once what there is by the file's length, then what came since.
    fn read_rest(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let length = self.metadata()?.len();
        let here = (&self.inner).stream_position().unwrap_or(0);
        let rest = usize::try_from(length.saturating_sub(here)).unwrap_or(usize::MAX);
        let start = bytes.len();
        // One byte more, so that a read cut off by the buffer is told from the end.
        // Files of `/proc` say zero, and some of them give their all to the first read or nothing.
        let mut room = match rest {
            0 => GROWTH_BYTES,
            rest => rest.saturating_add(1),
        };
        loop {
            let filled = bytes.len();
            bytes.try_reserve(room)?;
            bytes.resize(filled + room, 0);
            let result = self.read_from(&mut bytes[filled..], None);
            bytes.truncate(filled + result.as_ref().map_or(0, |count| *count));
            match result {
                Ok(0) => return Ok(filled - start),
                Ok(count) => room = (room - count).max(GROWTH_BYTES),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_from(&self, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
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
        let _turn = match offset {
            None => self.take_turn()?,
            Some(offset) => self.check_offset(offset).map(|()| None)?,
        };
        Ok(wait::perform(&mut Operation::File(operation), None)? as usize)
    }
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
        let _turn = self.take_turn()?;
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
            watcher: Watcher::new(),
        }
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        file.inner
    }
}

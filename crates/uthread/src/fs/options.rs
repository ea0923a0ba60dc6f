//! Options for opening a file.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, ResolveFlags};

use super::File;
use crate::op::Operation;
use crate::op::fs::{FileOperation, OpenHow};
use crate::sched::features::file_calls;

/// Permissions of a new file, before the umask is applied.
const MODE_DEFAULT: u32 = 0o666;

/// The bits that a mode may contain. `openat2` rejects file type bits, which `open` ignores.
const PERMISSION_BITS: u32 = 0o7777;

/// Flags that create a file, with or without a name. The bit that `O_TMPFILE` shares with
/// `O_DIRECTORY` is excluded.
const CREATING: OFlags = OFlags::CREATE.union(OFlags::TMPFILE.difference(OFlags::DIRECTORY));

/// Options for opening a file; the counterpart of [`std::fs::OpenOptions`]. Implements
/// `OpenOptionsExt` of `std::os::unix`.
///
/// ```
/// use std::io::Write;
/// use uthread::fs::OpenOptions;
///
/// let path = std::env::temp_dir().join(format!("uthread-options-{}", std::process::id()));
/// let mut log = OpenOptions::new().append(true).create(true).open(&path)?;
/// log.write_all(b"one line\n")?;
/// assert_eq!(uthread::fs::read(&path)?, b"one line\n");
/// std::fs::remove_file(&path)
/// # ;Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom_flags: i32,
    direct: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Creates options that are all unset. At least one of `read`, `write` and `append` must be set
    /// before opening.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// let file = OpenOptions::new().open("Cargo.toml");
    /// assert_eq!(file.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    #[must_use]
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: MODE_DEFAULT,
            custom_flags: 0,
            direct: false,
        }
    }

    /// Sets whether the file is opened for reading.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// OpenOptions::new().read(true).open("Cargo.toml")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// Sets whether the file is opened for writing.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("foo.txt");
    /// OpenOptions::new().write(true).create(true).open(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Sets whether each write appends to the end of the file.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("foo.txt");
    /// OpenOptions::new().append(true).create(true).open(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.append = append;
        self
    }

    /// Sets whether the file is truncated to length zero.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("foo.txt");
    /// uthread::fs::write(&path, "text")?;
    /// let file = OpenOptions::new().write(true).truncate(true).open(path)?;
    /// assert_eq!(file.metadata()?.len(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Sets whether the file is created if it does not exist.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("foo.txt");
    /// assert!(OpenOptions::new().write(true).open(&path).is_err());
    /// OpenOptions::new().write(true).create(true).open(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// Sets whether the file is created, failing if it exists.
    ///
    /// ```
    /// use uthread::fs::OpenOptions;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("foo.txt");
    /// OpenOptions::new().write(true).create_new(true).open(&path)?;
    /// assert!(OpenOptions::new().write(true).create_new(true).open(&path).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Sets whether reads and writes bypass the page cache (`O_DIRECT`). Not part of `std`.
    ///
    /// Buffers must then be aligned as [`File::direct_alignment`] reports: use an
    /// [`AlignedBuffer`](super::AlignedBuffer). A file system without direct I/O refuses to open
    /// the file with `EINVAL`; in-memory file systems such as `tmpfs` open it and use the page
    /// cache.
    ///
    /// ```
    /// use uthread::fs::{AlignedBuffer, OpenOptions};
    ///
    /// let opened = OpenOptions::new().read(true).direct(true).open("Cargo.toml");
    /// if let Ok(buffer) = opened.and_then(|file| AlignedBuffer::for_file(&file, 4096)) {
    ///     assert!(buffer.len() >= 4096);
    /// }
    /// ```
    pub fn direct(&mut self, direct: bool) -> &mut OpenOptions {
        self.direct = direct;
        self
    }

    /// Opens the file at `path` with these options.
    ///
    /// In a fiber, opening an existing FIFO does not wait for its other end: opening for reading
    /// succeeds at once, and opening for writing fails with `ENXIO` if there is no reader.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the options contradict each other; `NotFound` if the file does not exist
    /// and is not created; `AlreadyExists` if it exists and `create_new` is set; `PermissionDenied`
    /// if the access is not permitted; `EMFILE` or `ENFILE` if there is no free descriptor; any
    /// other error that `openat2(2)` reports.
    ///
    /// ```
    /// let file = uthread::fs::OpenOptions::new().read(true).open("Cargo.toml")?;
    /// assert!(file.metadata()?.is_file());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        open(None, path.as_ref(), self.how(ResolveFlags::empty())?)
    }

    /// Converts the options to the arguments of `openat2`.
    pub(super) fn how(&self, resolve: ResolveFlags) -> io::Result<OpenHow> {
        let creates = self.create || self.create_new;
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OFlags::RDONLY,
            (false, true, false) => OFlags::WRONLY,
            (true, true, false) => OFlags::RDWR,
            (false, _, true) => OFlags::WRONLY | OFlags::APPEND,
            (true, _, true) => OFlags::RDWR | OFlags::APPEND,
            (false, false, false) if creates || self.truncate => return refuse(NOT_WRITTEN),
            (false, false, false) => return refuse(NO_ACCESS),
        };
        // Rejects the combinations that `std` rejects: they would silently change nothing, or
        // everything.
        let writes = self.write || self.append;
        if (creates || self.truncate) && !writes || self.append && self.truncate && !self.create_new
        {
            return refuse(NOT_WRITTEN);
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => OFlags::CREATE | OFlags::EXCL,
            (true, true, false) => OFlags::CREATE | OFlags::TRUNC,
            (true, false, false) => OFlags::CREATE,
            (false, true, false) => OFlags::TRUNC,
            (false, false, false) => OFlags::empty(),
        };
        let custom = OFlags::from_bits_retain(self.custom_flags.cast_unsigned())
            & !(OFlags::WRONLY | OFlags::RDWR);
        let mut flags = OFlags::CLOEXEC | access | creation | custom;
        flags.set(
            OFlags::DIRECT,
            self.direct || custom.contains(OFlags::DIRECT),
        );
        Ok(OpenHow {
            flags: u64::from(flags.bits()),
            // The kernel rejects a mode if no file is created.
            mode: if flags.intersects(CREATING) {
                u64::from(self.mode & PERMISSION_BITS)
            } else {
                0
            },
            resolve: resolve.bits(),
        })
    }
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = mode;
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.custom_flags = flags;
        self
    }
}

/// The messages of `std` for options without an access mode, and for options that would change a
/// file opened only for reading.
const NO_ACCESS: &str = "must specify at least one of read, write, or append access";
const NOT_WRITTEN: &str = "creating or truncating a file requires write or append access";

fn refuse<T>(reason: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

pub(super) fn open(
    directory: Option<BorrowedFd<'_>>,
    path: &Path,
    how: OpenHow,
) -> io::Result<File> {
    let path = kernel_path(path)?;
    let is_direct = how.flags & u64::from(OFlags::DIRECT.bits()) != 0;
    let mut operation = Operation::File(FileOperation::Open {
        directory,
        path: &path,
        how,
    });
    let result = file_calls::perform(&mut operation)?;
    let mut file = File::from(operation.descriptor(result));
    file.state.set_direct(is_direct);
    Ok(file)
}

/// Converts a path to a C string.
///
/// # Errors
///
/// `InvalidInput` if the path contains a NUL byte.
pub(crate) fn kernel_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "file name contained an unexpected NUL byte",
        )
    })
}

/// Opens a path with `O_PATH`, only to query its metadata. Needs no permission on the file itself
/// and never waits.
pub(super) fn open_for_metadata(path: &Path, follow: bool) -> io::Result<File> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    let how = OpenHow {
        flags: u64::from(flags.bits()),
        ..OpenHow::default()
    };
    open(None, path, how)
}

//! How a file is opened.

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
use crate::sched::wait;

/// Permissions of a new file, before the process's umask.
const MODE_DEFAULT: u32 = 0o666;

/// What a mode may hold: `openat2` refuses the bits of a file's type, which `open` ignores.
const PERMISSION_BITS: u32 = 0o7777;

/// Flags that make a file: a named one, or one without a name (of `O_TMPFILE`, this bit is not
/// also `O_DIRECTORY`'s).
const CREATING: OFlags = OFlags::CREATE.union(OFlags::TMPFILE.difference(OFlags::DIRECTORY));

/// How a file is opened, as [`std::fs::OpenOptions`]; `OpenOptionsExt` of `std::os::unix` works
/// with it too.
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
    /// Options that open nothing yet: choose at least one of read, write and append.
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

    /// Whether the file can be read.
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

    /// Whether the file can be written.
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

    /// Whether each write goes to the end of the file.
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

    /// Whether the file is emptied.
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

    /// Whether a missing file is created.
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

    /// Whether the file is created and must not exist before.
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

    /// Whether reads and writes go past the page cache (`O_DIRECT`), from and to memory that is aligned as
    /// [`File::direct_alignment`] tells: an [`AlignedBuffer`](super::AlignedBuffer). Beyond `std`.
    ///
    /// A file system that has no such thing refuses to open the file, with `EINVAL`; those in memory, as `tmpfs`, permit it
    /// and use the page cache.
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

    /// Opens the file. In a fiber a FIFO that exists is opened without waiting for its other end: to
    /// read, at once; to write where nobody reads, it is refused with `ENXIO`.
    ///
    /// # Errors
    ///
    /// The kernel's; `InvalidInput` for options that contradict each other, in the words of `std`.
    ///
    /// ```
    /// let file = uthread::fs::OpenOptions::new().read(true).open("Cargo.toml")?;
    /// assert!(file.metadata()?.is_file());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        open(None, path.as_ref(), self.how(ResolveFlags::empty())?)
    }

    /// What the kernel is told.
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
        // As `std`: what would silently change nothing, or everything, is refused.
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
            // The kernel refuses a mode where no file is created.
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

/// What `std` says of options without an access, and of those that would change a file only to be read.
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
    let result = wait::perform(&mut operation, None)?;
    let mut file = File::from(operation.descriptor(result));
    file.state.set_direct(is_direct);
    Ok(file)
}

/// A path as the kernel takes it.
///
/// # Errors
///
/// `InvalidInput` where it would end early.
pub(crate) fn kernel_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "file name contained an unexpected NUL byte",
        )
    })
}

/// Opens a path only to ask about it: no permission on the file itself is needed, nothing waits.
pub(super) fn open_for_metadata(path: &Path, follow: bool) -> io::Result<File> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    let how = OpenHow {
        flags: u64::from(flags.bits()),
        ..OpenHow::default()
    };
    open(None, path, how)
}

//! An open directory that confines the paths opened beneath it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{OFlags, ResolveFlags};

use super::options::open;
use super::{File, OpenOptions};
use crate::op::fs::OpenHow;

/// Maximum number of attempts to resolve a path. The kernel gives up with `EAGAIN` if any rename on
/// the machine coincides with the resolution of a `..`; so many coincidences in a row are an attack
/// or a bug.
const RESOLUTIONS_MAX: usize = 8;

/// An open directory. Paths opened beneath it cannot escape from it, whatever they contain. Like
/// [`File`], it is opened through the driver, and so are the files beneath it.
///
/// ```
/// use uthread::fs::{Dir, OpenOptions};
///
/// let here = Dir::open("src")?;
/// assert!(here.open_beneath("lib.rs", OpenOptions::new().read(true)).is_ok());
/// let outside = here.open_beneath("../Cargo.toml", OpenOptions::new().read(true));
/// assert_eq!(outside.unwrap_err().kind(), std::io::ErrorKind::CrossesDevices);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Dir {
    inner: File,
}

impl Dir {
    /// Opens a directory.
    ///
    /// # Errors
    ///
    /// `NotFound` if `path` does not exist; `NotADirectory` if it is not a directory;
    /// `PermissionDenied` if it may not be accessed; any other error that `open(2)` reports.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use uthread::fs::Dir;
    ///
    /// assert!(Dir::open("src").is_ok());
    /// assert_eq!(Dir::open("Cargo.toml").unwrap_err().kind(), ErrorKind::NotADirectory);
    /// ```
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = OpenHow {
            flags: u64::from(flags.bits()),
            ..OpenHow::default()
        };
        let inner = open(None, path.as_ref(), how)?;
        Ok(Dir { inner })
    }

    /// Opens a file beneath this directory. A `..`, an absolute path or a symbolic link cannot lead
    /// out of the directory, and the magic links of `/proc` are not followed.
    ///
    /// The kernel checks each component while it resolves the path (`openat2` with
    /// `RESOLVE_BENEATH`), so there is no window between check and use.
    ///
    /// # Errors
    ///
    /// `CrossesDevices` (`EXDEV`) if the path leads out of the directory; `WouldBlock` (`EAGAIN`)
    /// if a concurrent rename disturbed each of several attempts; the errors of
    /// [`OpenOptions::open`].
    ///
    /// ```
    /// use std::io::Read;
    /// use uthread::fs::{Dir, OpenOptions};
    ///
    /// let served = Dir::open("src")?;
    /// let mut file = served.open_beneath("fs/mod.rs", OpenOptions::new().read(true))?;
    /// let mut text = String::new();
    /// file.read_to_string(&mut text)?;
    /// assert!(served.open_beneath("/etc/passwd", OpenOptions::new().read(true)).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open_beneath<P: AsRef<Path>>(&self, path: P, options: &OpenOptions) -> io::Result<File> {
        let how = options.how(ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)?;
        for _ in 1..RESOLUTIONS_MAX {
            match open(Some(self.as_fd()), path.as_ref(), how) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
        open(Some(self.as_fd()), path.as_ref(), how)
    }
}

/// Takes over an open directory. Paths beneath a descriptor of anything else fail with
/// `NotADirectory`.
///
/// ```
/// use std::os::fd::OwnedFd;
/// use uthread::fs::{Dir, OpenOptions};
///
/// let here = Dir::from(OwnedFd::from(std::fs::File::open("src")?));
/// assert!(here.open_beneath("lib.rs", OpenOptions::new().read(true)).is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
impl From<OwnedFd> for Dir {
    fn from(fd: OwnedFd) -> Dir {
        Dir { inner: fd.into() }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

//! An open directory, as the root of what may be reached.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{OFlags, ResolveFlags};

use super::options::open;
use super::{File, OpenOptions};
use crate::op::fs::OpenHow;

/// Times a path is resolved: any rename on the machine while the kernel goes through a `..` makes it
/// give up. Renames that hit so often in a row are an attack or a bug.
const RESOLUTIONS_MAX: usize = 8;

/// An open directory. Paths opened beneath it cannot leave it, whatever they contain.
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
    /// The kernel's: `ENOENT`, `ENOTDIR`, `EACCES`.
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

    /// Opens a file beneath this directory: no `..`, absolute path or symbolic link on the way may
    /// lead out of it, and no link of `/proc` is followed. The kernel checks each step
    /// (`openat2` with `RESOLVE_BENEATH`), so there is no window between check and use.
    ///
    /// # Errors
    ///
    /// `EXDEV` ([`io::ErrorKind::CrossesDevices`]) where the path leads out; otherwise as
    /// [`OpenOptions::open`]. `EAGAIN` where a rename came in between each of several tries.
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

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

//! The served directory: opens files beneath it, and nothing else.
//!
//! The kernel resolves each path with `RESOLVE_BENEATH`, so no `..`, symbolic link or concurrent rename leads out of
//! the directory. Checks of the path's text, here and elsewhere, only improve the response.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use uthread::fs::{Dir, File, OpenOptions};

use crate::http::response::Status;
use crate::tell;

/// Responses hold their file open for some milliseconds at most, so descriptors become free soon. A client that would
/// wait for longer gets a 503 and can retry.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(5);
const SHORTAGE_TRIES_MAX: u32 = 40;

#[derive(Debug)]
pub(crate) struct Root {
    dir: Dir,
    options: OpenOptions,
}

/// An object beneath the root that can be sent.
#[derive(Debug)]
pub(crate) enum Opened {
    File(Regular),
    Directory(File),
}

#[derive(Debug)]
pub(crate) struct Regular {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) modified_s: i64,
    pub(crate) modified_subsec_ns: i64,
}

impl Root {
    pub(crate) fn open(dir: &Path) -> io::Result<Root> {
        // A FIFO without a writer must not block; regular files ignore O_NONBLOCK.
        let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let root = Root {
            dir: Dir::open(dir)?,
            options,
        };
        // Fails now, not at the first request, if the kernel lacks openat2.
        root.resolve(b"")?;
        Ok(root)
    }

    /// Opens a path made by `target::decode`, or returns the status of the error response.
    pub(crate) fn get(&self, path: &[u8]) -> Result<Opened, Status> {
        let file = self
            .resolve_patiently(path)
            .map_err(|error| refusal(error, path))?;
        let metadata = file.metadata().map_err(|error| failure(&error, path))?;
        if metadata.is_dir() {
            return Ok(Opened::Directory(file));
        }
        if !metadata.is_file() {
            return Err(Status::Forbidden);
        }
        Ok(Opened::File(Regular {
            file,
            bytes: metadata.len(),
            modified_s: metadata.mtime(),
            modified_subsec_ns: metadata.mtime_nsec(),
        }))
    }

    /// Resolves a path, retrying for a while if file descriptors are short.
    fn resolve_patiently(&self, path: &[u8]) -> Result<File, Errno> {
        for _ in 1..SHORTAGE_TRIES_MAX {
            match self.resolve(path) {
                Err(Errno::MFILE | Errno::NFILE) => uthread::sleep(SHORTAGE_PAUSE),
                result => return result,
            }
        }
        self.resolve(path)
    }

    fn resolve(&self, path: &[u8]) -> Result<File, Errno> {
        let path = Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }));
        let opened = self.dir.open_beneath(path, &self.options);
        opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// Maps an error of `open` to a status. Hidden and outside paths get "not found", so that a client cannot learn whether
/// they exist.
fn refusal(errno: Errno, path: &[u8]) -> Status {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV => {
            Status::NotFound
        }
        // A socket, or a device without a driver, cannot be opened.
        Errno::ACCESS | Errno::PERM | Errno::NXIO | Errno::NODEV => Status::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Status::Unavailable,
        other => failure(&other.into(), path),
    }
}

fn failure(error: &io::Error, path: &[u8]) -> Status {
    tell(format_args!(
        "cannot read /{}: {error}",
        path.escape_ascii()
    ));
    Status::InternalError
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_opens_and_what_does_not() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let dir = inside.path();
        fs::write(dir.join("file"), "hello").unwrap();
        fs::create_dir(dir.join("sub")).unwrap();
        symlink("file", dir.join("link")).unwrap();
        symlink("../file", dir.join("sub/up")).unwrap();
        symlink(outside.path().join("secret"), dir.join("absolute")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        symlink("/proc/self/exe", dir.join("magic")).unwrap();
        let root = Root::open(dir).unwrap();

        for (path, expected) in [
            ("", Ok("directory")),
            ("file", Ok("file")),
            ("sub", Ok("directory")),
            ("link", Ok("file")),
            ("sub/up", Ok("file")),
            ("missing", Err(Status::NotFound)),
            ("file/below", Err(Status::NotFound)),
            ("absolute", Err(Status::NotFound)),
            ("magic", Err(Status::NotFound)),
            ("loop", Err(Status::NotFound)),
            ("..", Err(Status::NotFound)),
            ("sub/../../x", Err(Status::NotFound)),
            (&"long".repeat(100), Err(Status::NotFound)),
            (&"long/".repeat(1000), Err(Status::NotFound)),
        ] {
            let found = root.get(path.as_bytes()).map(|opened| match opened {
                Opened::File(_) => "file",
                Opened::Directory(_) => "directory",
            });
            assert_eq!(found, expected, "{path}");
        }
    }
}

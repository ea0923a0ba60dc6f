//! The file of a Unix socket that a server listens on: created, replaced if its process has ended,
//! and removed at the end.
//!
//! A socket without a process refuses connections, so a trial connection tells a stale file from
//! one in use. Two servers that start at once must not both replace the file, so they hold a lock
//! of its directory meanwhile.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use uthread::net::UnixListener;
use uthread::sleep;

/// Longest path of a socket: `sun_path` of `unix(7)` without the NUL at its end.
const PATH_BYTES_MAX: usize = 107;
/// Maximum time to wait for the lock. A server that starts holds it for less; a process that holds
/// it for longer uses the directory for something else.
const LOCK_TIME_MAX: Duration = Duration::from_secs(1);
/// Pause between two attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The file of a listening socket, removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Device and inode number.
type FileId = (u64, u64);

impl SocketFile {
    /// Returns the file at this path, which the caller has created.
    fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            id: id(&fs::symlink_metadata(path)?),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If the file was replaced, the new one belongs to another process.
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|found| id(&found) == self.id);
        if is_ours {
            // An error leaves a stale file, which the next start replaces.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Binds a listener to a new socket file. Its queue holds as many connections as
/// `net.core.somaxconn` allows.
pub(crate) fn bind(path: &Path) -> anyhow::Result<(UnixListener, SocketFile)> {
    bind_or_replace(path).map_err(|why| anyhow!("cannot listen on unix:{}: {why}", path.display()))
}

fn bind_or_replace(path: &Path) -> Result<(UnixListener, SocketFile), String> {
    if path.as_os_str().len() > PATH_BYTES_MAX {
        let error = io::Error::from(Errno::NAMETOOLONG);
        return Err(format!(
            "{error}; the path of a socket has at most {PATH_BYTES_MAX} bytes"
        ));
    }
    let _lock = lock_directory(path);
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    };
    let opened = bound.and_then(|listener| Ok((listener, SocketFile::of(path)?)));
    opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{error}; create its directory first"),
        ErrorKind::PermissionDenied => {
            format!("{error}; this user must be able to write to its directory")
        }
        _ => error.to_string(),
    })
}

/// Removes the file if it is a socket that no process listens on.
fn remove_stale(path: &Path) -> Result<(), String> {
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.file_type().is_socket() {
        return Err(
            "the file exists and is not a socket; choose another path with --listen".into(),
        );
    }
    match try_connect(path) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path)
            .map_err(|error| format!("the stale socket there cannot be removed: {error}")),
        // The queue of a listener can be full, and the socket can be of another type.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(
            "another process listens on it; stop that process, or choose another path with --listen"
                .into(),
        ),
        Err(errno) => Err(format!(
            "a socket exists there, and connecting to it fails: {}",
            io::Error::from(errno)
        )),
    }
}

fn try_connect(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

/// Locks the directory of the file. Returns `None` if it cannot be read, or if another process
/// keeps the lock.
fn lock_directory(path: &Path) -> Option<File> {
    let parent = path.parent()?;
    let directory = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let directory = File::open(directory).ok()?;
    let start = Instant::now();
    while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
        if start.elapsed() >= LOCK_TIME_MAX {
            return None;
        }
        sleep(LOCK_PAUSE);
    }
    Some(directory)
}

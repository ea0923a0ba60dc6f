//! The served directory: opens files beneath it, and nothing else.
//!
//! Each request is served from the directory that the root's path then leads to. The kernel
//! resolves each path in it with `RESOLVE_BENEATH`, so no `..`, symbolic link or concurrent rename
//! leads out of the directory. Checks of the path's text, here and elsewhere, only improve the
//! response.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use uthread::fs::{File, OpenOptions};

use super::cache::{Cache, CachedFile, Stamp};
use super::directory::Directory;
use crate::http::response::Status;
use crate::output::tell;

/// Responses hold their file open for some milliseconds at most, so descriptors become free soon. A
/// client that would wait for longer gets a 503 and can retry.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(5);
const SHORTAGE_TRIES_MAX: u32 = 40;

#[derive(Debug)]
pub(crate) struct Root {
    directory: Directory,
    options: OpenOptions,
    cache: Cache,
}

/// An object beneath the root that can be sent.
#[derive(Debug)]
pub(crate) enum Opened {
    File(Regular),
    Directory(File),
}

#[derive(Debug)]
pub(crate) struct Regular {
    pub(crate) content: Content,
    pub(crate) stamp: Stamp,
}

/// Where the content of a file is read from.
#[derive(Debug)]
pub(crate) enum Content {
    File(File),
    Cached(Arc<CachedFile>),
}

impl Opened {
    fn new(file: File, metadata: &Metadata) -> Result<Opened, Status> {
        match metadata {
            _ if metadata.is_dir() => Ok(Opened::Directory(file)),
            _ if metadata.is_file() => Ok(Opened::File(Regular::opened(file, metadata))),
            _ => Err(Status::Forbidden),
        }
    }
}

impl Regular {
    fn opened(file: File, metadata: &Metadata) -> Regular {
        Regular {
            content: Content::File(file),
            stamp: Stamp::of(metadata),
        }
    }

    fn kept(kept: Arc<CachedFile>) -> Regular {
        Regular {
            stamp: kept.stamp(),
            content: Content::Cached(kept),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stamp.bytes
    }
}

impl Root {
    pub(crate) fn new(dir: &Path) -> io::Result<Root> {
        // A FIFO without a writer must not block; regular files ignore O_NONBLOCK.
        let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let root = Root {
            directory: Directory::open(dir)?,
            options,
            cache: Cache::new(),
        };
        // Fails now, not at the first request, if the kernel lacks openat2.
        root.resolve(b"", Instant::now())?;
        Ok(root)
    }

    /// Finds the object at a path made by `target::decode`, in memory or by opening it, or returns
    /// the status of the error response. Every change that was made before `asked` is seen.
    pub(crate) fn get(&self, path: &[u8], asked: Instant) -> Result<Opened, Status> {
        if let Some(kept) = self.cache.get(self.directory.path(), path, asked) {
            return Ok(Opened::File(Regular::kept(kept)));
        }
        match self.open_with_metadata(path, asked)? {
            (file, metadata) if self.cache.admits(&metadata) => Ok(Opened::File(
                self.keep(path, &file, &metadata)
                    .unwrap_or_else(|_| Regular::opened(file, &metadata)),
            )),
            (file, metadata) => Opened::new(file, &metadata),
        }
    }

    /// Opens the object at a path, as [`get`](Root::get) does, but not to send it.
    pub(crate) fn open(&self, path: &[u8]) -> Result<Opened, Status> {
        let (file, metadata) = self.open_with_metadata(path, Instant::now())?;
        Opened::new(file, &metadata)
    }

    fn open_with_metadata(&self, path: &[u8], asked: Instant) -> Result<(File, Metadata), Status> {
        let file = self
            .resolve_patiently(path, asked)
            .map_err(|error| refusal(error, path))?;
        let metadata = file.metadata().map_err(|error| failure(&error, path))?;
        Ok((file, metadata))
    }

    /// Reads a small file into the cache. After an error, sending the file reports why.
    fn keep(&self, path: &[u8], file: &File, metadata: &Metadata) -> io::Result<Regular> {
        let mut bytes = vec![0; metadata.len() as usize];
        read_exact_at(file, &mut bytes, 0)?;
        Ok(Regular::kept(self.cache.keep(path, metadata, bytes)))
    }

    /// Resolves a path, retrying for a while if file descriptors are short.
    fn resolve_patiently(&self, path: &[u8], asked: Instant) -> Result<File, Errno> {
        for _ in 1..SHORTAGE_TRIES_MAX {
            match self.resolve(path, asked) {
                Err(Errno::MFILE | Errno::NFILE) => uthread::sleep(SHORTAGE_PAUSE),
                result => return result,
            }
        }
        self.resolve(path, asked)
    }

    fn resolve(&self, path: &[u8], asked: Instant) -> Result<File, Errno> {
        let path = Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }));
        let opened = self.directory.get(asked);
        let opened = opened.and_then(|dir| dir.open_beneath(path, &self.options));
        opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// Maps an error of `open` to a status. Hidden and outside paths get "not found", so that a client
/// cannot learn whether they exist.
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

/// Fills `buffer` from the file; fails if the file was truncated after its size was announced.
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_in_memory_is_found_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let (file, moved) = (folder.path().join("file"), outside.path().join("file"));
        let mut root = Root::new(folder.path()).unwrap();
        root.cache = Cache::with_settled(Duration::ZERO);
        let content = || match root.get(b"file", Instant::now()) {
            Ok(Opened::File(Regular {
                content: Content::Cached(kept),
                ..
            })) => Ok(String::from_utf8(kept.image().content().to_vec()).unwrap()),
            Ok(other) => panic!("not kept: {other:?}"),
            Err(status) => Err(status),
        };
        fs::write(&file, "one").unwrap();
        let first = root
            .cache
            .keep(b"file", &fs::metadata(&file).unwrap(), b"kept".to_vec());
        assert_eq!(first.stamp().bytes, 3);
        assert_eq!(content().unwrap(), "kept");
        fs::write(&file, "three").unwrap();
        assert_eq!(content().unwrap(), "three");
        assert_eq!(content().unwrap(), "three");
        fs::rename(&file, &moved).unwrap();
        assert_eq!(content(), Err(Status::NotFound));
        symlink(&moved, &file).unwrap();
        assert_eq!(content(), Err(Status::NotFound));
    }

    #[test]
    fn a_root_that_leads_elsewhere_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for release in ["one", "two"] {
            fs::create_dir(at(release)).unwrap();
            fs::write(at(release).join("file"), release).unwrap();
        }
        symlink("one", at("current")).unwrap();
        let mut root = Root::new(&at("current")).unwrap();
        root.cache = Cache::with_settled(Duration::ZERO);
        let content = |asked| match root.get(b"file", asked)? {
            Opened::File(Regular {
                content: Content::Cached(kept),
                ..
            }) => Ok(String::from_utf8(kept.image().content().to_vec()).unwrap()),
            other => panic!("not kept: {other:?}"),
        };
        let check = |expected: Result<&str, Status>| {
            assert_eq!(content(Instant::now()).as_deref().map_err(|&s| s), expected);
            let index = root.get(b"", Instant::now()).map(drop);
            assert_eq!(index, expected.map(drop));
        };
        check(Ok("one"));
        let early = Instant::now();
        check(Ok("one"));
        fs::remove_file(at("current")).unwrap();
        check(Err(Status::NotFound));
        symlink("two", at("current")).unwrap();
        check(Ok("two"));
        // One comparison serves this request, too.
        fs::remove_file(at("current")).unwrap();
        assert_eq!(content(early).as_deref(), Ok("two"));
        check(Err(Status::NotFound));
        // A directory whose memory could be reused at once.
        fs::rename(at("two"), at("current")).unwrap();
        check(Ok("two"));
        fs::remove_dir_all(at("current")).unwrap();
        fs::create_dir(at("current")).unwrap();
        fs::write(at("current/file"), "built").unwrap();
        check(Ok("built"));
    }

    #[test]
    fn files_open_and_other_paths_do_not() {
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
        let root = Root::new(dir).unwrap();

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
            let found = root
                .get(path.as_bytes(), Instant::now())
                .map(|opened| match opened {
                    Opened::File(_) => "file",
                    Opened::Directory(_) => "directory",
                });
            assert_eq!(found, expected, "{path}");
        }
    }
}

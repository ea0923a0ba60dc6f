//! Files that are written as a whole.
//!
//! The path is a user's: it may name a device, a FIFO, a stream of this process such as
//! `/dev/stdout` or a process substitution, or a link to any of them. Only a plain file is
//! replaced.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use tempfile::NamedTempFile;

/// The folder of this process's descriptors, which `/dev/fd`, `/dev/stdout` and process
/// substitutions lead to.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Symbolic links to follow, as in the kernel. After more of them, the kernel refuses the path.
const LINKS_MAX: usize = 40;
/// Mode of a new file, which the umask reduces.
const MODE: u32 = 0o666;
/// The bits of a mode that a replaced file keeps.
const MODE_BITS: u32 = 0o777;

/// Writes `bytes` to `output`. A plain file is replaced as a whole, so that a reader finds either
/// the old or the new content, also if writing fails; it keeps its mode and, where this process may
/// change it, its owner. Symbolic links are followed, and all else is written through.
///
/// A plain file that is a mount point, as in a container, cannot be replaced and is overwritten.
///
/// # Errors
///
/// `EISDIR` if `output` is a folder; the errors of opening and writing what is there, and of
/// creating and renaming a file in the folder of a plain file.
pub fn write_whole(output: &Path, bytes: &[u8]) -> io::Result<()> {
    match Place::of(output)? {
        Place::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        }
        Place::Stderr => io::stderr().write_all(bytes),
        Place::Stream(path) => {
            // Behind what others have written to a file that this process has open.
            let appends = fs::metadata(&path)?.is_file();
            let mut stream = File::options().write(true).append(appends).open(path)?;
            stream.write_all(bytes)
        }
        Place::Plain(path, found) => replace(&path, found.as_ref(), bytes),
    }
}

/// Checks that [`write_whole`] can write there, before the hours that lead to the content.
///
/// # Errors
///
/// `EISDIR` if `output` is a folder; the errors of opening a file, or of creating one.
pub fn check_output(output: &Path) -> io::Result<()> {
    match Place::of(output)? {
        Place::Stdout | Place::Stderr => Ok(()),
        // Opening a FIFO waits for its reader, who takes closing it for the end.
        Place::Stream(path) => Ok(access(path, Access::WRITE_OK)?),
        Place::Plain(path, found) => temporary(&path, found.as_ref())?.close(),
    }
}

/// The kind of output that a path leads to.
enum Place {
    Stdout,
    Stderr,
    /// An output that is written through, at this path.
    Stream(PathBuf),
    /// A plain file or none, at this path, which is no symbolic link.
    Plain(PathBuf, Option<Metadata>),
}

impl Place {
    fn of(output: &Path) -> io::Result<Place> {
        let named = follow(output);
        match descriptor(&named) {
            // Opening them anew would start at the beginning of a file, and fails for a socket.
            Some(1) => return Ok(Place::Stdout),
            Some(2) => return Ok(Place::Stderr),
            Some(_) => return Ok(Place::Stream(named)),
            None => {}
        }
        match fs::metadata(output) {
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => Ok(Place::Plain(named, Some(found))),
            Ok(_) => Ok(Place::Stream(output.to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Place::Plain(named, None)),
            Err(error) => Err(error),
        }
    }
}

/// Follows symbolic links, except those of descriptors, to a path that is none.
fn follow(output: &Path) -> PathBuf {
    let mut path = output.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(next) if descriptor(&path).is_none() => path = folder(&path).join(next),
            _ => break,
        }
    }
    path
}

/// Returns the number if the path is that of a descriptor of this process.
fn descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let all = fs::canonicalize(DESCRIPTORS).ok()?;
    (fs::canonicalize(folder(path)).ok()? == all).then_some(number)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn replace(path: &Path, found: Option<&Metadata>, bytes: &[u8]) -> io::Result<()> {
    let file = temporary(path, found)?;
    file.as_file().write_all(bytes)?;
    if let Some(found) = found {
        // Not permitted to everybody: then the file belongs to whoever has written it.
        let _ = fchown(file.as_file(), Some(found.uid()), Some(found.gid()));
        let mode = Permissions::from_mode(found.mode() & MODE_BITS);
        file.as_file().set_permissions(mode)?;
    }
    // A network's file system reports a full disk only here.
    file.as_file().sync_all()?;
    match file.persist(path) {
        Ok(_) => Ok(()),
        // A mount point can be written, but not replaced.
        Err(refused) if refused.error.kind() == ErrorKind::ResourceBusy => fs::write(path, bytes),
        Err(refused) => Err(refused.error),
    }
}

/// Creates a file beside a plain file, to replace it.
fn temporary(path: &Path, found: Option<&Metadata>) -> io::Result<NamedTempFile> {
    if found.is_some() {
        // A file that must not be written must not be replaced either.
        File::options().write(true).open(path)?;
    }
    // A temporary file is private by default, unlike other files written here.
    let mode = found.map_or(MODE, |found| found.mode() & MODE_BITS);
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::thread;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::geteuid;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & MODE_BITS
    }

    #[test]
    fn a_plain_file_is_replaced_and_keeps_mode_and_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, b"first").unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "").unwrap();
        assert_eq!(mode(&path), mode(&other), "no usual mode");
        for (bits, text) in [(0o600, "second"), (0o666, "third"), (0o640, "fourth")] {
            fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
            if geteuid().is_root() {
                fchown(File::open(&path).unwrap(), Some(1), Some(2)).unwrap();
            }
            let before = fs::metadata(&path).unwrap();
            check_output(&path).unwrap();
            write_whole(&path, text.as_bytes()).unwrap();
            let after = fs::metadata(&path).unwrap();
            assert_eq!((read(&path).as_str(), mode(&path)), (text, bits));
            assert_ne!(before.ino(), after.ino(), "overwritten in place");
            assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn a_protected_file_or_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "kept").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        let refused = |path: &Path| {
            let kinds = [check_output(path), write_whole(path, b"new")]
                .map(|result| result.unwrap_err().kind());
            assert_eq!(kinds[0], kinds[1]);
            kinds[0]
        };
        assert_eq!(refused(folder.path()), ErrorKind::IsADirectory);
        assert_eq!(refused(&path.join("below")), ErrorKind::NotADirectory);
        if geteuid().is_root() {
            eprintln!("skipped: root may write each file");
        } else {
            assert_eq!(refused(&path), ErrorKind::PermissionDenied);
        }
        assert_eq!(read(&path), "kept");
    }

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        symlink("../file", at("sub/near")).unwrap();
        symlink("sub/near", at("far")).unwrap();
        symlink(at("loop"), at("loop")).unwrap();
        for text in ["created", "replaced"] {
            check_output(&at("far")).unwrap();
            write_whole(&at("far"), text.as_bytes()).unwrap();
            assert_eq!(read(&at("file")), text);
            for link in ["far", "sub/near"] {
                assert!(at(link).is_symlink(), "{link} was replaced");
            }
            assert_eq!(fs::read_dir(at("sub")).unwrap().count(), 1);
        }
        assert!(check_output(&at("loop")).is_err());
        assert!(write_whole(&at("loop"), b"").is_err());
    }

    #[test]
    fn a_device_or_fifo_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("/dev/null", at("null")).unwrap();
        write_whole(&at("null"), b"text").unwrap();
        assert!(at("null").is_symlink());

        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        check_output(&at("fifo")).unwrap();
        let reader = {
            let fifo = at("fifo");
            thread::spawn(move || read(&fifo))
        };
        write_whole(&at("fifo"), b"text").unwrap();
        assert!(fs::metadata(at("fifo")).unwrap().file_type().is_fifo());
        assert_eq!(reader.join().unwrap(), "text");
    }

    #[test]
    fn an_open_descriptor_is_written_through() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().unwrap();
        for folder in ["/dev/fd", DESCRIPTORS] {
            let path = Path::new(folder).join(writer.as_raw_fd().to_string());
            check_output(&path).unwrap();
            write_whole(&path, b"text").unwrap();
            let mut found = [0; 4];
            io::Read::read_exact(&mut reader, &mut found).unwrap();
            assert_eq!(&found, b"text");
        }
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(b"one,").unwrap();
        let path = Path::new("/dev/fd").join(file.as_file().as_raw_fd().to_string());
        write_whole(&path, b"two").unwrap();
        assert_eq!(read(file.path()), "one,two");
    }
}

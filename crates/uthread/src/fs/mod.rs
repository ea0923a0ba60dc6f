//! Files by the names of `std::fs`.
//!
//! In a fiber opening, reading, writing and syncing go through the driver; what no driver can runs
//! on a thread of the pool. Outside the runtime all of it blocks the thread. [`Metadata`] and the
//! other plain types are `std`'s own.

mod directory;
mod file;
mod options;
mod read_dir;

use std::io::{self, Read, Write};
use std::path::Path;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions};

pub use directory::Dir;
pub use file::File;
pub use options::OpenOptions;
pub use read_dir::{DirEntry, ReadDir, read_dir};

/// What is known of the file at `path`; symbolic links are followed.
///
/// # Errors
///
/// The kernel's: `ENOENT`, `EACCES` and so on.
///
/// ```
/// let bytes = uthread::spawn(|| uthread::fs::metadata("Cargo.toml").map(|file| file.len()));
/// assert!(bytes.join().unwrap()? > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    options::open_for_metadata(path.as_ref(), true)?.metadata()
}

/// What is known of the file at `path`, or of the link itself where it is a symbolic one.
///
/// # Errors
///
/// As [`metadata`].
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    options::open_for_metadata(path.as_ref(), false)?.metadata()
}

/// All bytes of a file.
///
/// # Errors
///
/// The kernel's.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All of a file as text.
///
/// # Errors
///
/// The kernel's; `InvalidData` where it is not UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Makes `contents` all of a file, which is created or emptied first.
///
/// # Errors
///
/// The kernel's: `ENOSPC` with part of the contents written.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

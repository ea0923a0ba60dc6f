//! Functions on whole files: reading, writing and copying all contents.

use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::{File, OpenOptions};
use crate::sched::features::offload;

/// Growth of the buffer when a file is longer than its metadata says. Files in `/proc` report a
/// length of zero, and most are shorter than this.
const GROWTH_BYTES: usize = 8 * 1024;

/// Number of bytes copied per call. A copy cannot be interrupted; this takes some 100 ms on a slow
/// disk, after which a cancelled fiber stops.
const COPY_BYTES: u64 = 16 * 1024 * 1024;

/// Reads the entire contents of a file.
///
/// # Errors
///
/// The errors of [`File::open`]; `OutOfMemory` if the contents do not fit into memory; any error
/// that `read(2)` reports.
///
/// ```
/// let data: Vec<u8> = uthread::fs::read("Cargo.toml")?;
/// assert!(data.starts_with(b"[package]"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the entire contents of a file as a string.
///
/// # Errors
///
/// `InvalidData` if the contents are not valid UTF-8; the errors of [`read`].
///
/// ```
/// let message: String = uthread::fs::read_to_string("Cargo.toml")?;
/// assert!(message.starts_with("[package]"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes `contents` to a file, creating it if it does not exist and replacing its contents if it
/// does.
///
/// # Errors
///
/// The errors of [`File::create`]; `StorageFull` if the disk is full; any other error that
/// `write(2)` reports. After an error, part of `contents` may have been written.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// fs::write(directory.path().join("foo.txt"), b"Lorem ipsum")?;
/// fs::write(directory.path().join("bar.txt"), "dolor sit")?;
/// assert_eq!(fs::read(directory.path().join("bar.txt"))?, b"dolor sit");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// Copies the contents and permissions of a file to another one, creating or replacing it. Returns
/// the number of bytes copied.
///
/// The kernel copies the data, or lets both files share the same disk blocks, where the file
/// systems support it.
///
/// # Errors
///
/// `InvalidInput` if `from` is not a regular file; the errors of [`File::open`] and
/// [`File::create`]; any error that `copy_file_range(2)`, `read(2)` or `write(2)` reports. After an
/// error, part of the contents may have been copied.
///
/// ```
/// use uthread::fs;
///
/// let directory = tempfile::tempdir()?;
/// let bytes = fs::copy("Cargo.toml", directory.path().join("bar.txt"))?;
/// assert_eq!(bytes, fs::metadata("Cargo.toml")?.len());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let from = File::open(from)?;
    let metadata = from.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the source path is neither a regular file nor a symlink to a regular file",
        ));
    }
    let mut create = OpenOptions::new();
    create.write(true).create(true).truncate(true);
    let to = create.mode(metadata.permissions().mode()).open(to)?;
    // Set explicitly, as the umask has been applied to the new file. The permissions of a device
    // are kept.
    if to.metadata()?.is_file() {
        to.set_permissions(metadata.permissions())?;
    }
    let mut copied = 0;
    loop {
        // `std` uses the best system call that the kernel offers for two files.
        let count =
            offload::perform(|| io::copy(&mut (&from.inner).take(COPY_BYTES), &mut &to.inner))?;
        if count == 0 {
            return Ok(copied);
        }
        copied += count;
    }
}

impl File {
    /// Reads to the end of the file: first as many bytes as its length says, then any added since.
    pub(super) fn read_rest(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let length = self.metadata()?.len();
        let here = (&self.inner).stream_position().unwrap_or(0);
        let rest = usize::try_from(length.saturating_sub(here)).unwrap_or(usize::MAX);
        let start = bytes.len();
        // One byte more than expected, so that a read that fills the buffer is distinguished from
        // the end of the file. Files in `/proc` report a length of zero, and some return their
        // contents only to a first read that is large enough.
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

    /// Reads to the end of the file and appends the contents to `text`, or nothing if they are not
    /// valid UTF-8.
    pub(super) fn read_rest_as_text(&self, text: &mut String) -> io::Result<usize> {
        let mut bytes = Vec::new();
        let count = self.read_rest(&mut bytes)?;
        let read = String::from_utf8(bytes).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "stream did not contain valid UTF-8",
            )
        })?;
        if text.is_empty() {
            *text = read;
        } else {
            text.push_str(&read);
        }
        Ok(count)
    }
}

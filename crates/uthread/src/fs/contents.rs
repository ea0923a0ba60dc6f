//! Whole files: all there is to read, all there is to be.

use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::{File, OpenOptions};
use crate::sched::offload;

/// By how much a read to the end goes on where the file turned out longer than it said: files of
/// `/proc` say zero and are mostly shorter than this.
const GROWTH_BYTES: usize = 8 * 1024;

/// Bytes copied by one call, which nothing interrupts: some 100 ms on a slow disk, so that a cancelled fiber ends soon.
const COPY_BYTES: u64 = 16 * 1024 * 1024;

/// All bytes of a file.
///
/// # Errors
///
/// The kernel's.
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

/// All of a file as text.
///
/// # Errors
///
/// The kernel's; `InvalidData` where it is not UTF-8.
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

/// Makes `contents` all of a file, which is created or emptied first.
///
/// # Errors
///
/// The kernel's: `ENOSPC` with part of the contents written.
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

/// Copies contents and permissions of a file to another one, which is created or emptied first; returns the bytes
/// copied. The kernel copies, or lets both share what is on the disk, where the file systems can.
///
/// # Errors
///
/// The kernel's, of either file, with part of the contents copied; `InvalidInput` where `from` is no regular file.
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
    // Else the process's umask would have a say. A device keeps its own.
    if to.metadata()?.is_file() {
        to.set_permissions(metadata.permissions())?;
    }
    let mut copied = 0;
    loop {
        // `std` knows what the kernel offers between two files of its own.
        let count =
            offload::perform(|| io::copy(&mut (&from.inner).take(COPY_BYTES), &mut &to.inner))?;
        if count == 0 {
            return Ok(copied);
        }
        copied += count;
    }
}

impl File {
    /// Reads to the end: at once what there is by the file's length, then what came since.
    pub(super) fn read_rest(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let length = self.metadata()?.len();
        let here = (&self.inner).stream_position().unwrap_or(0);
        let rest = usize::try_from(length.saturating_sub(here)).unwrap_or(usize::MAX);
        let start = bytes.len();
        // One byte more, so that a read cut off by the buffer is told from the end.
        // Files of `/proc` say zero, and some of them give their all to the first read or nothing.
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

    /// The same as text, which is appended only whole.
    pub(super) fn read_rest_as_text(&self, text: &mut String) -> io::Result<usize> {
        let mut bytes = Vec::new();
        let count = self.read_rest(&mut bytes)?;
        let read = String::from_utf8(bytes).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "stream did not contain valid UTF-8",
            )
        })?;
        match text.is_empty() {
            true => *text = read,
            false => text.push_str(&read),
        }
        Ok(count)
    }
}

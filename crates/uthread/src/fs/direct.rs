//! Reads and writes past the page cache (`O_DIRECT`), and the memory they need.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::param::page_size;

use super::File;

/// What a file asks of reads and writes past the page cache: see the example of [`AlignedBuffer::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectAlignment {
    memory: usize,
    offset: usize,
}

impl DirectAlignment {
    /// Of the address of a buffer, in bytes. See the example of [`AlignedBuffer::new`].
    #[must_use]
    pub fn memory(self) -> usize {
        self.memory
    }

    /// Of offsets in the file and lengths of buffers, in bytes. See the example of [`AlignedBuffer::new`].
    #[must_use]
    pub fn offset(self) -> usize {
        self.offset
    }
}

impl File {
    /// How buffers, offsets and lengths must be aligned for this file where it was
    /// [opened past the page cache](super::OpenOptions::direct): else the kernel refuses them with `EINVAL`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] where kernel (before 6.1) or file system do not tell. So do `tmpfs` and others
    /// in memory, which permit `O_DIRECT` and use the page cache all the same: there is nothing to measure.
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// match File::open("Cargo.toml")?.direct_alignment() {
    ///     Ok(alignment) => assert!(alignment.offset().is_power_of_two()),
    ///     Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn direct_alignment(&self) -> io::Result<DirectAlignment> {
        let asked = StatxFlags::DIOALIGN;
        let found = rustix::fs::statx(&self.inner, c"", AtFlags::EMPTY_PATH, asked)?;
        let memory = found.stx_dio_mem_align as usize;
        let offset = found.stx_dio_offset_align as usize;
        let is_told = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        if !(is_told && memory.is_power_of_two() && offset.is_power_of_two()) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system does not tell how this file is read and written past the page cache: \
                 use the page cache, or a file on a disk",
            ));
        }
        Ok(DirectAlignment { memory, offset })
    }
}

/// Memory for reads and writes past the page cache: a slice of bytes, aligned as a file asks, all zeroes at first. It starts
/// at a page, so that the disk fills as few of them as can be.
///
/// ```
/// use std::os::unix::fs::FileExt;
/// use uthread::fs::{AlignedBuffer, OpenOptions};
///
/// let Ok(file) = OpenOptions::new().read(true).direct(true).open("Cargo.toml") else {
///     return Ok(()); // The file system has no such thing.
/// };
/// let Ok(mut buffer) = AlignedBuffer::for_file(&file, 4096) else {
///     return Ok(()); // It has, and uses the page cache.
/// };
/// let count = file.read_at(&mut buffer, 0)?;
/// assert!(buffer[..count].starts_with(b"[package]"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct AlignedBuffer {
    /// As much more than the slice as it takes to start at an aligned address. Never grows, so it never moves.
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    /// As many bytes as asked for, rounded up to what `alignment` permits.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`].
    ///
    /// ```
    /// use uthread::fs::{AlignedBuffer, File};
    ///
    /// if let Ok(alignment) = File::open("Cargo.toml")?.direct_alignment() {
    ///     let buffer = AlignedBuffer::new(alignment, 1)?;
    ///     assert_eq!(buffer.len(), alignment.offset());
    ///     assert!(buffer.as_ptr().addr().is_multiple_of(alignment.memory().max(4096)));
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(alignment: DirectAlignment, bytes: usize) -> io::Result<AlignedBuffer> {
        let rounded = bytes.checked_next_multiple_of(alignment.offset);
        let bytes = rounded.ok_or(io::ErrorKind::OutOfMemory)?;
        // A page that is touched in part costs the disk a segment more.
        let boundary = alignment.memory.max(page_size());
        let all = bytes.checked_add(boundary);
        let all = all.ok_or(io::ErrorKind::OutOfMemory)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(all)?;
        memory.resize(all, 0);
        let start = memory.as_ptr().align_offset(boundary);
        Ok(AlignedBuffer {
            memory,
            start,
            bytes,
        })
    }

    /// The same with the alignment of this file, as in the example of [`AlignedBuffer`].
    ///
    /// # Errors
    ///
    /// As [`File::direct_alignment`] and [`new`](AlignedBuffer::new).
    pub fn for_file(file: &File, bytes: usize) -> io::Result<AlignedBuffer> {
        AlignedBuffer::new(file.direct_alignment()?, bytes)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.bytes]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.bytes]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AlignedBuffer")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

//! Direct I/O (`O_DIRECT`): reads and writes that bypass the page cache, and the aligned memory
//! they need.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::slice;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::param::page_size;

use super::File;
use crate::resource::pages::Pages;

/// The alignment that direct I/O on a file requires. See the example of [`AlignedBuffer::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectAlignment {
    memory: usize,
    offset: usize,
}

impl DirectAlignment {
    /// Returns the required alignment of buffer addresses, in bytes. See the example of
    /// [`AlignedBuffer::new`].
    #[must_use]
    pub fn memory(self) -> usize {
        self.memory
    }

    /// Returns the required alignment of file offsets and buffer lengths, in bytes. See the example
    /// of [`AlignedBuffer::new`].
    #[must_use]
    pub fn offset(self) -> usize {
        self.offset
    }
}

impl File {
    /// Returns the alignment that direct I/O on this file requires. The kernel refuses other
    /// buffers, offsets and lengths with `EINVAL` if the file was opened with
    /// [`OpenOptions::direct`](super::OpenOptions::direct).
    ///
    /// # Errors
    ///
    /// `Unsupported` if the kernel (before 6.1) or the file system does not report the alignment.
    /// In-memory file systems such as `tmpfs` do not: they accept `O_DIRECT` but use the page
    /// cache. Any other error that `statx(2)` reports.
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

/// A byte buffer with the alignment that direct I/O requires, initially all zeroes. It dereferences
/// to a slice and starts at a page boundary, so that it spans as few pages as possible. A page
/// takes memory only once it is touched.
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
    /// Longer than the slice by the bytes needed to reach an aligned address.
    memory: Pages,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    /// Allocates a buffer of at least `bytes` bytes, rounded up to a multiple of
    /// [`alignment.offset()`](DirectAlignment::offset).
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the memory cannot be allocated.
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
        // Pages are aligned to the size of a page.
        let beyond_page = alignment.memory.saturating_sub(page_size());
        let all = bytes.checked_add(beyond_page);
        let memory = Pages::new(all.ok_or(io::ErrorKind::OutOfMemory)?)?;
        let start = memory.start().align_offset(alignment.memory);
        Ok(AlignedBuffer {
            memory,
            start,
            bytes,
        })
    }

    /// Allocates a buffer of at least `bytes` bytes, rounded up to whole pages.
    ///
    /// Reads through the page cache profit, too: the kernel copies faster to the beginning of a
    /// page.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the memory cannot be allocated.
    ///
    /// ```
    /// use uthread::fs::AlignedBuffer;
    ///
    /// let buffer = AlignedBuffer::of_pages(1)?;
    /// assert!(buffer.len() >= 4096 && buffer.as_ptr().addr().is_multiple_of(4096));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn of_pages(bytes: usize) -> io::Result<AlignedBuffer> {
        let page = DirectAlignment {
            memory: page_size(),
            offset: page_size(),
        };
        AlignedBuffer::new(page, bytes)
    }

    /// Allocates a buffer with the alignment that `file` requires. See the example of
    /// [`AlignedBuffer`].
    ///
    /// # Errors
    ///
    /// The errors of [`File::direct_alignment`] and of [`new`](AlignedBuffer::new).
    pub fn for_file(file: &File, bytes: usize) -> io::Result<AlignedBuffer> {
        AlignedBuffer::new(file.direct_alignment()?, bytes)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[allow(unsafe_code, reason = "memory of its own")]
    fn deref(&self) -> &[u8] {
        let start = self.memory.start().as_ptr().wrapping_add(self.start);
        // SAFETY: the mapping has so many initialized bytes there, and is lent only by borrows of
        // the buffer.
        unsafe { slice::from_raw_parts(start, self.bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    #[allow(unsafe_code, reason = "memory of its own")]
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.memory.start().as_ptr().wrapping_add(self.start);
        // SAFETY: as for `deref`, and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(start, self.bytes) }
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

//! Files, memory and slots for files that are registered with the manager's ring.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::slice;
use std::sync::Arc;

use uthread::fs::File;
use uthread::ring::{FileSlot, RegisteredBuffer, RegisteredFile};

use crate::completion::errno;

/// A file of a ring, with the descriptor that it owns.
pub(crate) type SharedFile = Arc<RegisteredFile<File>>;

/// Registers a file in the calling fiber.
pub(crate) fn file(fd: OwnedFd) -> SharedFile {
    Arc::new(RegisteredFile::new(File::from(fd)))
}

/// Allocates memory and registers it, in the calling fiber.
///
/// # Errors
///
/// `OutOfMemory` as [`RegisteredBuffer::new`].
pub(crate) fn memory(bytes: usize) -> io::Result<RegisteredBuffer> {
    RegisteredBuffer::new(bytes)
}

/// Reserves slots in the calling fiber: all or none.
pub(crate) fn slots(count: u32) -> Option<Vec<FileSlot>> {
    (0..count).map(|_| FileSlot::reserve()).collect()
}

/// A read from or a write to a registered file.
pub(crate) struct Access {
    file: SharedFile,
    bytes: *mut u8,
    length: usize,
    offset: u64,
    writes: bool,
}

#[allow(
    unsafe_code,
    reason = "a pointer that the program gives up to the manager"
)]
// SAFETY: the memory is the manager's until the completion, by the contract of `new`.
unsafe impl Send for Access {}

impl Access {
    /// Describes an access.
    ///
    /// # Safety
    ///
    /// `bytes` are `length` initialized bytes. They remain valid until the completion, and are not
    /// accessed otherwise.
    #[allow(unsafe_code, reason = "a contract that the compiler cannot check")]
    pub(crate) unsafe fn new(
        file: &SharedFile,
        bytes: *mut u8,
        length: usize,
        offset: u64,
        writes: bool,
    ) -> Access {
        Access {
            file: Arc::clone(file),
            bytes,
            length,
            offset,
            writes,
        }
    }

    /// Carries it out in the calling fiber, and returns its result.
    #[allow(unsafe_code, reason = "memory of the program")]
    pub(crate) fn perform(self) -> i32 {
        let result = if self.writes {
            // SAFETY: the contract of `new`.
            let bytes = unsafe { slice::from_raw_parts(self.bytes, self.length) };
            self.file.write_at(bytes, self.offset)
        } else {
            // SAFETY: the contract of `new`.
            let bytes = unsafe { slice::from_raw_parts_mut(self.bytes, self.length) };
            self.file.read_at(bytes, self.offset)
        };
        result.map_or_else(|error| errno(&error), |count| count as i32)
    }
}

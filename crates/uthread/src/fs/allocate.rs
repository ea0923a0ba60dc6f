//! Room on the disk for a file, and holes in it.

use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::File;
use crate::sched::offload;

/// What becomes of a range of a file; see the example of [`File::allocate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allocation {
    /// It gets room on the disk, and the file is as long as that at least. What is in it stays.
    Extend,
    /// It gets room on the disk, but the length stays: for what will be appended.
    Reserve,
    /// It gets room on the disk, reads as zeroes, and the file is as long as that at least.
    Zero,
    /// It becomes a hole: it reads as zeroes and takes no room. The length stays.
    Hole,
    /// It is taken out, and what follows moves up: whole blocks of the file system only.
    Collapse,
    /// A hole is put in, and what was there moves back: whole blocks of the file system only.
    Insert,
}

impl File {
    /// Changes which of `bytes` bytes from `offset` on have room on the disk (`fallocate`): what has been given room will
    /// not fail for lack of it later.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOSPC`; `EOPNOTSUPP` where the file system has no such thing; `EINVAL` for no bytes, and for a
    /// part of a block where whole ones are needed.
    ///
    /// ```
    /// use uthread::fs::{Allocation, File};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let file = File::create(directory.path().join("database"))?;
    /// file.allocate(0, 1 << 20, Allocation::Extend)?;
    /// assert_eq!(file.metadata()?.len(), 1 << 20);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn allocate(&self, offset: u64, bytes: u64, allocation: Allocation) -> io::Result<()> {
        let flags = match allocation {
            Allocation::Extend => FallocateFlags::empty(),
            Allocation::Reserve => FallocateFlags::KEEP_SIZE,
            Allocation::Zero => FallocateFlags::ZERO_RANGE,
            Allocation::Hole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Allocation::Collapse => FallocateFlags::COLLAPSE_RANGE,
            Allocation::Insert => FallocateFlags::INSERT_RANGE,
        };
        loop {
            let result =
                offload::perform(|| Ok(rustix::fs::fallocate(&self.inner, flags, offset, bytes)));
            match result? {
                // It refuses if the signal was a cancellation's.
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

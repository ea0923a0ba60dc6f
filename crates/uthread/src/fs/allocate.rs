//! Allocating disk space for a file, and punching holes (`fallocate`).

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::File;
use crate::sched::caller;
use crate::sched::features::offload;

/// How [`File::allocate`] changes a range of a file. See the example there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allocation {
    /// Allocates disk space and extends the file to the end of the range if it is shorter. Existing
    /// data is kept.
    Extend,
    /// Allocates disk space without changing the length of the file, for data that is appended
    /// later.
    Reserve,
    /// Allocates disk space that reads as zeroes, and extends the file to the end of the range if
    /// it is shorter.
    Zero,
    /// Frees the disk space of the range, which then reads as zeroes. The length of the file does
    /// not change.
    Hole,
    /// Removes the range; the data after it moves up. The range must consist of whole file-system
    /// blocks.
    Collapse,
    /// Inserts a hole; the data from `offset` on moves back. The range must consist of whole
    /// file-system blocks.
    Insert,
}

impl File {
    /// Allocates or frees disk space for the range of `bytes` bytes at `offset` (`fallocate`).
    ///
    /// Later writes to an allocated range do not fail for lack of disk space.
    ///
    /// # Errors
    ///
    /// `StorageFull` if the disk has not enough space; `Unsupported` (`EOPNOTSUPP`) if the file
    /// system does not support the operation; `InvalidInput` (`EINVAL`) if `bytes` is zero or the
    /// range does not consist of whole blocks where that is required; any other error that
    /// `fallocate(2)` reports.
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
        if let Some(world) = caller::world() {
            world.allocate(self.as_raw_fd(), flags.bits(), offset, bytes)?;
        }
        loop {
            let result =
                offload::perform(|| Ok(rustix::fs::fallocate(&self.inner, flags, offset, bytes)));
            match result? {
                // Retried: a call that is interrupted because the fiber is cancelled fails with
                // `ECANCELED` instead.
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

//! Buffers that belong to the kernel until it has received data into them.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use crate::resource::buffer_group::{BufferGroup, Filled};
use crate::sched::features::ring;

/// The maximum number of buffers that the kernel accepts.
const COUNT_MAX: u16 = 1 << 15;

/// A ring of receive buffers, which the kernel assigns to requests when data arrives.
///
/// A few buffers thus serve many connections, whereas each pending read needs a buffer of its own.
/// Only fibers on the worker that created the ring use it: create one on each worker. Fibers on
/// other workers and drivers receive into memory of their own.
///
/// The memory remains valid until the kernel no longer needs it, in whatever order values are
/// dropped or leaked. See the example of [`receive()`](super::receive()).
pub struct BufferRing {
    /// `None` if there is no ring, or if it does not support such buffers.
    group: Option<Arc<BufferGroup>>,
    count: u16,
    size: u32,
}

impl BufferRing {
    /// Creates `count` buffers of `size` bytes each. A page takes memory only once data was
    /// received into it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `count` is not a power of two of at most 32768, or if `size` is zero or
    /// more than 1 GiB.
    ///
    /// ```
    /// let buffers = uthread::ring::BufferRing::new(64, 4096)?;
    /// assert!(uthread::ring::BufferRing::new(3, 4096).is_err());
    /// # drop(buffers);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(count: u16, size: usize) -> io::Result<BufferRing> {
        const SIZE_MAX: usize = 1 << 30;
        let refused = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if !count.is_power_of_two() || count > COUNT_MAX {
            return refused("the count of buffers has to be a power of two up to 32,768");
        }
        if !(1..=SIZE_MAX).contains(&size) {
            return refused("the size of buffers has to be from 1 byte to 1 GiB");
        }
        let size = size as u32;
        let group = ring::register_buffer_group(count, size);
        Ok(BufferRing { group, count, size })
    }

    /// Returns the group of buffers if it belongs to the ring of the caller's worker.
    pub(super) fn group(&self) -> Option<&Arc<BufferGroup>> {
        self.group
            .as_ref()
            .filter(|group| ring::owns_buffer_group(group))
    }

    pub(super) fn size(&self) -> usize {
        self.size as usize
    }
}

impl fmt::Debug for BufferRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BufferRing")
            .field("count", &self.count)
            .field("size", &self.size)
            .field("lent", &self.group.is_some())
            .finish()
    }
}

/// A chunk of received bytes. Dropping it returns its buffer to the kernel. If no buffer is left
/// because many chunks are kept, further chunks are received into memory of their own.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use uthread::ring::{self, BufferRing, Chunk};
///
/// uthread::run(|| {
///     let (socket, mut peer) = UnixStream::pair()?;
///     peer.write_all(b"a line\n")?;
///     let buffers = BufferRing::new(8, 4096)?;
///     let chunk: Chunk = ring::receive(&socket, &buffers).next().unwrap()?;
///     assert!(chunk.ends_with(b"\n"));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Chunk(pub(super) Bytes);

pub(super) enum Bytes {
    Lent(Filled),
    Own(Vec<u8>),
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Lent(filled) => filled.bytes(),
            Bytes::Own(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Chunk").field(&&**self).finish()
    }
}

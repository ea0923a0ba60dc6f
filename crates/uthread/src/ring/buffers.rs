//! Buffers that are the kernel's until something has arrived in them.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use crate::resource::buffer_group::{BufferGroup, Filled};
use crate::sched::ring;

/// The kernel takes no more.
const COUNT_MAX: u16 = 1 << 15;

/// Buffers by which the ring of a worker receives: whoever has nothing to receive has none of them.
///
/// The kernel fills a buffer only when something has arrived, so that a few serve many connections, where each read
/// would need one of its own. They are used by fibers on the worker of the one that has made them: where fibers stay
/// ([`migrating`](crate::Builder::migrating) says more), make one on each. Other fibers, and other drivers, receive
/// into buffers of their own.
///
/// The memory stays until the kernel needs it no more, whatever is dropped first, or leaked. See the example of
/// [`receive()`](super::receive()).
pub struct BufferRing {
    /// None where there is no ring, or it does not take it.
    group: Option<Arc<BufferGroup>>,
    count: u16,
    size: u32,
}

impl BufferRing {
    /// So many buffers of `size` bytes each. A page of memory is taken once something was received into it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) where the count is not a power of two up to 32,768, or the size is
    /// zero or more than 1 GiB.
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

    /// The group, if the ring of the caller's worker has it.
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

/// Bytes that were received. Dropping it gives the buffer back: whoever keeps many leaves the kernel without, and then
/// each receives into memory of its own.
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

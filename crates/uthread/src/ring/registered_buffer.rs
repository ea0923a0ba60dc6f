//! Memory registered with a ring.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use crate::resource::pages::Pages;
use crate::resource::registration::Registration;
use crate::sched::features::ring;

/// A byte slice that is registered with the ring of a worker.
///
/// The kernel looks up and locks the pages of registered memory once, instead of for each read and
/// write of a file. [Direct I/O](crate::fs::OpenOptions::direct) gains most; reads from the page
/// cache gain nothing.
///
/// Use it like any slice, whole or in part, with a [`File`](crate::fs::File) or a pipe. It starts
/// at a page boundary, as direct I/O requires, and is initially all zeroes. The registration
/// belongs to the worker on which the buffer was created: on other workers, threads and drivers,
/// the calls work as with any memory.
///
/// Registered memory is locked and counts against the limit of the process (`ulimit -l`). If the
/// limit is too low, if the ring has 256 such buffers, or for more than 1 GiB, the memory is not
/// registered; [`is_registered`](RegisteredBuffer::is_registered) reports this.
///
/// ```
/// use std::os::unix::fs::FileExt;
/// use uthread::{fs::File, ring::RegisteredBuffer};
///
/// uthread::run(|| {
///     let file = File::open("Cargo.toml")?;
///     let mut buffer = RegisteredBuffer::new(64 * 1024)?;
///     let count = file.read_at(&mut buffer, 0)?;
///     assert!(buffer[..count].starts_with(b"[package]"));
///     file.read_exact_at(&mut buffer[..7], 1)?;
///     assert!(buffer.starts_with(b"package"));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A read borrows the buffer exclusively until the call has returned:
///
/// ```compile_fail,E0505
/// use std::os::unix::fs::FileExt;
///
/// let file = uthread::fs::File::open("Cargo.toml").unwrap();
/// let mut buffer = uthread::ring::RegisteredBuffer::new(4096).unwrap();
/// let bytes = &mut buffer[..];
/// uthread::scope(|scope| {
///     scope.spawn(|| file.read_at(bytes, 0));
///     drop(buffer);
/// });
/// ```
///
/// ```compile_fail,E0499
/// use std::os::unix::fs::FileExt;
///
/// let file = uthread::fs::File::open("Cargo.toml").unwrap();
/// let mut buffer = uthread::ring::RegisteredBuffer::new(4096).unwrap();
/// uthread::scope(|scope| {
///     scope.spawn(|| file.read_at(&mut buffer, 0));
///     scope.spawn(|| file.read_at(&mut buffer, 0));
/// });
/// ```
pub struct RegisteredBuffer {
    memory: Memory,
    length: usize,
}

enum Memory {
    Registered(Registration),
    Own(Pages),
}

impl RegisteredBuffer {
    /// Allocates a buffer of `bytes` bytes, and registers it if possible.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` (`ENOMEM`) if the memory cannot be allocated.
    ///
    /// ```
    /// let buffer = uthread::ring::RegisteredBuffer::new(100)?;
    /// assert_eq!(*buffer, [0; 100]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(bytes: usize) -> io::Result<RegisteredBuffer> {
        let memory = match ring::register_buffer(bytes) {
            Some(registration) => Memory::Registered(registration),
            None => Memory::Own(Pages::new(bytes)?),
        };
        Ok(RegisteredBuffer {
            memory,
            length: bytes,
        })
    }

    /// Returns `true` if the memory is registered with a ring.
    ///
    /// ```
    /// let buffer = uthread::ring::RegisteredBuffer::new(100)?;
    /// assert!(!buffer.is_registered(), "no fiber");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_registered(&self) -> bool {
        matches!(self.memory, Memory::Registered(_))
    }

    fn start(&self) -> NonNull<u8> {
        match &self.memory {
            Memory::Registered(registration) => registration.start(),
            Memory::Own(pages) => pages.start(),
        }
    }
}

impl Deref for RegisteredBuffer {
    type Target = [u8];

    #[allow(unsafe_code, reason = "a slice of a mapping that it owns")]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is owned exclusively, initialized with zeroes, and `length` bytes
        // long. The kernel accesses it only during calls that borrow the slice.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.length) }
    }
}

impl DerefMut for RegisteredBuffer {
    #[allow(unsafe_code, reason = "a slice of a mapping that it owns")]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for RegisteredBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for RegisteredBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for RegisteredBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RegisteredBuffer")
            .field("bytes", &self.length)
            .field("registered", &self.is_registered())
            .finish()
    }
}

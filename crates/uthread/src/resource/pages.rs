//! Page-aligned memory that can be lent to the kernel.

use std::io;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// A mapping of whole pages, initially zero. A page takes memory only once it is touched.
pub(crate) struct Pages {
    start: NonNull<u8>,
    length: usize,
}

#[allow(unsafe_code, reason = "memory of its own")]
// SAFETY: a mapping owns its memory like a box. Its users have to synchronize accesses.
unsafe impl Send for Pages {}
#[allow(unsafe_code, reason = "memory of its own")]
// SAFETY: as for `Send`.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the memory cannot be mapped.
    pub(crate) fn new(bytes: usize) -> io::Result<Pages> {
        let length = bytes.max(1);
        let length = length.checked_next_multiple_of(rustix::param::page_size());
        let length = length.ok_or(Errno::NOMEM)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        #[allow(unsafe_code, reason = "a new mapping")]
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
        let start = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE)
        }?;
        let start = NonNull::new(start.cast()).expect("nothing is mapped at zero");
        Ok(Pages { start, length })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pages {
    #[allow(unsafe_code, reason = "the end of the mapping")]
    fn drop(&mut self) {
        // SAFETY: `new` has mapped it with this length, and nothing refers to it: borrows of it do
        // not outlive it.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be undone");
    }
}

//! Thread-local storage of its own for each fiber: a thread control block at the high end of its
//! stack, to which the thread pointer refers while the fiber runs.
//!
//! ```text
//!   worker   thread pointer = the block of the fiber    [`Tls::with`]
//!            switch to the fiber's stack .. the fiber runs .. switch back
//!            thread pointer = the worker's block
//!   end      destructors of the fiber's values          [`images::drop_values`], on the fiber's stack
//!            initial values for the next fiber          [`images::reset`]
//! ```
//!
//! [`donor`] makes blocks by [`task`]; [`keys`] and [`modules`] know what is in them;
//! [`thread_pointer`] has the register; [`record`] has what the library itself finds by it.

use std::io;

pub(crate) use self::thread_pointer::Way;

pub(crate) mod donor;
pub(crate) mod images;
mod keys;
pub(crate) mod modules;
pub(crate) mod record;
mod symbol;
mod task;
pub(crate) mod thread_pointer;

/// Number of bytes, at most, that a runner takes below a block, alignment included.
const RUNNER_BYTES: usize = 256;

/// How a worker gives its fibers thread-local storage of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tls {
    way: Way,
    /// The thread pointer of the worker.
    own: usize,
}

impl Tls {
    /// Returns the way of this machine, for the calling thread.
    pub(crate) fn of_worker() -> Tls {
        Tls {
            way: Way::best(),
            own: thread_pointer::get(),
        }
    }

    /// Calls `action` with another thread pointer.
    ///
    /// # Safety
    ///
    /// The caller is the worker, and the pointer is that of a fiber's block, which no other thread
    /// uses meanwhile. `action` accesses thread-local values only in functions that are not
    /// inlined.
    #[allow(unsafe_code, reason = "writing the thread pointer")]
    pub(crate) unsafe fn with<R>(self, pointer: usize, action: impl FnOnce() -> R) -> R {
        // SAFETY: by the caller's contract.
        unsafe { thread_pointer::set(self.way, pointer) };
        let result = action();
        // SAFETY: the worker's block is used by its thread alone.
        unsafe { thread_pointer::set(self.way, self.own) };
        result
    }
}

/// Returns the number of bytes by which a stack with a block is larger: whole pages, or none if
/// there can be no block.
pub(crate) fn block_size() -> usize {
    let bytes = donor::layout().map_or(0, |layout| layout.size + RUNNER_BYTES);
    bytes.next_multiple_of(rustix::param::page_size())
}

/// Returns how this machine writes the thread pointer, if fibers can have thread-local storage of
/// their own.
///
/// # Errors
///
/// `Unsupported` with the reason, if the CPU or the C library is not known; the errors of
/// `pthread_create(3)`.
pub(crate) fn support() -> io::Result<Way> {
    donor::layout()?;
    Ok(Way::best())
}

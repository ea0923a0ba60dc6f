//! Thread-local storage of its own for each fiber: a thread control block at the high end of its
//! stack, to which the thread pointer refers while the fiber runs.
//!
//! ```text
//!   worker   thread pointer = the block of the fiber    [`ThreadPointer::load`]
//!            switch to the fiber's stack .. the fiber runs .. switch back
//!            .. with the block of the same fiber, or of another one
//!            thread pointer = the thread's block         [`ThreadPointer::restore`]
//!   end      destructors of the fiber's values          [`images::drop_values`], on the fiber's stack
//!            initial values for the next fiber          [`images::reset`]
//! ```
//!
//! [`block`] is such a block, which [`made`] makes by what it has learned from blocks that
//! [`donor`] makes by [`task`]. [`keys`], [`locale`], [`modules`] and [`rseq`] know what is in one;
//! [`thread_pointer`] has the register; [`record`] has what the library itself finds by it, and
//! [`claim`] how a worker is taken from a fiber. [`thread_words`] has what does not belong to the
//! fiber, but to the thread. [`credentials`] lets glibc change the user of all threads.

use std::cell::Cell;
use std::io;

pub(crate) use self::thread_pointer::Way;
use self::thread_words::ThreadWords;

pub(crate) mod block;
pub(crate) mod claim;
mod credentials;
pub(crate) mod donor;
pub(crate) mod images;
mod keys;
mod locale;
mod made;
pub(crate) mod modules;
pub(crate) mod record;
mod rseq;
mod symbol;
mod task;
pub(crate) mod thread_pointer;
mod thread_words;

/// Number of bytes, at most, that a runner takes below a block, alignment included.
const RUNNER_BYTES: usize = 256;

/// The thread pointer of the thread that runs a worker. It is written only when another fiber runs:
/// the loop of the worker goes on with that of the fiber which has run last.
#[derive(Debug)]
pub(crate) struct ThreadPointer {
    way: Way,
    /// That of the thread itself.
    own: Cell<usize>,
    /// The present one.
    loaded: Cell<usize>,
    words: ThreadWords,
}

impl ThreadPointer {
    /// Returns that of the calling thread.
    pub(crate) fn of_thread() -> ThreadPointer {
        let own = thread_pointer::get();
        ThreadPointer {
            way: Way::best(),
            own: Cell::new(own),
            loaded: Cell::new(own),
            words: ThreadWords::get(),
        }
    }

    /// Becomes that of the calling thread, which runs the worker from now on.
    pub(crate) fn bind(&self) {
        let own = thread_pointer::get();
        self.own.set(own);
        self.loaded.set(own);
    }

    /// Returns the pointer of the thread itself.
    pub(crate) fn own(&self) -> usize {
        self.own.get()
    }

    /// Returns `true` if the thread has its own pointer.
    pub(crate) fn is_own(&self) -> bool {
        thread_pointer::get() == self.own.get()
    }

    /// Sets the pointer of a fiber.
    ///
    /// # Safety
    ///
    /// The caller is the worker, and the pointer is that of a fiber's block, which no other thread
    /// uses until another pointer is set. Until then the caller accesses thread-local values only
    /// in functions that are not inlined.
    #[inline]
    #[allow(unsafe_code, reason = "writing the thread pointer")]
    pub(crate) unsafe fn load(&self, pointer: usize) {
        let loaded = self.loaded.get();
        if loaded != pointer {
            self.loaded.set(pointer);
            // SAFETY: this thread alone uses the block of before; and by the caller's contract.
            unsafe { self.words.carry(loaded, pointer) };
            // SAFETY: by the caller's contract.
            unsafe { thread_pointer::set(self.way, pointer) };
        }
    }

    /// Sets the pointer of the thread itself.
    #[inline]
    #[allow(unsafe_code, reason = "writing the thread pointer")]
    pub(crate) fn restore(&self) {
        // SAFETY: the block of the thread is used by it alone.
        unsafe { self.load(self.own.get()) };
    }
}

/// Sets the thread pointer of the calling thread, after its worker was taken from it.
///
/// # Safety
///
/// The pointer is that of the calling thread.
#[allow(unsafe_code, reason = "writing the thread pointer")]
pub(crate) unsafe fn restore(pointer: usize) {
    // SAFETY: the thread alone uses the block of its fiber until that is handed back, and its own.
    unsafe { ThreadWords::get().carry(thread_pointer::get(), pointer) };
    // SAFETY: by the caller's contract.
    unsafe { thread_pointer::set(Way::best(), pointer) };
}

/// Returns the number of bytes by which a stack with a block is larger: whole pages, or none if
/// there can be no block.
pub(crate) fn block_size() -> usize {
    let bytes = donor::layout().map_or(0, |layout| layout.size + RUNNER_BYTES);
    bytes.next_multiple_of(rustix::param::page_size())
}

/// Returns `true` if fibers with thread-local storage of their own use the allocator's cache of
/// their thread, as far as the C library has one.
pub(crate) fn shares_caches() -> bool {
    cfg!(target_env = "musl") || donor::layout().is_ok() && ThreadWords::get().is_any()
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

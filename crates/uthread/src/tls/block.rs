//! The thread control block of a fiber, at the high end of its stack: [made](super::made) where that
//! is known, else that of a [donor](super::donor).

use std::io;
use std::ops::Range;

use super::donor::{self, Donor};
use super::rseq;

/// A block. The stack below its [end](Block::free_end) is free.
#[derive(Debug)]
pub(crate) struct Block {
    pointer: usize,
    free_end: usize,
    /// `None` if it was made without a thread.
    donor: Option<Donor>,
}

impl Block {
    /// Creates a block at the high end of this memory, which a stack needs to be: writable, and
    /// large enough for the C library (`PTHREAD_STACK_MIN`).
    ///
    /// # Errors
    ///
    /// The errors of `pthread_create(3)`.
    ///
    /// # Safety
    ///
    /// Nothing else uses the memory until the block has ended.
    #[allow(unsafe_code, reason = "a block on memory of the caller's")]
    pub(crate) unsafe fn create(stack: Range<usize>) -> io::Result<Block> {
        let layout = donor::layout()?;
        let template = layout.template.as_ref();
        // SAFETY: by the caller's contract.
        let made = template.and_then(|template| unsafe { template.make(&stack) });
        let (block, id) = match made {
            Some(pointer) => {
                let block = Block {
                    pointer,
                    free_end: stack.end - layout.size,
                    donor: None,
                };
                (block, pointer + layout.id)
            }
            None => {
                // SAFETY: by the caller's contract.
                let donor = unsafe { Donor::create(stack) }?;
                let id = donor.id();
                let block = Block {
                    pointer: donor.pointer(),
                    free_end: donor.free_end(),
                    donor: Some(donor),
                };
                (block, id)
            }
        };
        donor::set_id(id);
        rseq::mark_unregistered(block.pointer);
        Ok(block)
    }

    /// Returns the thread pointer of the block.
    pub(crate) fn pointer(&self) -> usize {
        self.pointer
    }

    /// Returns the end of the part of the stack that is free.
    pub(crate) fn free_end(&self) -> usize {
        self.free_end
    }

    /// Ends the block: that of a donor like [its thread](Donor::end). Returns `false` if the kernel
    /// refuses a thread for that: the C library still lists this one then, so its stack stays as it
    /// is until the process ends.
    ///
    /// # Safety
    ///
    /// No fiber uses the block any more.
    #[must_use = "the stack of a thread that has not ended must not be used again"]
    #[allow(unsafe_code, reason = "the end of a block")]
    pub(crate) unsafe fn end(self) -> bool {
        match self.donor {
            // SAFETY: by the caller's contract.
            Some(donor) => unsafe { donor.end() },
            None => {
                let template = donor::template().expect("it was made by the template");
                // SAFETY: as above.
                unsafe { template.release(self.pointer) };
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::super::donor::FIRST_ID;
    use super::*;

    const BYTES: usize = 256 << 10;

    /// Creates a block on memory that is leaked.
    fn block() -> Block {
        let memory = vec![7_u8; BYTES].leak();
        let low = memory.as_mut_ptr().expose_provenance();
        let low = low.next_multiple_of(64);
        // SAFETY: nothing else uses the memory.
        #[allow(unsafe_code, reason = "memory that is leaked")]
        unsafe { Block::create(low..low + BYTES - 64) }.unwrap()
    }

    #[allow(unsafe_code, reason = "a block that is not used")]
    fn end(block: Block) {
        // SAFETY: nobody uses it any more.
        assert!(unsafe { block.end() });
    }

    #[test]
    fn a_block_is_made_without_a_thread_where_glibc_is_shared() {
        let made = block();
        let is_glibc = cfg!(all(target_env = "gnu", target_arch = "x86_64"));
        let is_shared = !crate::tls::modules::c_library().is_empty();
        let expected = is_glibc && is_shared && !cfg!(feature = "sanitizer");
        assert_eq!(made.donor.is_none(), expected);
        end(made);
    }

    #[test]
    #[allow(unsafe_code, reason = "a field of the C library's")]
    fn ids_are_those_of_no_task_and_differ() {
        let blocks = [block(), block()];
        let ids = blocks.each_ref().map(|block| {
            let id = match &block.donor {
                Some(donor) => donor.id(),
                None => block.pointer + donor::layout().unwrap().id,
            };
            // SAFETY: the id is in the block.
            unsafe { ptr::with_exposed_provenance::<u32>(id).read() }
        });
        assert!(ids.iter().all(|id| *id >= FIRST_ID && *id < 1 << 30) && ids[0] != ids[1]);
        blocks.into_iter().for_each(end);
    }
}

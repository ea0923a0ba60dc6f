//! The memory of fibers. Each thread [keeps](kept) some of what it releases: the allocator takes
//! several hundred instructions for a fiber if there are more of a size than it caches per thread,
//! which are seven with glibc.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

pub(super) use super::free_blocks::{Size, deallocate};
use super::kept::{self, Kept};

/// Allocates memory of this layout, which is not empty, and of its size.
#[inline]
pub(super) fn allocate(layout: Layout, size: Size) -> NonNull<u8> {
    if size.is_kept() {
        take(size).unwrap_or_else(|| allocate_new(size.layout()))
    } else {
        allocate_new(layout)
    }
}

/// Takes a block that this thread keeps. Never inlined, like every access to a thread-local that
/// fibers make.
#[inline(never)]
fn take(size: Size) -> Option<NonNull<u8>> {
    kept::with(|kept| kept.blocks.list(size).pop())?
}

#[cold]
#[allow(unsafe_code, reason = "the allocator's interface")]
fn allocate_new(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout is not empty.
    let block = unsafe { alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// Releases memory of a size that is kept.
///
/// # Safety
///
/// It was [allocated](allocate) with this size, on any thread, and is not accessed any more.
#[inline(never)]
#[allow(unsafe_code, reason = "memory that the caller has allocated")]
pub(super) unsafe fn release(block: NonNull<u8>, size: Size) {
    // SAFETY: by the caller's contract. Blocks in a list have room for a pointer.
    let keep = |kept: &Kept| unsafe { kept.blocks.list(size).push(block) };
    let is_kept = kept::with(keep).unwrap_or_else(|| kept::with_new(keep) == Some(true));
    if !is_kept {
        // SAFETY: by the caller's contract: the memory was allocated with the layout of this size.
        unsafe { deallocate(block, size.layout()) };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::free_blocks::{FREE_MAX, REUSES};
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "memory that the tests have allocated")]
    fn released_memory_is_used_again_for_the_same_size_only() {
        let (small, large) = (Layout::new::<[u64; 9]>(), Layout::new::<[u64; 17]>());
        let block = allocate(small, Size::of(small));
        give(block, small);
        let other = allocate(large, Size::of(large));
        assert_ne!(other, block);
        let same = Layout::new::<[u64; 8]>();
        assert_eq!(allocate(same, Size::of(same)) == block, REUSES);
        for block in [block, other] {
            give(block, if block == other { large } else { small });
        }
    }

    #[test]
    fn large_or_aligned_memory_is_not_kept() {
        #[repr(align(64))]
        struct Aligned(#[allow(dead_code, reason = "its size")] [u8; 64]);
        for layout in [Layout::new::<[u64; 1000]>(), Layout::new::<Aligned>()] {
            assert!(!Size::of(layout).is_kept());
            let block = allocate(layout, Size::of(layout));
            assert!(block.addr().get().is_multiple_of(layout.align()));
            give(block, layout);
        }
    }

    #[test]
    fn no_more_blocks_are_kept_than_the_maximum_and_none_after_the_thread() {
        /// Releases a block after the thread's blocks were returned: destructors run newest first.
        struct Late(Cell<Option<NonNull<u8>>>);
        impl Drop for Late {
            fn drop(&mut self) {
                give(self.0.take().expect("the block is set"), LAYOUT);
                assert_eq!(kept::with(|_| ()), None);
            }
        }
        const LAYOUT: Layout = Layout::new::<[u64; 8]>();
        thread_local!(static LATE: Late = const { Late(Cell::new(None)) });
        let end = std::thread::spawn(|| {
            let size = Size::of(LAYOUT);
            LATE.with(|late| late.0.set(Some(allocate(LAYOUT, size))));
            let blocks: Vec<_> = (0..FREE_MAX + 2).map(|_| allocate(LAYOUT, size)).collect();
            blocks.into_iter().for_each(|block| give(block, LAYOUT));
            let room = kept::with(|kept| kept.blocks.list(size).room.get());
            assert!(!REUSES || room == Some(0));
        });
        assert!(end.join().is_ok());
    }

    #[allow(unsafe_code, reason = "memory that the tests have allocated")]
    fn give(block: NonNull<u8>, layout: Layout) {
        let size = Size::of(layout);
        if size.is_kept() {
            // SAFETY: the tests allocate it with this size, and release it once.
            unsafe { release(block, size) }
        } else {
            // SAFETY: the tests allocate it with this layout, and release it once.
            unsafe { deallocate(block, layout) }
        }
    }
}

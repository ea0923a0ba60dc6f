//! The memory of fibers. Each thread keeps some of what it releases: the allocator takes several hundred instructions
//! for a fiber if there are more of a size than it caches per thread, which are seven with glibc.

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::ptr::NonNull;

/// The sizes kept are multiples of this.
const STEP_BYTES: usize = 64;

/// Number of sizes kept. Larger closures are rare.
const SIZES: usize = 16;

/// The alignment of all blocks that are kept.
const ALIGNMENT: usize = align_of::<usize>();

/// Maximum number of blocks of a size that a thread keeps: the fibers of a burst, in about a MiB.
const FREE_MAX: usize = 2048;

/// `false` for tools that detect accesses to released memory.
const REUSES: bool = !cfg!(any(miri, feature = "sanitizer"));

thread_local! {
    static FREE: FreeBlocks = const { FreeBlocks(RefCell::new([const { Vec::new() }; SIZES])) };
}

/// The blocks that a thread keeps, by size.
struct FreeBlocks(RefCell<[Vec<NonNull<u8>>; SIZES]>);

/// Returns the index of a block's size, and the layout of the memory to allocate for it.
#[inline(always)]
fn size(layout: Layout) -> (usize, Layout) {
    let steps = layout.size().div_ceil(STEP_BYTES);
    match steps <= SIZES && layout.align() <= ALIGNMENT && steps > 0 && REUSES {
        true => (steps - 1, block_layout(steps - 1)),
        false => (SIZES, layout),
    }
}

#[inline(always)]
fn block_layout(index: usize) -> Layout {
    Layout::from_size_align((index + 1) * STEP_BYTES, ALIGNMENT).expect("it is small")
}

/// Allocates memory of this layout, which is not empty.
#[inline(always)]
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    let (index, layout) = size(layout);
    take(index).unwrap_or_else(|| allocate_new(layout))
}

/// Takes a block that this thread keeps. Never inlined, like every access to a thread-local that fibers make.
#[inline(never)]
fn take(index: usize) -> Option<NonNull<u8>> {
    // Fails at the end of the thread.
    FREE.try_with(|free| free.0.borrow_mut().get_mut(index)?.pop())
        .ok()
        .flatten()
}

#[cold]
#[allow(unsafe_code, reason = "the allocator's interface")]
fn allocate_new(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout is not empty.
    let block = unsafe { alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// Releases memory.
///
/// # Safety
///
/// It was [allocated](allocate) with this layout, on any thread, and is not accessed any more.
#[inline(never)]
#[allow(unsafe_code, reason = "the contract's")]
pub(super) unsafe fn release(block: NonNull<u8>, layout: Layout) {
    let (index, layout) = size(layout);
    let is_free = FREE.try_with(|free| {
        let mut free = free.0.borrow_mut();
        match free.get_mut(index) {
            Some(blocks) if blocks.len() < FREE_MAX => {
                blocks.push(block);
                true
            }
            _ => false,
        }
    });
    if is_free != Ok(true) {
        // SAFETY: by the caller's contract, with the layout that `allocate` has used.
        unsafe { alloc::dealloc(block.as_ptr(), layout) };
    }
}

impl Drop for FreeBlocks {
    #[allow(unsafe_code, reason = "the allocator's interface")]
    fn drop(&mut self) {
        for (index, blocks) in self.0.get_mut().iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: all blocks of this index were allocated with this layout.
                unsafe { alloc::dealloc(block.as_ptr(), block_layout(index)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "the contract of release")]
    fn released_memory_is_used_again_for_the_same_size_only() {
        let (small, large) = (Layout::new::<[u64; 9]>(), Layout::new::<[u64; 17]>());
        let block = allocate(small);
        // SAFETY: it was allocated above.
        unsafe { release(block, small) };
        let other = allocate(large);
        assert_ne!(other, block);
        assert_eq!(allocate(Layout::new::<[u64; 16]>()) == block, REUSES);
        for block in [block, other] {
            let layout = if block == other { large } else { small };
            // SAFETY: both were allocated above.
            unsafe { release(block, layout) };
        }
    }

    #[test]
    #[allow(unsafe_code, reason = "the contract of release")]
    fn large_or_aligned_memory_is_not_kept() {
        #[repr(align(64))]
        struct Aligned(#[allow(dead_code, reason = "its size")] [u8; 64]);
        for layout in [Layout::new::<[u64; 1000]>(), Layout::new::<Aligned>()] {
            let block = allocate(layout);
            assert!(block.addr().get().is_multiple_of(layout.align()));
            // SAFETY: it was allocated above.
            unsafe { release(block, layout) };
            assert_eq!(size(layout), (SIZES, layout));
        }
    }
}

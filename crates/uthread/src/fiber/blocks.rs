//! The memory of fibers. Each thread keeps some of what it releases: the allocator takes several hundred instructions
//! for a fiber if there are more of a size than it caches per thread, which are seven with glibc.

use std::alloc::{self, Layout};
use std::cell::Cell;
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
    static FREE: FreeBlocks = const { FreeBlocks([const { FreeList::new() }; SIZES]) };
}

/// The blocks that a thread keeps, by size.
struct FreeBlocks([FreeList; SIZES]);

/// Blocks of one size, each of which begins with a pointer to the next.
struct FreeList {
    first: Cell<Option<NonNull<u8>>>,
    length: Cell<usize>,
}

#[allow(unsafe_code, reason = "a list in the free memory itself")]
impl FreeList {
    const fn new() -> FreeList {
        FreeList {
            first: Cell::new(None),
            length: Cell::new(0),
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<NonNull<u8>> {
        let first = self.first.get()?;
        // SAFETY: the block is free, so `push` was the last to write to it.
        let next = unsafe { first.cast::<Option<NonNull<u8>>>().read() };
        self.first.set(next);
        self.length.set(self.length.get() - 1);
        Some(first)
    }

    /// Adds a block. Returns `false` if the list is full.
    ///
    /// # Safety
    ///
    /// The block has the size and alignment of a pointer at least, and is not accessed any more.
    #[inline(always)]
    unsafe fn push(&self, block: NonNull<u8>) -> bool {
        let length = self.length.get();
        if length == FREE_MAX {
            return false;
        }
        // SAFETY: by the caller's contract.
        unsafe { block.cast::<Option<NonNull<u8>>>().write(self.first.get()) };
        self.first.set(Some(block));
        self.length.set(length + 1);
        true
    }
}

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
    let taken = FREE.try_with(|free| free.0.get(index).and_then(FreeList::pop));
    taken.ok().flatten()
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
        let list = free.0.get(index);
        // SAFETY: by the caller's contract. Blocks in a list have a multiple of the size of a cache line.
        list.is_some_and(|list| unsafe { list.push(block) })
    });
    if is_free != Ok(true) {
        // SAFETY: by the caller's contract, with the layout that `allocate` has used.
        unsafe { alloc::dealloc(block.as_ptr(), layout) };
    }
}

impl Drop for FreeBlocks {
    #[allow(unsafe_code, reason = "the allocator's interface")]
    fn drop(&mut self) {
        for (index, list) in self.0.iter().enumerate() {
            while let Some(block) = list.pop() {
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

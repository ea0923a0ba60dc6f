//! Lists of free memory, by size.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ptr::NonNull;

/// The sizes kept, with the header, are multiples of this, as with glibc.
const STEP_BYTES: usize = 16;

/// Size of the header that glibc keeps beside a block. Other allocators round up to such multiples,
/// too.
const HEADER_BYTES: usize = size_of::<usize>();

/// Number of sizes kept. Larger closures are rare.
const SIZES: usize = 64;

/// The alignment of all blocks that are kept.
const ALIGNMENT: usize = align_of::<usize>();

/// Maximum number of blocks of a size that a thread keeps: the fibers of a burst, in about a MiB.
pub(super) const FREE_MAX: usize = 2048;

/// `false` for tools that detect accesses to released memory.
pub(super) const REUSES: bool = !cfg!(any(miri, feature = "sanitizer"));

/// The size of a block: the index of a list, or [`SIZES`] for memory that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(u32);

impl Size {
    pub(super) fn of(layout: Layout) -> Size {
        let steps = (layout.size() + HEADER_BYTES).div_ceil(STEP_BYTES);
        if steps <= SIZES && layout.align() <= ALIGNMENT && layout.size() > 0 && REUSES {
            Size(steps as u32 - 1)
        } else {
            Size(SIZES as u32)
        }
    }

    /// Returns `true` if threads keep memory of this size, whose alignment is then [`ALIGNMENT`] at
    /// most.
    pub(super) fn is_kept(self) -> bool {
        (self.0 as usize) < SIZES
    }

    pub(super) fn layout(self) -> Layout {
        let bytes = (self.0 as usize + 1) * STEP_BYTES - HEADER_BYTES;
        Layout::from_size_align(bytes, ALIGNMENT).expect("the block is small")
    }
}

/// The blocks that a thread keeps, by size.
pub(super) struct FreeBlocks([FreeList; SIZES]);

/// Blocks of one size, each of which begins with a pointer to the next.
pub(super) struct FreeList {
    first: Cell<Option<NonNull<u8>>>,
    /// Number of blocks that may be added.
    pub(super) room: Cell<usize>,
}

#[allow(unsafe_code, reason = "a list in the free memory itself")]
impl FreeList {
    const fn new() -> FreeList {
        FreeList {
            first: Cell::new(None),
            room: Cell::new(FREE_MAX),
        }
    }

    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        let first = self.first.get()?;
        // SAFETY: the block is free, so `push` was the last to write to it.
        let next = unsafe { first.cast::<Option<NonNull<u8>>>().read() };
        self.first.set(next);
        self.room.set(self.room.get() + 1);
        Some(first)
    }

    /// Adds a block. Returns `false` if there is no room.
    ///
    /// # Safety
    ///
    /// The block has the size and alignment of a pointer at least, and is not accessed any more.
    pub(super) unsafe fn push(&self, block: NonNull<u8>) -> bool {
        let Some(room) = self.room.get().checked_sub(1) else {
            return false;
        };
        // SAFETY: by the caller's contract.
        unsafe { block.cast::<Option<NonNull<u8>>>().write(self.first.get()) };
        self.first.set(Some(block));
        self.room.set(room);
        true
    }
}

impl Default for FreeBlocks {
    fn default() -> FreeBlocks {
        FreeBlocks([const { FreeList::new() }; SIZES])
    }
}

/// Returns the blocks to the allocator.
impl Drop for FreeBlocks {
    #[allow(unsafe_code, reason = "the allocator's interface")]
    fn drop(&mut self) {
        for (index, list) in self.0.iter().enumerate() {
            while let Some(block) = list.pop() {
                // SAFETY: all blocks of this index were allocated with this layout.
                unsafe { deallocate(block, Size(index as u32).layout()) };
            }
        }
    }
}

impl FreeBlocks {
    /// Returns the list of this size, which is kept.
    pub(super) fn list(&self, size: Size) -> &FreeList {
        &self.0[size.0 as usize % SIZES]
    }
}

/// Returns memory to the allocator.
///
/// # Safety
///
/// It was [allocated](allocate) with this layout, and is not accessed any more.
#[allow(unsafe_code, reason = "memory that the caller has allocated")]
pub(super) unsafe fn deallocate(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller has allocated it with this layout.
    unsafe { alloc::dealloc(block.as_ptr(), layout) };
}

//! The stacks fibers run on: guarded, pooled, lazily committed.
//!
//! ```text
//!   high  +------------------+  base: a fiber starts here and grows down
//!         |  pages in use    |  committed by the first touch
//!         |  untouched pages |  address space only
//!         |  guard           |  a touch here is an overflow
//!   low   +------------------+  limit
//! ```
//!
//! [`pool`] hands stacks out and takes them back, [`slabs`] carves them from large mappings, [`larger`] has those of single fibers
//! that need more, [`memory`] is what both ask of the kernel, [`advice`] how they ask it for many at once; [`overflow`]
//! turns a touched guard into a readable report, [`panic_frames`] tells whether a stack is in a panic hook, [`cache`] knows the CPU's.

mod advice;
pub(crate) mod cache;
mod larger;
mod memory;
pub(crate) mod overflow;
pub(crate) mod panic_frames;
pub(crate) mod pool;
pub(crate) mod sizes;
mod slabs;

use std::num::NonZeroUsize;

use corosensei::stack::StackPointer;

/// One stack, guard included. Its memory belongs to the [`pool::Pool`] it came from.
#[derive(Debug)]
pub(crate) struct Stack {
    limit: NonZeroUsize,
    base: NonZeroUsize,
}

impl Stack {
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            limit: self.limit.get(),
            end: self.end(),
        }
    }

    /// The end of the highest page: a little above the base.
    fn end(&self) -> usize {
        self.base.get().next_multiple_of(memory::page_size())
    }
}

/// Where a stack lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    limit: usize,
    end: usize,
}

impl Extent {
    /// Whether `address` lies in the guard.
    pub(crate) fn guards(self, address: usize) -> bool {
        (self.limit..self.limit + memory::guard_size()).contains(&address)
    }

    /// Bytes from limit to end, guard included.
    pub(crate) fn size(self) -> usize {
        self.end - self.limit
    }
}

#[allow(
    unsafe_code,
    reason = "corosensei asks the owner of a stack to vouch for its guard page"
)]
// SAFETY: a `Stack` is made only by `Slabs::stack` and `LargerStacks::take`, which install the guard at `limit`
// before handing it out, align it, and hold at least `pool::STACK_SIZE_MIN` bytes above the guard.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

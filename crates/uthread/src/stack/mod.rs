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
//! [`pool`] carves stacks from large mappings and takes them back;
//! [`overflow`] turns a touched guard into a readable report.

pub(crate) mod overflow;
pub(crate) mod pool;

use std::num::NonZeroUsize;

use corosensei::stack::StackPointer;

/// Of every CPU that we run on.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

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
        self.base.get().next_multiple_of(pool::page_size())
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
        (self.limit..self.limit + pool::guard_size()).contains(&address)
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
// SAFETY: a `Stack` is made only by `Pool::carve`, which installs the guard at `limit` before
// handing it out, aligns it, and holds at least `pool::STACK_SIZE_MIN` bytes above the guard.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

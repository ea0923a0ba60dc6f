//! Stacks of fibers: guarded, pooled and lazily committed.
//!
//! ```text
//!   high  +------------------+
//!         | top              |  of the fiber's runner
//!         +------------------+  base: a fiber starts here and grows down
//!         |  pages in use    |  committed by the first touch
//!         |  untouched pages |  address space only
//!         |  guard           |  a touch here is an overflow
//!   low   +------------------+  limit
//! ```
//!
//! [`pool`] hands stacks out and takes them back; [`slabs`] carves them from large mappings;
//! [`larger`] holds larger stacks for single fibers; [`memory`] makes the system calls, and
//! [`advice`] makes them for many stacks at once. [`overflow`] reports a touched guard, and
//! [`panic_frames`] detects whether a stack is in a panic hook.

mod advice;
mod larger;
mod memory;
pub(crate) mod overflow;
pub(crate) mod panic_frames;
pub(crate) mod pool;
pub(crate) mod sizes;
mod slabs;

use std::mem;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::{self, NonNull};

use corosensei::stack::StackPointer;

use crate::cache;

/// Number of bytes between the base of a stack and its end. The fiber's runner uses them: so many
/// that the first line of the cache that it uses there is the one that each switch touches, which
/// is that of the two words below the base.
pub(crate) const TOP_BYTES: usize = 112;

/// Number of bytes below the base that each switch touches.
const SWITCHED_BYTES: usize = 16;

/// A stack, guard included. Its memory belongs to the [`pool::Pool`] that it came from.
#[derive(Debug)]
pub(crate) struct Stack {
    limit: NonZeroUsize,
    /// Where a fiber starts: [`TOP_BYTES`] below the end, or below a block of thread-local storage.
    base: NonZeroUsize,
    /// The end of the highest page.
    end: usize,
}

impl Stack {
    /// Returns the address of [`TOP_BYTES`] bytes that belong to the owner of the stack.
    pub(crate) fn top(&self) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.base.get()))
            .expect("the base is not zero")
    }

    /// Returns the addresses above the guard.
    pub(crate) fn contents(&self) -> Range<usize> {
        self.extent().contents()
    }

    /// Lowers the base, so that `bytes` bytes of the stack's owner follow the [`TOP_BYTES`],
    /// below `end`. Returns the base before.
    pub(crate) fn lower_base(&mut self, end: usize, bytes: usize) -> NonZeroUsize {
        let base = end - TOP_BYTES - bytes - SWITCHED_BYTES;
        let line = base - base % cache::LINE_BYTES;
        let base = NonZeroUsize::new(line + SWITCHED_BYTES).expect("a stack is not at zero");
        mem::replace(&mut self.base, base)
    }

    /// Sets the base to what it was before it was [lowered](Stack::lower_base).
    pub(crate) fn restore_base(&mut self, base: NonZeroUsize) {
        self.base = base;
    }

    /// Calls `action` on the stack.
    #[inline]
    pub(crate) fn call<R>(&mut self, action: impl FnOnce() -> R) -> R {
        corosensei::on_stack(self, action)
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            limit: self.limit.get(),
            end: self.end,
        }
    }
}

/// The address range of a stack; empty by default.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Extent {
    limit: usize,
    end: usize,
}

impl Extent {
    /// Returns `true` if `address` is in the guard.
    pub(crate) fn guards(self, address: usize) -> bool {
        let guard = self.limit..(self.limit + memory::guard_size()).min(self.end);
        guard.contains(&address)
    }

    /// Returns `true` if `address` is above the guard.
    pub(crate) fn contains(self, address: usize) -> bool {
        self.contents().contains(&address)
    }

    /// Returns the pages, without the guard, that a stack pointer has not reached.
    pub(crate) fn pages_below(self, stack_pointer: usize) -> Range<usize> {
        let contents = self.contents();
        let page = stack_pointer - stack_pointer % memory::page_size();
        contents.start..page.max(contents.start)
    }

    fn contents(self) -> Range<usize> {
        (self.limit + memory::guard_size()).min(self.end)..self.end
    }

    /// Returns the number of bytes from limit to end, guard included.
    pub(crate) fn size(self) -> usize {
        self.end - self.limit
    }
}

#[allow(
    unsafe_code,
    reason = "corosensei asks the owner of a stack to vouch for its guard page"
)]
// SAFETY: a `Stack` is created only by `Slabs::stack` and `LargerStacks::take`. They install the
// guard at `limit` before handing the stack out, align it, and leave at least
// `pool::STACK_SIZE_MIN` bytes above the guard.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

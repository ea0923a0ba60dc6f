//! Counted references to fibers. Like [`Arc`](std::sync::Arc), except that there are two references from the
//! beginning (a queue's and a handle's), no weak ones, and that the memory comes from [`blocks`].

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{self, AtomicUsize, Ordering};

use super::blocks;

/// Maximum number of references. As in `Arc`, only a program that leaks references exceeds it.
const REFERENCES_MAX: usize = isize::MAX as usize;

#[repr(transparent)]
pub(crate) struct Reference<T: ?Sized> {
    block: NonNull<Block<T>>,
    owns: PhantomData<Block<T>>,
}

#[repr(C)]
pub(super) struct Block<T: ?Sized> {
    references: AtomicUsize,
    value: T,
}

#[allow(unsafe_code, reason = "a counted pointer")]
// SAFETY: as for `Arc`: references on several threads share the value, and any of them may drop it.
unsafe impl<T: ?Sized + Send + Sync> Send for Reference<T> {}
#[allow(unsafe_code, reason = "a counted pointer")]
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for Reference<T> {}

impl<T: ?Sized> Unpin for Reference<T> {}

impl<T> Reference<T> {
    /// Creates a value on the heap, and returns two references to it.
    #[inline(always)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    pub(super) fn pair(make: impl FnOnce() -> T) -> (Reference<T>, Reference<T>) {
        let block = blocks::allocate(Layout::new::<Block<T>>()).cast::<Block<T>>();
        let counted = Block {
            references: AtomicUsize::new(2),
            value: make(),
        };
        // SAFETY: the memory is new, and has the size and the alignment of a block.
        unsafe { block.write(counted) };
        (Reference::of(block), Reference::of(block))
    }
}

impl<T: ?Sized> Reference<T> {
    /// Returns a reference that has been counted.
    fn of(block: NonNull<Block<T>>) -> Reference<T> {
        Reference {
            block,
            owns: PhantomData,
        }
    }

    /// Changes the type of the value to that of a trait which it implements.
    #[inline(always)]
    pub(super) fn coerce<U: ?Sized>(
        self,
        coerce: impl FnOnce(NonNull<Block<T>>) -> NonNull<Block<U>>,
    ) -> Reference<U> {
        let block = self.block;
        std::mem::forget(self);
        Reference::of(coerce(block))
    }

    /// Returns the address of the value.
    pub(crate) fn as_ptr(reference: &Reference<T>) -> *const T {
        ptr::from_ref(&**reference)
    }

    #[allow(unsafe_code, reason = "a counted pointer")]
    fn block(&self) -> &Block<T> {
        // SAFETY: a block lives as long as there are references to it.
        unsafe { self.block.as_ref() }
    }

    /// Drops the value and releases its memory, as the last reference is gone.
    #[inline(never)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn drop_value(&mut self) {
        let layout = Layout::for_value(self.block());
        // SAFETY: there is no other reference.
        let block = unsafe { self.block.as_mut() };
        // SAFETY: nothing accesses the value afterwards.
        unsafe { ptr::drop_in_place(&raw mut block.value) };
        // SAFETY: the memory was allocated with this layout, which is that of the same type.
        unsafe { blocks::release(self.block.cast(), layout) };
    }
}

impl<T: ?Sized> Deref for Reference<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.block().value
    }
}

impl<T: ?Sized> Clone for Reference<T> {
    #[inline]
    fn clone(&self) -> Reference<T> {
        // Relaxed: whoever passes the new reference on orders that.
        if self.block().references.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            process::abort();
        }
        Reference::of(self.block)
    }
}

impl<T: ?Sized> Drop for Reference<T> {
    #[inline]
    fn drop(&mut self) {
        let references = &self.block().references;
        // Acquire pairs with the release of the other references, whose accesses come before the drop of the value.
        if references.load(Ordering::Acquire) == 1 {
            return self.drop_value();
        }
        if references.fetch_sub(1, Ordering::Release) == 1 {
            atomic::fence(Ordering::Acquire);
            self.drop_value();
        }
    }
}

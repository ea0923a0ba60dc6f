//! Counted references to fibers. Like [`Arc`](std::sync::Arc), except that there are two references from the
//! beginning (a queue's and a handle's), no weak ones, and that the memory comes from [`blocks`].
//!
//! ```text
//!   block   | padding, if the value needs it | header | value
//!                                                      ^ a reference points here
//! ```

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{self, AtomicU32, Ordering};

use super::blocks::{self, Size};

/// Maximum number of references. As in `Arc`, only a program that leaks references exceeds it: so many take 32 GiB.
const REFERENCES_MAX: u32 = i32::MAX as u32;

/// Two words of 32 bits, so that it takes as little memory as a count alone.
struct Header {
    count: AtomicU32,
    /// The size of the block, which the type of a reference may not tell.
    size: Size,
}

#[repr(transparent)]
pub(crate) struct Reference<T: ?Sized> {
    value: NonNull<T>,
    owns: PhantomData<T>,
}

#[allow(unsafe_code, reason = "a counted pointer")]
// SAFETY: as for `Arc`: references on several threads share the value, and any of them may drop it.
unsafe impl<T: ?Sized + Send + Sync> Send for Reference<T> {}
#[allow(unsafe_code, reason = "a counted pointer")]
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for Reference<T> {}

impl<T: ?Sized> Unpin for Reference<T> {}

/// Returns the layout of a block with a value of this layout, and the offset of the value.
#[inline(always)]
fn block(value: Layout) -> (Layout, usize) {
    let block = Layout::new::<Header>().extend(value);
    block.expect("a value is smaller than the address space")
}

impl<T> Reference<T> {
    /// Creates a value on the heap, and returns two references to it.
    #[inline(always)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    pub(super) fn pair(make: impl FnOnce() -> T) -> (Reference<T>, Reference<T>) {
        let (layout, offset) = block(Layout::new::<T>());
        let size = Size::of(layout);
        // SAFETY: the offset is within the block.
        let value = unsafe { blocks::allocate(layout, size).byte_add(offset) }.cast::<T>();
        // SAFETY: the memory is new, and has the size and the alignment of a value.
        unsafe { value.write(make()) };
        let reference = Reference::of(value);
        let count = AtomicU32::new(2);
        // SAFETY: the memory is new, and has room for the header before the value.
        unsafe { reference.header_pointer().write(Header { count, size }) };
        (reference, Reference::of(value))
    }
}

impl<T: ?Sized> Reference<T> {
    /// Returns a reference that has been counted.
    #[inline(always)]
    fn of(value: NonNull<T>) -> Reference<T> {
        Reference {
            value,
            owns: PhantomData,
        }
    }

    /// Changes the type of the value to that of a trait which it implements.
    #[inline(always)]
    pub(super) fn coerce<U: ?Sized>(
        self,
        coerce: impl FnOnce(NonNull<T>) -> NonNull<U>,
    ) -> Reference<U> {
        let value = self.value;
        std::mem::forget(self);
        Reference::of(coerce(value))
    }

    /// Returns the address of the value.
    pub(crate) fn as_ptr(reference: &Reference<T>) -> *const T {
        reference.value.as_ptr()
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn header_pointer(&self) -> NonNull<Header> {
        // SAFETY: the header is directly before the value.
        unsafe { self.value.cast::<Header>().sub(1) }
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn header(&self) -> &Header {
        // SAFETY: the block lives as long as there are references.
        unsafe { self.header_pointer().as_ref() }
    }

    /// Drops the value and releases its memory, as the last reference is gone.
    #[inline(never)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn drop_value(&mut self) {
        let size = self.header().size;
        if !size.is_kept() {
            return self.drop_value_of_any_size();
        }
        // SAFETY: there is no other reference.
        unsafe { self.value.drop_in_place() };
        // Sizes that are kept need no padding.
        let block = self.header_pointer().cast();
        // SAFETY: the memory was allocated with this size.
        unsafe { blocks::release(block, size) };
    }

    #[cold]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn drop_value_of_any_size(&mut self) {
        let (layout, offset) = block(Layout::for_value(&**self));
        // SAFETY: there is no other reference.
        unsafe { self.value.drop_in_place() };
        // SAFETY: the block begins at this distance before the value.
        let block = unsafe { self.value.cast::<u8>().byte_sub(offset) };
        // SAFETY: the memory was allocated with this layout, which is that of the same type, and its size is not kept.
        unsafe { blocks::deallocate(block, layout) };
    }
}

impl<T: ?Sized> Deref for Reference<T> {
    type Target = T;

    #[inline(always)]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as there are references to it.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> Clone for Reference<T> {
    #[inline]
    fn clone(&self) -> Reference<T> {
        // Relaxed: whoever passes the new reference on orders that.
        if self.header().count.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            process::abort();
        }
        Reference::of(self.value)
    }
}

impl<T: ?Sized> Drop for Reference<T> {
    #[inline]
    fn drop(&mut self) {
        let references = &self.header().count;
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

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::Arc;
    use std::thread;

    use super::*;

    trait Number: Send + Sync {
        fn number(&self) -> u64;
    }

    /// A number, and a reference that shows whether the value lives.
    struct Plain(
        u64,
        #[expect(dead_code, reason = "dropped with the value")] Arc<()>,
    );

    #[repr(align(64))]
    struct Aligned(Plain);

    impl Number for Plain {
        fn number(&self) -> u64 {
            self.0
        }
    }

    impl Number for Aligned {
        fn number(&self) -> u64 {
            assert!(ptr::from_ref(self).addr().is_multiple_of(64));
            self.0.number()
        }
    }

    #[test]
    fn the_last_of_several_references_drops_the_value() {
        let alive = Arc::new(());
        let (first, second) = Reference::pair(|| Aligned(Plain(7, Arc::clone(&alive))));
        let first = first.coerce::<dyn Number>(|value| value);
        let third = first.clone();
        drop(second);
        assert_eq!((first.number(), third.number()), (7, 7));
        drop(first);
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(third);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn references_are_dropped_on_any_thread() {
        let alive = Arc::new(());
        thread::scope(|scope| {
            for number in 0..100 {
                let (ours, theirs) = Reference::pair(|| Plain(number, Arc::clone(&alive)));
                scope.spawn(move || assert_eq!(theirs.clone().number(), number));
                drop(ours);
            }
        });
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

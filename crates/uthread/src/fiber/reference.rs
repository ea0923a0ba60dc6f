//! Counted references to fibers of any type, in one word. Like [`Arc`](std::sync::Arc), except that
//! there are two references from the beginning (a queue's and a handle's), no weak ones, and that
//! the memory comes from [`blocks`].
//!
//! ```text
//!   block   | control block: count, functions of the type, .. | closure, outcome
//!           ^ a reference points here
//! ```

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::process;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};

use super::blocks::{self, Size};
use super::{Children, Control, Payload, SCOPE_AT};

/// Maximum number of references. As in `Arc`, only a program that leaks references exceeds it: so
/// many take 16 GiB.
const REFERENCES_MAX: u32 = i32::MAX as u32;

/// A type of fibers.
///
/// # Safety
///
/// A value begins with its control block, which has the [functions](Functions) of its type, and
/// then has its scope at [`SCOPE_AT`].
#[allow(unsafe_code, reason = "a layout that its users rely on")]
pub(super) unsafe trait Body: Send + Sync {
    /// Runs the closure to its end.
    fn run(&self);
    /// Drops the closure instead of running it.
    fn abandon(&self, payload: Payload);
    /// Completes the outcome of a fiber that never runs again.
    fn give_up(&self);
    /// Drops all that a fiber which was joined usually has, and returns `true` if there was nothing
    /// else. The fiber is not used afterwards, or dropped if there was.
    fn drop_little(&mut self) -> bool;
}

/// The functions of a type of fibers, for references, which do not know the type. Each takes the
/// control block of a living fiber of that type.
pub(super) struct Functions {
    run: unsafe fn(NonNull<Control>),
    abandon: unsafe fn(NonNull<Control>, Payload),
    give_up: unsafe fn(NonNull<Control>),
    /// Drops the fiber and releases its memory. There is no reference to it any more.
    drop: unsafe fn(NonNull<Control>),
}

#[allow(unsafe_code, reason = "the type that a control block belongs to")]
impl Functions {
    pub(super) const fn of<B: Body>() -> &'static Functions {
        const {
            &Functions {
                // SAFETY: by the contract of the functions.
                run: |fiber| unsafe { fiber.cast::<B>().as_ref() }.run(),
                // SAFETY: as above.
                abandon: |fiber, payload| unsafe { fiber.cast::<B>().as_ref() }.abandon(payload),
                // SAFETY: as above.
                give_up: |fiber| unsafe { fiber.cast::<B>().as_ref() }.give_up(),
                // SAFETY: as above.
                drop: |fiber| unsafe { drop_fiber(fiber.cast::<B>()) },
            }
        }
    }
}

/// Drops a fiber and releases its memory.
///
/// # Safety
///
/// The fiber was created by [`FiberRef::pair`], and there is no reference to it any more.
#[allow(unsafe_code, reason = "freeing a fiber without references")]
unsafe fn drop_fiber<B: Body>(mut fiber: NonNull<B>) {
    const {
        assert!(size_of::<B>() >= size_of::<Control>());
    }
    // SAFETY: there is no other reference.
    if !unsafe { fiber.as_mut() }.drop_little() {
        // SAFETY: as above.
        unsafe { drop_all(fiber) };
    }
    let layout = Layout::new::<B>();
    let size = Size::of(layout);
    if size.is_kept() {
        // SAFETY: the memory was allocated with this size.
        unsafe { blocks::release(fiber.cast(), size) }
    } else {
        // SAFETY: the memory was allocated with this layout, and its size is not kept.
        unsafe { blocks::deallocate(fiber.cast(), layout) }
    }
}

/// Drops a fiber.
///
/// # Safety
///
/// There is no reference to it any more.
#[inline(never)]
#[allow(unsafe_code, reason = "freeing a fiber without references")]
unsafe fn drop_all<B>(fiber: NonNull<B>) {
    // SAFETY: there is no other reference.
    unsafe { fiber.drop_in_place() };
}

/// A fiber of any type, as queues hold it.
#[repr(transparent)]
pub(crate) struct FiberRef(NonNull<Control>);

#[allow(unsafe_code, reason = "a counted pointer")]
// SAFETY: as for `Arc`: references on several threads share the fiber, which is `Send` and `Sync`,
// and any of them may drop it.
unsafe impl Send for FiberRef {}
#[allow(unsafe_code, reason = "a counted pointer")]
// SAFETY: as for `Send`.
unsafe impl Sync for FiberRef {}

#[allow(unsafe_code, reason = "a counted pointer")]
impl FiberRef {
    /// Allocates memory for a fiber.
    #[inline]
    pub(super) fn allocate<B: Body>() -> NonNull<B> {
        let layout = Layout::new::<B>();
        blocks::allocate(layout, Size::of(layout)).cast()
    }

    /// Returns two references to a new fiber.
    ///
    /// # Safety
    ///
    /// The memory is that of [`allocate`](FiberRef::allocate). It has become a fiber with a count
    /// of two references. What the fiber borrows lives until its closure and its value were
    /// dropped, however long the references live.
    #[inline]
    pub(super) unsafe fn pair<B: Body>(fiber: NonNull<B>) -> (FiberRef, FiberRef) {
        (FiberRef(fiber.cast()), FiberRef(fiber.cast()))
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the fiber lives as long as there are references to it.
        unsafe { self.0.as_ref() }
    }

    /// Returns the scope of the fiber, if it was spawned in one.
    pub(super) fn scope(&self) -> Option<&Children> {
        // SAFETY: the fiber is of a type that has its scope there.
        let scope = unsafe { self.0.byte_add(SCOPE_AT).cast::<Option<Arc<Children>>>() };
        // SAFETY: it is not changed while the fiber lives.
        unsafe { scope.as_ref() }.as_deref()
    }

    /// Returns a reference that is not counted.
    ///
    /// # Safety
    ///
    /// The address is that of a fiber, to which there is a counted reference during the use of this
    /// one.
    pub(super) unsafe fn uncounted(fiber: NonNull<Control>) -> ManuallyDrop<FiberRef> {
        ManuallyDrop::new(FiberRef(fiber))
    }

    /// Returns the address of the fiber.
    pub(crate) fn as_ptr(&self) -> NonNull<Control> {
        self.0
    }

    /// Runs the closure to its end, on the fiber's own stack.
    pub(crate) fn run(&self) {
        // SAFETY: the fiber lives, and its functions are those of its type.
        unsafe { (self.control().functions.run)(self.0) }
    }

    /// Drops the closure instead of running it; joining returns `payload`. Called on the fiber's
    /// own stack if it has one, as destructors may wait.
    pub(crate) fn abandon(&self, payload: Payload) {
        // SAFETY: as for `run`.
        unsafe { (self.control().functions.abandon)(self.0, payload) }
    }

    /// Makes joining return [`Cancelled`](super::Cancelled), for a fiber that never runs again.
    /// Called once nothing uses memory that it may have lent or borrowed.
    pub(crate) fn give_up(&self) {
        // SAFETY: as for `run`.
        unsafe { (self.control().functions.give_up)(self.0) }
    }
}

impl Clone for FiberRef {
    #[inline]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn clone(&self) -> FiberRef {
        // Relaxed: the code that passes the new reference on orders that.
        if self.control().references.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            process::abort();
        }
        FiberRef(self.0)
    }
}

impl Drop for FiberRef {
    #[inline]
    #[allow(unsafe_code, reason = "a counted pointer")]
    fn drop(&mut self) {
        let control = self.control();
        // Acquire pairs with the release of the other references, whose accesses come before the
        // drop of the fiber.
        if control.references.load(Ordering::Acquire) != 1 {
            if control.references.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            atomic::fence(Ordering::Acquire);
        }
        let drop = control.functions.drop;
        // SAFETY: there is no other reference.
        unsafe { drop(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;
    use std::ptr;
    use std::thread;

    use super::*;
    use crate::fiber::{Fiber, Identity, Joinable};

    #[repr(align(64))]
    struct Aligned(Arc<()>);

    impl Aligned {
        fn count(&self) -> usize {
            assert!(ptr::from_ref(self).addr().is_multiple_of(64));
            Arc::strong_count(&self.0)
        }
    }

    fn fiber<T: Send + 'static>(
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> (FiberRef, Joinable<T>) {
        Fiber::owning(Identity::anonymous(Location::caller()), closure)
    }

    #[test]
    fn the_last_of_several_references_drops_the_fiber() {
        let alive = Arc::new(());
        let result = Arc::clone(&alive);
        let (first, joinable) = fiber(move || result);
        let second = first.clone();
        first.run();
        drop(first);
        drop(joinable);
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(second);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_fiber_of_any_size_and_alignment_runs_or_is_dropped() {
        let alive = Arc::new(());
        let (aligned, large) = (Aligned(Arc::clone(&alive)), [7_u64; 1000]);
        let (runs, joinable) = fiber(move || aligned.count() + large.len());
        runs.run();
        assert_eq!(joinable.outcome().take().ok(), Some(1002));
        let aligned = Aligned(Arc::clone(&alive));
        drop(fiber(move || aligned.count()));
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn references_are_dropped_on_any_thread() {
        let alive = Arc::new(());
        thread::scope(|scope| {
            for _ in 0..100 {
                let alive = Arc::clone(&alive);
                let (ours, theirs) = fiber(move || drop(alive));
                scope.spawn(move || assert!(!theirs.outcome().is_done()));
                drop(ours);
            }
        });
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

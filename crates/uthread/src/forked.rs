//! Children made by `fork`: which of them this process is, and what each has afresh.
//!
//! A child has a copy of the memory and one thread. What other threads keep up is dead there: workers, the pool, whoever
//! waits in a queue. So none of that is used again: a child begins with its own.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many forks lie between this process and the one that was started. Relaxed: it changes where there is one thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that the parent and its children do not share.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Notes that this process is a child from now on. Called by its only thread.
pub(crate) fn note_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Ends a child whose only thread has nothing to return to: the rest of its stack belongs to a worker that runs in the
/// parent. As where a thread of `std` forks and its closure returns in the child, but that a panic is told.
pub(crate) fn end(has_panicked: bool) -> ! {
    const PANICKED: i32 = 101;
    std::process::exit(if has_panicked { PANICKED } else { 0 })
}

/// A static value that every child has afresh: in the parent's, some thread may have been in the midst of a change.
pub(crate) struct PerProcess<T: 'static> {
    /// Of the process that was started.
    first: T,
    /// Of the last child that has asked. Those of its ancestors are left to themselves.
    last: AtomicPtr<OfChild<T>>,
    make: fn() -> T,
}

struct OfChild<T> {
    generation: u32,
    value: T,
}

impl<T> PerProcess<T> {
    /// A value for the process that is started, and how a child makes its own.
    pub(crate) const fn new(first: T, make: fn() -> T) -> PerProcess<T> {
        PerProcess {
            first,
            last: AtomicPtr::new(ptr::null_mut()),
            make,
        }
    }

    pub(crate) fn get(&'static self) -> &'static T {
        match generation() {
            0 => &self.first,
            generation => self.of_child(generation),
        }
    }

    #[cold]
    #[allow(unsafe_code, reason = "a lock could be locked for ever in a child")]
    fn of_child(&'static self, generation: u32) -> &'static T {
        // Acquire pairs with the Release below.
        let last = self.last.load(Ordering::Acquire);
        // SAFETY: what was put there is never freed.
        if let Some(last) = unsafe { last.as_ref() }
            && last.generation == generation
        {
            return &last.value;
        }
        let value = (self.make)();
        let own: &'static _ = Box::leak(Box::new(OfChild { generation, value }));
        let (order, or_else) = (Ordering::AcqRel, Ordering::Acquire);
        let put = self
            .last
            .compare_exchange(last, ptr::from_ref(own).cast_mut(), order, or_else);
        match put {
            Ok(_) => &own.value,
            // Another thread of this child was first; its own is left unused.
            // SAFETY: as above.
            Err(theirs) => unsafe { &(*theirs).value },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_child_has_one_value_of_its_own() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(1), || Mutex::new(2));
        assert_eq!(*VALUE.get().lock().unwrap(), 1);
        for generation in [1, 2] {
            let value = VALUE.of_child(generation);
            assert_eq!(*value.lock().unwrap(), 2);
            *value.lock().unwrap() = 3;
            assert!(ptr::eq(VALUE.of_child(generation), value));
        }
        assert_eq!(*VALUE.get().lock().unwrap(), 1);
    }
}

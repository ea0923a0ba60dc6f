//! The items that the included files use from `crate::atomic`: atomics and locks that record each
//! access, with its address.
//!
//! One thread simulates all cores, so the values need no synchronization. A call of a protocol
//! changes them at once; the machine charges the recorded accesses afterwards, one by one.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::{Add, Deref, DerefMut, Sub};
use std::ptr;
pub(crate) use std::sync::atomic::Ordering;

use crate::memory::Kind;

thread_local! {
    static RECORD: RefCell<Vec<(usize, Kind)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the accesses that `call` makes, and its result.
pub(crate) fn record<R>(call: impl FnOnce() -> R) -> (Vec<(usize, Kind)>, R) {
    RECORD.take();
    let result = call();
    (RECORD.take(), result)
}

fn note<T>(target: &T, kind: Kind) {
    let address = ptr::from_ref(target).addr();
    RECORD.with_borrow_mut(|record| record.push((address, kind)));
}

/// Costs nothing here: a fence moves no cache line.
pub(crate) fn fence(_: Ordering) {}

/// A value of the type of an atomic that records its accesses.
#[derive(Debug, Default)]
pub(crate) struct Recorded<T: Copy + Default>(Cell<T>);

pub(crate) type AtomicBool = Recorded<bool>;
pub(crate) type AtomicIsize = Recorded<isize>;
pub(crate) type AtomicU8 = Recorded<u8>;
pub(crate) type AtomicUsize = Recorded<usize>;

impl<T: Copy + Default + PartialEq> Recorded<T> {
    pub(crate) fn new(value: T) -> Recorded<T> {
        Recorded(Cell::new(value))
    }

    pub(crate) fn load(&self, _: Ordering) -> T {
        note(self, Kind::Load);
        self.0.get()
    }

    pub(crate) fn store(&self, value: T, _: Ordering) {
        note(self, Kind::Store);
        self.0.set(value);
    }

    pub(crate) fn compare_exchange(
        &self,
        from: T,
        to: T,
        _: Ordering,
        _: Ordering,
    ) -> Result<T, T> {
        note(self, Kind::Modify);
        let found = self.0.get();
        if found == from {
            self.0.set(to);
            Ok(found)
        } else {
            Err(found)
        }
    }
}

impl<T: Copy + Default + Add<Output = T> + Sub<Output = T>> Recorded<T> {
    pub(crate) fn fetch_add(&self, count: T, _: Ordering) -> T {
        note(self, Kind::Modify);
        self.0.replace(self.0.get() + count)
    }

    pub(crate) fn fetch_sub(&self, count: T, _: Ordering) -> T {
        note(self, Kind::Modify);
        self.0.replace(self.0.get() - count)
    }
}

/// A lock whose word is before its value, as in `std`. It is never contended: a call of a protocol
/// changes all values at once.
pub(crate) struct Mutex<T> {
    word: u64,
    value: RefCell<T>,
}

/// A locked mutex.
pub(crate) struct MutexGuard<'a, T> {
    word: &'a u64,
    value: RefMut<'a, T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex {
            word: 0,
            value: RefCell::new(value),
        }
    }
}

/// Locks `mutex`.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    note(&mutex.word, Kind::Modify);
    MutexGuard {
        word: &mutex.word,
        value: mutex.value.borrow_mut(),
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        note(self.word, Kind::Modify);
    }
}

//! A number that one thread lets others read as long as a scope of it lasts.
//!
//! The queues of a worker belong to its thread: they are on its stack, so that it reaches them
//! without a pointer. Their lengths are atomics beside them. A reader finds these by a function
//! that the worker lends for as long as it runs.

use std::ptr::NonNull;
use std::sync::Mutex;

use crate::atomic::lock;

/// A function that returns the number, and that any thread may call.
type Read = dyn Fn() -> usize + Sync;

/// See the [module](self).
#[derive(Default)]
pub(in crate::sched) struct Gauge(Mutex<Option<Lent>>);

/// A function that lives until it is taken back, under the lock.
struct Lent(NonNull<Read>);

#[allow(unsafe_code, reason = "a reference that a scope lends")]
// SAFETY: the pointer stands for a reference to a function that any thread may call.
unsafe impl Send for Lent {}

impl Gauge {
    /// Lends `read` to other threads while `scope` runs.
    #[allow(unsafe_code, reason = "a reference that a scope lends")]
    pub(in crate::sched) fn lend<'a, R>(
        &self,
        read: &'a (dyn Fn() -> usize + Sync + 'a),
        scope: impl FnOnce() -> R,
    ) -> R {
        /// Takes the function back, also while unwinding.
        struct Return<'a>(&'a Gauge);

        impl Drop for Return<'_> {
            fn drop(&mut self) {
                *lock(&self.0.0) = None;
            }
        }

        // SAFETY: only the lifetime changes. It is called under the lock alone, and taken back
        // under it before the scope ends.
        let read: NonNull<Read> = unsafe { std::mem::transmute(NonNull::from(read)) };
        let _return = Return(self);
        *lock(&self.0) = Some(Lent(read));
        scope()
    }

    /// Returns the number, or zero outside of the scope.
    #[allow(unsafe_code, reason = "a reference that a scope lends")]
    pub(in crate::sched) fn get(&self) -> usize {
        let lent = lock(&self.0);
        // SAFETY: the scope takes it back before it ends, and waits for this lock to do so.
        let read = lent.as_ref().map(|lent| unsafe { lent.0.as_ref() });
        read.map_or(0, |read| read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn others_read_it_until_the_scope_ends() {
        let gauge = Gauge::default();
        assert_eq!(gauge.get(), 0);
        {
            let number = AtomicUsize::new(7);
            gauge.lend(&|| number.load(Ordering::Relaxed), || {
                thread::scope(|scope| {
                    assert_eq!(scope.spawn(|| gauge.get()).join().unwrap(), 7);
                });
                number.store(8, Ordering::Relaxed);
                assert_eq!(gauge.get(), 8);
            });
        }
        assert_eq!(gauge.get(), 0);
    }
}

//! Detection of `fork`, and values that each child process creates anew.
//!
//! A child has a copy of the memory but only one thread. State that other threads maintain, such as
//! workers, the pool and wait queues, is unusable there, so the child starts with its own.
//!
//! A thread of `std` takes a lock of `std` when it starts. In a child of a fork meanwhile, the lock stays
//! locked, and no thread can start any more. So the library [starts](spawn) its threads here, and a
//! fork [waits](await_starts) for them.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, ptr};

/// Number of forks between the initial process and this one. Relaxed: it changes while there is one
/// thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs between a process and its children.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Records that this process is a forked child. Called by its only thread.
pub(crate) fn mark_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    STARTING.store(0, Ordering::Relaxed);
}

/// Number of threads that are about to start.
static STARTING: AtomicUsize = AtomicUsize::new(0);

/// How long a fork waits for threads to start: a machine that takes longer has other troubles.
const START_TIME_MAX: Duration = Duration::from_secs(1);

/// Starts a thread, for which forks wait.
///
/// # Errors
///
/// The errors of [`thread::Builder::spawn`].
pub(crate) fn spawn(
    builder: thread::Builder,
    body: Box<dyn FnOnce() + Send>,
) -> io::Result<JoinHandle<()>> {
    struct Starting;
    impl Drop for Starting {
        fn drop(&mut self) {
            // Release pairs with the acquire in `await_starts`.
            STARTING.fetch_sub(1, Ordering::Release);
        }
    }
    STARTING.fetch_add(1, Ordering::Relaxed);
    let starting = Starting;
    set_spawning(true);
    let spawned = builder.spawn(move || {
        drop(starting);
        body();
    });
    set_spawning(false);
    spawned
}

thread_local! {
    static IS_SPAWNING: Cell<bool> = const { Cell::new(false) };
}

/// Never inlined, like every access to a thread-local that fibers make.
#[inline(never)]
fn set_spawning(is_spawning: bool) {
    IS_SPAWNING.set(is_spawning);
}

/// Returns `true` while the caller starts a thread of the library's.
#[inline(never)]
pub(crate) fn is_spawning() -> bool {
    IS_SPAWNING.get()
}

/// Waits until the threads have started that are about to. Called by a thread that forks.
pub(crate) fn await_starts() {
    let begin = Instant::now();
    while STARTING.load(Ordering::Acquire) > 0 && begin.elapsed() < START_TIME_MAX {
        thread::yield_now();
    }
}

/// Terminates a forked child whose only thread has nothing to return to, as the rest of its stack
/// belongs to a worker of the parent. A thread of `std` whose closure returns in a forked child
/// behaves the same, except that a panic sets the exit code here.
pub(crate) fn end(has_panicked: bool) -> ! {
    const PANICKED: i32 = 101;
    std::process::exit(if has_panicked { PANICKED } else { 0 })
}

/// A static value that each forked child creates anew, as another thread of the parent may have
/// been modifying it during the fork.
pub(crate) struct PerProcess<T: 'static> {
    /// The value of the initial process.
    first: T,
    /// The value of the most recent child that used it. Values of its ancestors are leaked.
    last: AtomicPtr<OfChild<T>>,
    make: fn() -> T,
}

struct OfChild<T> {
    generation: u32,
    value: T,
}

impl<T> PerProcess<T> {
    /// Creates the value for the initial process; `make` creates the value for a child.
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
    #[allow(
        unsafe_code,
        reason = "a reference to a leaked value, made from its address"
    )]
    fn of_child(&'static self, generation: u32) -> &'static T {
        // Acquire pairs with the release of the exchange below.
        let last = self.last.load(Ordering::Acquire);
        // SAFETY: values stored here are never freed.
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
            // Another thread of this child stored its value first; the value created here is
            // leaked. SAFETY: values stored here are never freed.
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

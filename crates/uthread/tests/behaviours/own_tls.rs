//! Thread-local storage of its own: a fiber cannot tell that it is not a thread.

use std::cell::{Cell, LazyCell, RefCell};
use std::collections::HashSet;
use std::ffi::c_void;
use std::io::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::thread::gettid;

use crate::harness::place::Place;
use crate::harness::{Gap, behaviours};
use crate::support::{HANG, eventually};
use uthread::{scope, sleep, spawn, timeout, try_scope, yield_now};

pub(crate) const WITHOUT_OWN_TLS: Gap = Gap(
    |place| !place.has_own_tls(),
    "about fibers with thread-local storage of their own",
);
pub(crate) const WITH_OWN_TLS: &[Gap] = &[WITHOUT_OWN_TLS];

behaviours![(
    WITH_OWN_TLS,
    [
        values_are_the_fibers_and_borrowed_across_moves,
        destructors_run_before_a_join_returns,
        a_destructor_may_wait,
        a_destructor_waits_whatever_has_ended_its_fiber,
        an_initializer_may_wait,
        destructors_of_keys_run_before_a_join_returns,
        a_result_that_nobody_joins_is_dropped_on_a_thread,
        the_next_fiber_finds_initial_values,
        errno_is_the_fibers,
        each_fiber_is_a_thread_of_std,
        a_guard_of_standard_output_moves_with_its_fiber,
        a_panic_moves_with_its_fiber,
        a_thread_started_by_a_fiber_is_another,
        ten_thousand_live_at_once
    ]
)];

const FIBERS: usize = 100;
const ROUNDS: usize = 50;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(7) };
    static LIST: RefCell<Vec<usize>> = RefCell::default();
}

/// Keeps the calling fiber's thread so long that its worker goes on with the other fibers on
/// another one.
fn move_worker() {
    thread::sleep(Duration::from_millis(3));
}

/// Runs many fibers at once.
fn in_many(place: Place, action: impl Fn(usize) + Sync) {
    place.run(|| {
        scope(|scope| {
            for number in 0..FIBERS {
                let action = &action;
                scope.spawn(move || action(number));
            }
        });
    });
}

fn values_are_the_fibers_and_borrowed_across_moves(place: Place) {
    let moved = AtomicUsize::new(0);
    let borrow_in_many = || {
        in_many(place, |number| {
            assert_eq!(NUMBER.replace(number), 7);
            let first = gettid();
            LIST.with_borrow_mut(|list| {
                for round in 0..ROUNDS {
                    list.push(round);
                    if number == 2 * round {
                        move_worker();
                    }
                    yield_now();
                    assert_eq!((list.len(), NUMBER.get()), (round + 1, number));
                    let has_moved = gettid() != first;
                    moved.fetch_add(usize::from(has_moved), Ordering::Relaxed);
                }
            });
        });
        moved.load(Ordering::Relaxed) > 0
    };
    // The monitor decides when a worker moves.
    eventually("a fiber moves with what it has borrowed", borrow_in_many);
}

/// Counts its drops, and checks that the other values are still there.
struct Counted(&'static AtomicUsize, usize);

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(NUMBER.get(), self.1);
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counter() -> &'static AtomicUsize {
    Box::leak(Box::default())
}

thread_local! {
    static COUNTED: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

fn destructors_run_before_a_join_returns(place: Place) {
    let drops = counter();
    place.run(|| {
        for number in 0..FIBERS {
            let fiber = spawn(move || {
                NUMBER.set(number);
                COUNTED.set(Some(Counted(drops, number)));
                yield_now();
            });
            fiber.join().unwrap();
            assert_eq!(drops.load(Ordering::SeqCst), number + 1);
        }
    });
}

fn a_destructor_may_wait(place: Place) {
    struct Waits(&'static AtomicUsize);
    impl Drop for Waits {
        fn drop(&mut self) {
            sleep(Duration::from_millis(1));
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) });
    let drops = counter();
    in_many(place, |_| WAITS.set(Some(Waits(drops))));
    assert_eq!(drops.load(Ordering::SeqCst), FIBERS);
}

/// Catches a destructor that is unwound, which aborts the process.
fn a_destructor_waits_whatever_has_ended_its_fiber(place: Place) {
    struct Waits(&'static AtomicUsize);
    impl Drop for Waits {
        fn drop(&mut self) {
            yield_now();
            sleep(Duration::from_millis(1));
            uthread::fs::metadata("/").unwrap();
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) });
    struct CreatesOne(&'static AtomicUsize);
    impl Drop for CreatesOne {
        fn drop(&mut self) {
            WAITS.set(Some(Waits(self.0)));
        }
    }
    let drops = counter();
    let begun = counter();
    let wait = || {
        WAITS.set(Some(Waits(drops)));
        begun.fetch_add(1, Ordering::SeqCst);
        sleep(HANG);
    };
    let runtime = place.runtime();
    let cancelled = place.spawn_waiting(&runtime, wait);
    cancelled.cancel();
    assert!(cancelled.join().is_err());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    runtime.run(|| {
        // A fiber whose time is over before it starts has nothing to drop.
        let mut soon = Duration::from_millis(1);
        while begun.load(Ordering::SeqCst) < 2 {
            assert!(timeout(soon, || scope(|scope| drop(scope.spawn(wait)))).is_err());
            soon *= 2;
        }
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        let failed = try_scope(|scope| {
            scope.spawn(|| {
                wait();
                Ok(())
            });
            while begun.load(Ordering::SeqCst) < 3 {
                yield_now();
            }
            Err::<(), _>(())
        });
        assert!(failed.is_err());
        assert_eq!(drops.load(Ordering::SeqCst), 3);
    });
    // Nobody takes its value, which is dropped at the very end.
    drop(place.spawn_waiting(&runtime, || {
        let _ = std::panic::catch_unwind(|| sleep(HANG));
        CreatesOne(drops)
    }));
    let ended = place.spawn_waiting(&runtime, wait);
    drop(runtime);
    assert!(ended.join().is_err());
    assert_eq!(drops.load(Ordering::SeqCst), 5);
}

fn an_initializer_may_wait(place: Place) {
    thread_local!(static SLOW: LazyCell<Box<usize>> = const {
        LazyCell::new(|| {
            yield_now();
            sleep(Duration::from_millis(1));
            Box::new(NUMBER.get())
        })
    });
    in_many(place, |number| {
        NUMBER.set(number);
        SLOW.with(|slow| {
            let first: *const usize = &***slow;
            yield_now();
            SLOW.with(|again| assert!(ptr::eq(first, &***again)));
            assert_eq!(***slow, number);
        });
    });
}

#[allow(unsafe_code, reason = "functions of the C library")]
fn destructors_of_keys_run_before_a_join_returns(place: Place) {
    static DROPS: OnceLock<&AtomicUsize> = OnceLock::new();
    extern "C" fn drop_value(value: *mut c_void) {
        assert_eq!(value.addr(), NUMBER.get() + 1);
        DROPS.get().unwrap().fetch_add(1, Ordering::SeqCst);
    }
    let drops = *DROPS.get_or_init(counter);
    let before = drops.load(Ordering::SeqCst);
    let mut key = 0;
    // SAFETY: the destructor takes any value.
    let created = unsafe { libc::pthread_key_create(&mut key, Some(drop_value)) };
    assert_eq!(created, 0);
    let runtime = place.runtime();
    runtime.run(|| {
        for number in 0..FIBERS {
            let fiber = spawn(move || {
                NUMBER.set(number);
                let value = ptr::without_provenance_mut::<c_void>(number + 1);
                // SAFETY: the key exists.
                assert!(unsafe { libc::pthread_getspecific(key) }.is_null());
                // SAFETY: as above.
                assert_eq!(unsafe { libc::pthread_setspecific(key, value) }, 0);
                yield_now();
                // SAFETY: as above.
                assert_eq!(unsafe { libc::pthread_getspecific(key) }, value);
                number
            });
            assert_eq!(fiber.join().unwrap(), number);
            assert!(drops.load(Ordering::SeqCst) > before + number);
        }
    });
    // No other fiber completes the outcome of one whose thread the C library ends.
    assert_eq!(runtime.metrics().total().fibers, FIBERS as u64 + 1);
}

fn a_result_that_nobody_joins_is_dropped_on_a_thread(place: Place) {
    struct UsesThread(&'static AtomicUsize);
    impl Drop for UsesThread {
        fn drop(&mut self) {
            // Also after the values that the fiber itself has created were dropped.
            assert_eq!(thread::current().name(), None);
            COUNTED.with_borrow_mut(|counted| assert!(counted.is_none()));
            LIST.with_borrow_mut(|list| list.push(1));
            yield_now();
            NUMBER.set(9);
            COUNTED.set(Some(Counted(self.0, 9)));
        }
    }
    let drops = counter();
    place.run(|| {
        for number in 0..FIBERS {
            let detached = &*Box::leak(Box::<AtomicBool>::default());
            let fiber = spawn(move || {
                while !detached.load(Ordering::SeqCst) {
                    yield_now();
                }
                NUMBER.set(number);
                COUNTED.set(Some(Counted(drops, number)));
                LIST.with_borrow_mut(|list| list.push(number));
                drop(thread::current());
                UsesThread(drops)
            });
            drop(fiber);
            detached.store(true, Ordering::SeqCst);
        }
        eventually("all values are dropped", || {
            drops.load(Ordering::SeqCst) == 2 * FIBERS
        });
    });
}

fn the_next_fiber_finds_initial_values(place: Place) {
    place.run(|| {
        for number in 0..FIBERS {
            let fiber = spawn(move || {
                LIST.with_borrow_mut(|list| list.push(number));
                (NUMBER.replace(number), LIST.with_borrow(Vec::len))
            });
            assert_eq!(fiber.join().unwrap(), (7, 1));
        }
    });
}

fn errno_is_the_fibers(place: Place) {
    in_many(place, |number| {
        let number = i32::try_from(number).unwrap();
        for _ in 0..ROUNDS {
            set_errno(number);
            yield_now();
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(number));
        }
    });
}

#[inline(never)]
#[allow(unsafe_code, reason = "errno has no safe form")]
fn set_errno(number: i32) {
    // SAFETY: `__errno_location(3)` has no arguments.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of the calling thread's errno.
    unsafe { errno.write(number) };
}

fn each_fiber_is_a_thread_of_std(place: Place) {
    let ids = Mutex::new(HashSet::new());
    in_many(place, |_| {
        let own = thread::current();
        yield_now();
        assert_eq!(thread::current().id(), own.id());
        // The token of the fiber's own thread, which it finds at once.
        own.unpark();
        thread::park();
        ids.lock().unwrap().insert(own.id());
    });
    assert_eq!(ids.into_inner().unwrap().len(), FIBERS);
}

fn a_guard_of_standard_output_moves_with_its_fiber(place: Place) {
    // The lock is reentrant: its owner is the thread, by the address of a thread-local.
    place.run(|| {
        let mut guard = io::stderr().lock();
        drop(spawn(|| sleep(HANG)));
        for _ in 0..5 {
            move_worker();
            yield_now();
            guard.flush().unwrap();
            drop(io::stderr().lock());
        }
    });
}

fn a_panic_moves_with_its_fiber(place: Place) {
    struct Yields;
    impl Drop for Yields {
        fn drop(&mut self) {
            move_worker();
            for _ in 0..ROUNDS {
                yield_now();
                assert!(thread::panicking());
            }
        }
    }
    in_many(place, |number| {
        assert!(!thread::panicking());
        if number % 8 == 0 {
            let unwound = std::panic::catch_unwind(|| {
                let _yields = Yields;
                std::panic::resume_unwind(Box::new(number));
            });
            assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&number));
        }
        yield_now();
        assert!(!thread::panicking());
    });
}

fn a_thread_started_by_a_fiber_is_another(place: Place) {
    place.run(|| {
        NUMBER.set(1);
        let own = thread::current().id();
        let (other, number) = thread::spawn(|| (thread::current().id(), NUMBER.get()))
            .join()
            .unwrap();
        assert_ne!(other, own);
        assert_eq!((number, NUMBER.get()), (7, 1));
    });
}

fn ten_thousand_live_at_once(place: Place) {
    const MANY: usize = 10_000;
    let waiting = AtomicUsize::new(0);
    place.run(|| {
        scope(|scope| {
            for number in 0..MANY {
                let waiting = &waiting;
                scope.spawn(move || {
                    NUMBER.set(number);
                    waiting.fetch_add(1, Ordering::Relaxed);
                    while waiting.load(Ordering::Relaxed) < MANY {
                        sleep(Duration::from_millis(20));
                    }
                    assert_eq!(NUMBER.get(), number);
                });
            }
        });
    });
}

//! Locks and cancellation: locking continues, waiting for an event ends, nothing is lost, and only
//! the panics of the owner poison.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixtures::fiber_or_thread::{InDrop, is_cancelled};
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_ONE_WORKER, ON_WORKERS, behaviours};
use crate::support::{HOUR, SHORT, let_others_run};
use uthread::sync::mpsc::{Receiver, Sender, channel};
use uthread::sync::{Barrier, Condvar, Mutex, Once, OnceLock, RwLock, Semaphore};
use uthread::time::timeout;
use uthread::{JoinHandle, Runtime, sleep, spawn, yield_now};

behaviours![
    (
        IN_FIBERS,
        [
            waiters_get_the_lock_cancelled_or_not,
            a_destructor_of_a_cancelled_fiber_takes_locks,
            a_cancelled_wait_unwinds_and_leaves_no_trace,
            a_deadline_ends_a_wait_but_not_for_a_lock,
            in_a_destructor_a_cancelled_wait_keeps_its_promises,
            a_cancellation_poisons_what_is_held,
            the_end_of_a_runtime_ends_its_waits
        ]
    ),
    (
        ON_ONE_WORKER,
        [
            a_notification_before_the_cancellation_counts,
            permits_before_the_cancellation_count,
            a_barrier_passed_before_the_cancellation_is_passed
        ]
    ),
    (ON_WORKERS, [a_panic_poisons_only_what_its_own_fiber_has]),
];

fn waiters_get_the_lock_cancelled_or_not(place: Place) {
    let runtime = place.runtime();
    let (mutex, lock) = (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(1)));
    let cell = Arc::new(OnceLock::new());
    let (guard, writer) = (mutex.lock().unwrap(), lock.write().unwrap());
    // The fiber that is about to set the cell waits for the mutex.
    let (theirs, setting) = (Arc::clone(&mutex), Arc::clone(&cell));
    let (setting_now, is_setting) = std::sync::mpsc::channel();
    let setter = runtime.spawn(move || {
        *setting.get_or_init(|| {
            setting_now.send(()).unwrap();
            *theirs.lock().unwrap()
        })
    });
    is_setting.recv().unwrap();
    let takes: [Box<dyn FnOnce() -> i32 + Send>; 4] = [
        Box::new({
            let mutex = Arc::clone(&mutex);
            move || *mutex.lock().unwrap()
        }),
        Box::new({
            let lock = Arc::clone(&lock);
            move || *lock.write().unwrap()
        }),
        Box::new({
            let lock = Arc::clone(&lock);
            move || *lock.read().unwrap()
        }),
        Box::new({
            let cell = Arc::clone(&cell);
            move || *cell.get_or_init(|| 2)
        }),
    ];
    let taking = takes.map(|take| {
        let fiber = place.spawn_waiting(&runtime, move || {
            // `take` returns although the fiber is cancelled.
            let value = take();
            (value, uthread::thread::is_cancelled())
        });
        fiber.cancel();
        fiber
    });
    let_others_run(&runtime);
    assert!(taking.iter().all(|fiber| !fiber.is_finished()));
    drop((guard, writer));
    for fiber in taking {
        assert_eq!(fiber.join().unwrap(), (1, true));
    }
    assert_eq!(setter.join().unwrap(), 1);
    assert!(!mutex.is_poisoned() && !lock.is_poisoned());
}

fn a_destructor_of_a_cancelled_fiber_takes_locks(place: Place) {
    let runtime = place.runtime();
    let (mutex, lock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
    let once = Arc::new(Once::new());
    let guard = mutex.lock().unwrap();
    let fiber = {
        let (mutex, lock, once) = (Arc::clone(&mutex), Arc::clone(&lock), Arc::clone(&once));
        place.spawn_waiting(&runtime, move || {
            let _in_drop = InDrop(|| {
                *mutex.lock().unwrap() += 1;
                *lock.write().unwrap() += 1;
                once.call_once(|| ());
            });
            sleep(HOUR);
        })
    };
    fiber.cancel();
    let_others_run(&runtime);
    assert!(!fiber.is_finished(), "the fiber does not wait");
    drop(guard);
    assert!(is_cancelled(fiber));
    // Guards that were taken by one that unwinds already do not poison.
    assert_eq!((*mutex.lock().unwrap(), *lock.read().unwrap()), (1, 1));
    assert!(once.is_completed());
}

/// Objects that a fiber waits for in vain.
struct Shared {
    mutex: Mutex<i32>,
    changed: Condvar,
    barrier: Barrier,
    semaphore: Semaphore,
    once: Once,
    cell: OnceLock<i32>,
}

const WAITS: [fn(&Shared); 8] = [
    |shared| drop(shared.changed.wait(shared.mutex.lock().unwrap())),
    |shared| {
        drop(
            shared
                .changed
                .wait_while(shared.mutex.lock().unwrap(), |_| true),
        )
    },
    |shared| {
        drop(
            shared
                .changed
                .wait_timeout(shared.mutex.lock().unwrap(), HOUR),
        )
    },
    |shared| assert!(!shared.barrier.wait().is_leader()),
    |shared| drop(shared.semaphore.acquire_many(2).unwrap()),
    |shared| drop(shared.semaphore.acquire_many_timeout(2, HOUR)),
    |shared| shared.once.wait(),
    |shared| assert_eq!(*shared.cell.wait(), 1),
];

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            mutex: Mutex::new(0),
            changed: Condvar::new(),
            barrier: Barrier::new(2),
            semaphore: Semaphore::new(1),
            once: Once::new(),
            cell: OnceLock::new(),
        })
    }

    /// Asserts that nobody waits any more, and that nothing is poisoned or taken.
    fn assert_untouched(self: &Arc<Shared>, runtime: &Runtime) {
        assert!(self.mutex.try_lock().is_ok());
        assert!(self.semaphore.try_acquire().is_ok());
        let passing = [(); 2].map(|()| {
            let theirs = Arc::clone(self);
            runtime.spawn(move || theirs.barrier.wait().is_leader())
        });
        let leaders = passing.map(|fiber| fiber.join().unwrap());
        assert_eq!(leaders.into_iter().filter(|leads| *leads).count(), 1);
        self.once.call_once(|| ());
        assert_eq!(self.cell.set(1), Ok(()));
    }
}

fn a_cancelled_wait_unwinds_and_leaves_no_trace(place: Place) {
    for wait in WAITS {
        let (runtime, shared) = (place.runtime(), Shared::new());
        let theirs = Arc::clone(&shared);
        // A wait with a timeout of its own ends by that, and is repeated.
        let endless = move || loop {
            wait(&theirs);
        };
        let fiber: JoinHandle<()> = place.spawn_waiting(&runtime, endless);
        fiber.cancel();
        assert!(is_cancelled(fiber));
        shared.assert_untouched(&runtime);
    }
}

fn a_deadline_ends_a_wait_but_not_for_a_lock(place: Place) {
    for wait in WAITS {
        let (runtime, shared) = (place.runtime(), Shared::new());
        let theirs = Arc::clone(&shared);
        // A wait with a timeout of its own ends by that, and is repeated.
        let endless = move || loop {
            wait(&theirs);
        };
        runtime.run(move || assert!(timeout::<()>(SHORT, endless).is_err()));
        shared.assert_untouched(&runtime);
    }
    let runtime = place.runtime();
    let mutex = Arc::new(Mutex::new(1));
    let guard = mutex.lock().unwrap();
    let theirs = Arc::clone(&mutex);
    let fiber = place.spawn_waiting(&runtime, move || {
        timeout(Duration::ZERO, || *theirs.lock().unwrap())
    });
    assert!(!fiber.is_finished());
    drop(guard);
    assert_eq!(fiber.join().unwrap().ok(), Some(1));
}

fn in_a_destructor_a_cancelled_wait_keeps_its_promises(place: Place) {
    let (runtime, shared) = (place.runtime(), Shared::new());
    let (sender, seen) = std::sync::mpsc::channel();
    let permit = shared.semaphore.acquire().unwrap();
    let theirs = Arc::clone(&shared);
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let guard = theirs.mutex.lock().unwrap();
            let guard = theirs.changed.wait(guard).unwrap();
            assert!(
                theirs.mutex.try_lock().is_err(),
                "the fiber lacks the mutex"
            );
            drop(guard);
            theirs.barrier.wait();
            assert!(theirs.semaphore.acquire_timeout(HOUR).is_err());
            sender.send("about to wait on").unwrap();
            // Others rely on these.
            drop(theirs.semaphore.acquire().unwrap());
            sender.send("has had a permit").unwrap();
            assert_eq!(theirs.cell.wait(), &1);
            theirs.once.wait();
            sender.send("has seen the value").unwrap();
        });
        sleep(HOUR);
    });
    fiber.cancel();
    assert_eq!(seen.recv().unwrap(), "about to wait on");
    let_others_run(&runtime);
    assert!(seen.try_recv().is_err());
    drop(permit);
    assert_eq!(seen.recv().unwrap(), "has had a permit");
    let_others_run(&runtime);
    assert!(seen.try_recv().is_err());
    shared.cell.set(1).unwrap();
    shared.once.call_once(|| ());
    assert_eq!(seen.recv().unwrap(), "has seen the value");
    assert!(is_cancelled(fiber));
}

fn a_cancellation_poisons_what_is_held(place: Place) {
    let runtime = place.runtime();
    let (mutex, lock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
    let (theirs, read) = (Arc::clone(&mutex), Arc::clone(&lock));
    let fiber = place.spawn_waiting(&runtime, move || {
        let _guards = (theirs.lock().unwrap(), read.read().unwrap());
        sleep(HOUR);
    });
    fiber.cancel();
    assert!(is_cancelled(fiber));
    assert!(mutex.is_poisoned());
    assert!(
        mutex
            .try_lock()
            .is_err_and(|error| { matches!(error, uthread::sync::TryLockError::Poisoned(_)) })
    );
    assert!(!lock.is_poisoned());
    assert!(lock.try_write().is_ok());
}

fn the_end_of_a_runtime_ends_its_waits(place: Place) {
    for wait in WAITS {
        let (runtime, shared) = (place.runtime(), Shared::new());
        let theirs = Arc::clone(&shared);
        let fiber = place.spawn_waiting(&runtime, move || {
            loop {
                wait(&theirs);
            }
        });
        drop(runtime);
        assert!(is_cancelled(fiber));
        shared.assert_untouched(&place.runtime());
    }
}

/// Starts a fiber of this worker, and returns when it waits.
fn spawn_until_it_waits<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let begun = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&begun);
    let fiber = spawn(move || {
        theirs.store(true, Ordering::Relaxed);
        call()
    });
    while !begun.load(Ordering::Relaxed) {
        yield_now();
    }
    fiber
}

fn a_notification_before_the_cancellation_counts(place: Place) {
    place.run(|| {
        let shared = Shared::new();
        let waiting = [(); 2].map(|()| {
            let theirs = Arc::clone(&shared);
            spawn_until_it_waits(move || {
                *theirs.changed.wait(theirs.mutex.lock().unwrap()).unwrap() += 1;
            })
        });
        let [first, second] = waiting;
        shared.changed.notify_one();
        first.cancel();
        assert!(first.join().is_ok(), "the notified waiter failed");
        assert!(!second.is_finished());
        // A cancelled waiter that was not notified is passed over.
        let theirs = Arc::clone(&shared);
        let third = spawn_until_it_waits(move || {
            drop(theirs.changed.wait(theirs.mutex.lock().unwrap()).unwrap());
        });
        second.cancel();
        assert!(is_cancelled(second));
        shared.changed.notify_one();
        third.join().unwrap();
        assert_eq!(*shared.mutex.lock().unwrap(), 1);
    });
}

fn permits_before_the_cancellation_count(place: Place) {
    place.run(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let theirs = Arc::clone(&semaphore);
        let fiber = spawn_until_it_waits(move || theirs.acquire_many(2).unwrap().forget());
        semaphore.add_permits(3);
        fiber.cancel();
        assert!(fiber.join().is_ok());
        assert_eq!(semaphore.available_permits(), 1);
    });
}

fn a_barrier_passed_before_the_cancellation_is_passed(place: Place) {
    place.run(|| {
        let barrier = Arc::new(Barrier::new(2));
        let theirs = Arc::clone(&barrier);
        let fiber = spawn_until_it_waits(move || theirs.wait().is_leader());
        assert!(barrier.wait().is_leader());
        fiber.cancel();
        assert!(!fiber.join().unwrap());
    });
}

/// Spawns a fiber that panics, and waits in its destructor until it is told to go on.
fn spawn_that_waits_while_it_panics(mutex: &Arc<Mutex<i32>>) -> (JoinHandle<()>, Sender<()>) {
    struct Waits(Sender<()>, Receiver<()>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }
    let (said, heard) = channel();
    let (resume, resumed) = channel();
    let mutex = Arc::clone(mutex);
    let fiber = spawn(move || {
        let _guard = mutex.lock().unwrap();
        let _waits = Waits(said, resumed);
        panic!("and waits");
    });
    heard.recv().unwrap();
    (fiber, resume)
}

fn a_panic_poisons_only_what_its_own_fiber_has(place: Place) {
    // The hook by which the library learns of panics is replaced where trials run beside each
    // other.
    alone(|| check_whom_a_panic_poisons(place));
}

fn check_whom_a_panic_poisons(place: Place) {
    let panicking = |_| {
        let mutex = Mutex::new(0);
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let _guard = mutex.lock().unwrap();
            panic!("beside the other");
        }));
        assert!(panicked.is_err());
        assert!(mutex.is_poisoned(), "a panic was not noticed");
    };
    place.run(|| {
        let theirs = Arc::new(Mutex::new(0));
        let (before, during) = (Mutex::new(0), Mutex::new(0));
        let lock = RwLock::new(0);
        let guard = before.lock().unwrap();
        let (fiber, resume) = spawn_that_waits_while_it_panics(&theirs);
        // Where fibers share the worker the thread panics all the while.
        drop(guard);
        drop((during.lock().unwrap(), lock.write().unwrap()));
        let across = during.lock().unwrap();
        assert!(!before.is_poisoned() && !during.is_poisoned() && !lock.is_poisoned());
        (0..3).for_each(panicking);
        drop(before.lock().unwrap());
        assert!(!before.is_poisoned(), "by a panic that is over");
        // A cancelled fiber that holds the lock does not poison it either.
        let held = Arc::new(Mutex::new(0));
        let mutex = Arc::clone(&held);
        let cancelled = spawn_until_it_waits(move || {
            let _guard = mutex.lock().unwrap();
            uthread::shield(|| ());
            loop {
                sleep(HOUR);
            }
        });
        resume.send(()).unwrap();
        assert!(fiber.join().is_err());
        assert!(theirs.is_poisoned());
        drop(across);
        assert!(!during.is_poisoned());
        panicking(0);
        cancelled.cancel();
        assert!(is_cancelled(cancelled));
        assert!(held.is_poisoned());
    });
}

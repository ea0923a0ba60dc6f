//! Mutexes and read-write locks, between fibers and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::fixtures::fiber_or_thread::{Running, Side, mixed};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{
    EVERYWHERE, MORE_WORKERS, ON_ONE_LEAN_WORKER, ON_ONE_WORKER, OUTSIDE, behaviours,
};
use crate::support::HANG;
use uthread::runtime::Metrics;
use uthread::sync::{Mutex, RwLock, RwLockWriteGuard, TryLockError};
use uthread::{spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            a_mutex_has_one_holder_at_a_time,
            a_writer_is_alone_and_readers_are_not,
            a_static_may_be_locked,
            a_downgraded_writer_keeps_other_writers_out,
            trying_does_not_wait
        ]
    ),
    (
        ON_ONE_WORKER,
        [
            a_guard_may_be_held_while_others_run,
            a_mutex_that_is_taken_again_at_once_is_handed_over,
            a_loop_of_tries_lets_the_owner_run
        ]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [a_mutex_that_is_taken_again_and_again_wakes_one_waiter]
    ),
    (
        &[OUTSIDE, MORE_WORKERS],
        [
            waiters_are_served_in_the_order_of_their_calls,
            readers_queue_behind_a_waiting_writer,
            a_downgraded_writer_admits_readers_that_wait_before_the_next_writer
        ]
    ),
];

/// How often each of some fibers or threads comes.
const ROUNDS: usize = 100;

/// Starts the given number of fibers or threads of each kind.
fn start_all(
    here: &Side<'_>,
    there: &Side<'_>,
    count: usize,
    run: impl Fn() + Clone + Send + 'static,
) {
    let sides = (0..count).flat_map(|_| [here, there]);
    let running: Vec<_> = sides.map(|side| side.start(run.clone())).collect();
    running.into_iter().for_each(Running::join);
}

fn a_mutex_has_one_holder_at_a_time(place: Place) {
    mixed(place, |here, there| {
        let total = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&total);
        start_all(here, there, 3, move || {
            for round in 0..ROUNDS {
                let mut total = counted.lock().unwrap();
                let before = *total;
                if round % 3 == 0 {
                    yield_now();
                }
                *total = before + 1;
            }
        });
        assert_eq!(*total.lock().unwrap(), 6 * ROUNDS);
    });
}

fn a_writer_is_alone_and_readers_are_not(place: Place) {
    mixed(place, |here, there| {
        let pair = Arc::new(RwLock::new((0, 0)));
        let shared = Arc::clone(&pair);
        start_all(here, there, 3, move || {
            for round in 0..ROUNDS {
                if round % 4 == 0 {
                    let mut writer = shared.write().unwrap();
                    writer.0 += 1;
                    yield_now();
                    writer.1 += 1;
                } else {
                    let reader = shared.read().unwrap();
                    let first = reader.0;
                    yield_now();
                    assert_eq!((first, first), *reader);
                }
            }
        });
        assert_eq!(pair.read().unwrap().0, 6 * ROUNDS / 4);
    });
    place.run(|| {
        let lock = RwLock::new(1);
        let readers = [lock.read().unwrap(), lock.read().unwrap()];
        assert!(lock.try_write().is_err());
        drop(readers);
        assert!(lock.try_write().is_ok());
    });
}

fn a_static_may_be_locked(place: Place) {
    static COUNT: Mutex<usize> = Mutex::new(0);
    static LIST: RwLock<Vec<usize>> = RwLock::new(Vec::new());
    let before = *COUNT.lock().unwrap();
    mixed(place, |here, there| {
        start_all(here, there, 1, || {
            *COUNT.lock().unwrap() += 1;
            LIST.write().unwrap().push(1);
        });
    });
    assert!(*COUNT.lock().unwrap() > before);
    assert!(!LIST.read().unwrap().is_empty());
}

fn a_downgraded_writer_keeps_other_writers_out(place: Place) {
    mixed(place, |here, there| {
        let lock = Arc::new(RwLock::new(0));
        let shared = Arc::clone(&lock);
        start_all(here, there, 2, move || {
            for _ in 0..ROUNDS {
                let mut writer = shared.write().unwrap();
                *writer += 1;
                let written = *writer;
                let reader = RwLockWriteGuard::downgrade(writer);
                yield_now();
                assert_eq!(*reader, written);
            }
        });
        assert_eq!(*lock.read().unwrap(), 4 * ROUNDS);
        assert!(lock.try_write().is_ok());
    });
}

fn trying_does_not_wait(place: Place) {
    place.run(|| {
        let mutex = Mutex::new(1);
        let guard = mutex.try_lock().unwrap();
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
        drop(guard);
        assert_eq!(*mutex.try_lock().unwrap(), 1);

        let lock = RwLock::new(1);
        let reader = lock.try_read().unwrap();
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        assert!(lock.try_read().is_ok());
        drop(reader);
        let writer = lock.try_write().unwrap();
        assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        drop(writer);
    });
}

fn a_guard_may_be_held_while_others_run(place: Place) {
    place.run(|| {
        let mutex = Arc::new(Mutex::new("free"));
        let mut guard = mutex.lock().unwrap();
        let waiting = {
            let mutex = Arc::clone(&mutex);
            spawn(move || *mutex.lock().unwrap())
        };
        let ran = spawn(|| ());
        while !ran.is_finished() {
            yield_now();
        }
        assert!(!waiting.is_finished());
        *guard = "given back";
        drop(guard);
        assert_eq!(waiting.join().unwrap(), "given back");
    });
}

/// Catches a waiter that starves: on one worker, a fiber that takes the mutex again is always
/// faster than one that has to be woken.
fn a_mutex_that_is_taken_again_at_once_is_handed_over(place: Place) {
    place.run(|| {
        let mutex = Arc::new(Mutex::new(()));
        let mut guard = mutex.lock().unwrap();
        let waiting = {
            let mutex = Arc::clone(&mutex);
            spawn(move || drop(mutex.lock().unwrap()))
        };
        let begin = Instant::now();
        while !waiting.is_finished() {
            yield_now();
            drop(guard);
            guard = mutex.lock().unwrap();
            assert!(begin.elapsed() < HANG, "the fiber starves");
        }
    });
}

/// Catches needless wake-ups: each of the others would find the mutex taken, and be switched to in
/// vain.
fn a_mutex_that_is_taken_again_and_again_wakes_one_waiter(place: Place) {
    place.run(|| {
        let mutex = Arc::new(Mutex::new(()));
        let mut guard = mutex.lock().unwrap();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                spawn(move || drop(mutex.lock().unwrap()))
            })
            .collect();
        let let_all_run = || (0..100).for_each(|_| yield_now());
        let_all_run();
        for _ in 0..100 {
            drop(guard);
            guard = mutex.lock().unwrap();
        }
        let switches = || Metrics::current().unwrap().total().switches;
        let before = switches();
        let_all_run();
        let woken = switches() - before - 100;
        assert!(woken < 5, "{woken} were woken");
        drop(guard);
        waiting.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

fn a_loop_of_tries_lets_the_owner_run(place: Place) {
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.lock().unwrap();
    one_worker_lets_others_run(place, || assert!(mutex.try_lock().is_err()));
    drop(guard);
    let lock = RwLock::new(());
    let guard = lock.write().unwrap();
    one_worker_lets_others_run(place, || assert!(lock.try_read().is_err()));
    one_worker_lets_others_run(place, || assert!(lock.try_write().is_err()));
    drop(guard);
}

fn waiters_are_served_in_the_order_of_their_calls(place: Place) {
    let runtime = place.runtime();
    let order = Arc::new(Mutex::new(Vec::new()));
    let guard = order.lock().unwrap();
    let waiting: Vec<_> = (0..6)
        .map(|number| {
            let order = Arc::clone(&order);
            place.spawn_waiting(&runtime, move || order.lock().unwrap().push(number))
        })
        .collect();
    drop(guard);
    waiting.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

fn readers_queue_behind_a_waiting_writer(place: Place) {
    let runtime = place.runtime();
    let lock = Arc::new(RwLock::new(0));
    let first = lock.read().unwrap();
    let writer = {
        let lock = Arc::clone(&lock);
        place.spawn_waiting(&runtime, move || *lock.write().unwrap() = 1)
    };
    assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
    let readers = [(); 3].map(|()| {
        let lock = Arc::clone(&lock);
        place.spawn_waiting(&runtime, move || *lock.read().unwrap())
    });
    assert!(!writer.is_finished());
    drop(first);
    writer.join().unwrap();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), 1, "the reader overtook the writer");
    }
}

fn a_downgraded_writer_admits_readers_that_wait_before_the_next_writer(place: Place) {
    let runtime = place.runtime();
    let lock = Arc::new(RwLock::new(0));
    let inside = Arc::new(AtomicUsize::new(0));
    let written = Arc::new(AtomicBool::new(false));
    let mut writer = lock.write().unwrap();
    let reading = |_| {
        let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
        place.spawn_waiting(&runtime, move || {
            let reader = lock.read().unwrap();
            inside.fetch_add(1, Ordering::Relaxed);
            *reader
        })
    };
    let before: Vec<_> = (0..2).map(reading).collect();
    let next = {
        let (lock, written) = (Arc::clone(&lock), Arc::clone(&written));
        place.spawn_waiting(&runtime, move || {
            *lock.write().unwrap() = 2;
            written.store(true, Ordering::Relaxed);
        })
    };
    *writer = 1;
    let reader = RwLockWriteGuard::downgrade(writer);
    for fiber in before {
        assert_eq!(fiber.join().unwrap(), 1);
    }
    assert_eq!(inside.load(Ordering::Relaxed), 2);
    assert!(!written.load(Ordering::Relaxed), "beside a reader");
    drop(reader);
    next.join().unwrap();
    assert_eq!(*lock.read().unwrap(), 2);
}

//! Condition variables, barriers and semaphores, between fibers and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{Running, mixed};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{EVERYWHERE, MORE_WORKERS, ON_ONE_WORKER, OUTSIDE, behaviours};
use crate::support::{HOUR, SHORT};
use uthread::sync::{Barrier, Condvar, Mutex, Semaphore, TryAcquireError};
use uthread::{spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            two_sides_take_turns,
            all_are_notified,
            a_wait_ends_at_its_timeout,
            enough_fibers_pass_a_barrier_together,
            no_more_have_permits_than_there_are,
            permits_that_are_kept_or_added_change_the_bound,
            an_owned_permit_may_go_anywhere,
            a_wait_for_permits_ends_at_its_timeout,
            a_closed_semaphore_refuses_and_takes_permits_back,
            closing_ends_every_wait_for_permits,
        ]
    ),
    (
        &[OUTSIDE, MORE_WORKERS],
        [
            waiters_are_notified_in_the_order_of_their_calls,
            a_waiter_for_many_permits_is_not_overtaken,
            a_waiter_that_gives_up_lets_the_next_acquire,
            closing_refuses_only_those_that_still_wait,
        ]
    ),
    (
        ON_ONE_WORKER,
        [a_loop_of_tries_for_a_permit_lets_others_run]
    ),
];

fn two_sides_take_turns(place: Place) {
    const ROUNDS: usize = 200;
    mixed(place, |here, there| {
        let table = Arc::new((Mutex::new(0), Condvar::new()));
        let player = |own: usize| {
            let table = Arc::clone(&table);
            move || {
                let (turn, changed) = &*table;
                for round in 0..ROUNDS {
                    let turn = turn.lock().unwrap();
                    let theirs = 2 * round + own;
                    let mut turn = changed.wait_while(turn, |turn| *turn != theirs).unwrap();
                    *turn += 1;
                    drop(turn);
                    changed.notify_one();
                }
            }
        };
        let players = [here.start(player(0)), there.start(player(1))];
        players.into_iter().for_each(Running::join);
        assert_eq!(*table.0.lock().unwrap(), 2 * ROUNDS);
    });
}

fn all_are_notified(place: Place) {
    mixed(place, |here, there| {
        let start = Arc::new((Mutex::new((0, false)), Condvar::new()));
        let runners: Vec<_> = [here, there, here, there]
            .into_iter()
            .map(|side| {
                let start = Arc::clone(&start);
                side.start(move || {
                    let (state, changed) = &*start;
                    let mut guard = state.lock().unwrap();
                    guard.0 += 1;
                    changed.notify_all();
                    drop(changed.wait_while(guard, |(_, go)| !*go).unwrap());
                })
            })
            .collect();
        let (state, changed) = &*start;
        let mut guard = changed
            .wait_while(state.lock().unwrap(), |(there, _)| *there < 4)
            .unwrap();
        guard.1 = true;
        changed.notify_all();
        drop(guard);
        runners.into_iter().for_each(Running::join);
    });
}

fn a_wait_ends_at_its_timeout(place: Place) {
    place.run(|| {
        let (mutex, changed) = (Mutex::new(1), Condvar::new());
        let begin = Instant::now();
        let (guard, result) = changed.wait_timeout(mutex.lock().unwrap(), SHORT).unwrap();
        assert!(result.timed_out());
        assert!(begin.elapsed() >= SHORT);
        let (guard, result) = changed.wait_timeout(guard, Duration::ZERO).unwrap();
        assert!(result.timed_out());
        assert!(mutex.try_lock().is_err(), "the mutex is locked again");
        drop(guard);
        // A time that the clock does not reach is no reason to panic.
        let waited = changed.wait_timeout_while(mutex.lock().unwrap(), Duration::MAX, |_| false);
        assert!(!waited.unwrap().1.timed_out());
        assert!(mutex.try_lock().is_ok());
    });
}

fn enough_fibers_pass_a_barrier_together(place: Place) {
    const ROUNDS: usize = 50;
    const COUNT: usize = 4;
    mixed(place, |here, there| {
        let barrier = Arc::new(Barrier::new(COUNT));
        let (begun, leaders) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let running = [here, there, here, there].map(|side| {
            let (barrier, begun) = (Arc::clone(&barrier), Arc::clone(&begun));
            let leaders = Arc::clone(&leaders);
            side.start(move || {
                for round in 0..ROUNDS {
                    begun.fetch_add(1, Ordering::Relaxed);
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(begun.load(Ordering::Relaxed) >= (round + 1) * COUNT);
                    barrier.wait();
                }
            })
        });
        running.into_iter().for_each(Running::join);
        assert_eq!(leaders.load(Ordering::Relaxed), ROUNDS);
    });
}

fn no_more_have_permits_than_there_are(place: Place) {
    const PERMITS: usize = 3;
    mixed(place, |here, there| {
        let semaphore = Arc::new(Semaphore::new(PERMITS));
        let inside = Arc::new(AtomicUsize::new(0));
        let running: Vec<_> = (0..4)
            .flat_map(|_| [here, there])
            .enumerate()
            .map(|(index, side)| {
                let (semaphore, inside) = (Arc::clone(&semaphore), Arc::clone(&inside));
                let count = index % PERMITS + 1;
                side.start(move || {
                    for _ in 0..50 {
                        let permits = semaphore.acquire_many(count).unwrap();
                        let before = inside.fetch_add(count, Ordering::Relaxed);
                        assert!(before + count <= PERMITS);
                        yield_now();
                        inside.fetch_sub(count, Ordering::Relaxed);
                        drop(permits);
                    }
                })
            })
            .collect();
        running.into_iter().for_each(Running::join);
        assert_eq!(semaphore.available_permits(), PERMITS);
        assert!(semaphore.try_acquire_many(PERMITS).is_ok());
    });
}

fn permits_that_are_kept_or_added_change_the_bound(place: Place) {
    place.run(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        assert!(semaphore.try_acquire_many(2).is_err());
        semaphore.add_permits(2);
        assert_eq!(semaphore.available_permits(), 3);
        semaphore.acquire_many(2).unwrap().forget();
        assert_eq!(semaphore.available_permits(), 1);
        Arc::clone(&semaphore).acquire_owned().unwrap().forget();
        assert!(semaphore.try_acquire().is_err());
        assert_eq!(semaphore.acquire_many(0).unwrap().count(), 0);
        semaphore.add_permits(Semaphore::MAX_PERMITS);
        let added = std::panic::catch_unwind(|| semaphore.add_permits(1));
        assert!(added.is_err());
        assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    });
}

fn an_owned_permit_may_go_anywhere(place: Place) {
    mixed(place, |here, there| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let theirs = Arc::clone(&semaphore);
        let waiting = here.start(move || theirs.acquire_owned().unwrap());
        there.start(move || drop(permit)).join();
        let permit = waiting.join();
        assert!(Arc::clone(&semaphore).try_acquire_owned().is_err());
        drop(permit);
        assert_eq!(semaphore.available_permits(), 1);
    });
}

fn a_wait_for_permits_ends_at_its_timeout(place: Place) {
    place.run(|| {
        let semaphore = Semaphore::new(1);
        let begin = Instant::now();
        assert!(semaphore.acquire_many_timeout(2, SHORT).is_err());
        assert!(begin.elapsed() >= SHORT);
        let permit = semaphore.acquire_timeout(Duration::MAX).unwrap();
        assert!(semaphore.acquire_timeout(Duration::ZERO).is_err());
        drop(permit);
        assert!(
            semaphore.try_acquire().is_ok(),
            "the permit is not free, but no fiber waits"
        );
    });
}

fn a_closed_semaphore_refuses_and_takes_permits_back(place: Place) {
    place.run(|| {
        let semaphore = Arc::new(Semaphore::new(3));
        let permits = semaphore.acquire_many(2).unwrap();
        assert!(!semaphore.is_closed());
        semaphore.close();
        semaphore.close();
        assert!(semaphore.is_closed());
        assert!(semaphore.acquire().is_err());
        assert!(semaphore.acquire_many(0).is_err());
        assert!(Arc::clone(&semaphore).acquire_owned().is_err());
        let closed = Some(TryAcquireError::Closed);
        assert_eq!(semaphore.try_acquire().err(), closed);
        assert_eq!(semaphore.acquire_timeout(HOUR).err(), closed);
        assert_eq!(semaphore.available_permits(), 1);
        drop(permits);
        semaphore.add_permits(1);
        assert_eq!(semaphore.available_permits(), 4);
    });
}

fn closing_ends_every_wait_for_permits(place: Place) {
    mixed(place, |here, there| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = semaphore.acquire().unwrap();
        let waiting: Vec<_> = [here, there, here, there]
            .into_iter()
            .zip([1, 2, 1, 3])
            .map(|(side, count)| {
                let semaphore = Arc::clone(&semaphore);
                side.start(move || {
                    assert!(semaphore.acquire_many(count).is_err());
                    let late = semaphore.acquire_many_timeout(count, HOUR);
                    assert_eq!(late.err(), Some(TryAcquireError::Closed));
                })
            })
            .collect();
        let theirs = Arc::clone(&semaphore);
        there.start(move || theirs.close()).join();
        waiting.into_iter().for_each(Running::join);
        drop(permit);
        assert_eq!(semaphore.available_permits(), 1);
    });
}

fn closing_refuses_only_those_that_still_wait(place: Place) {
    let runtime = place.runtime();
    let semaphore = Arc::new(Semaphore::new(0));
    let waiting = [1, 1, 2].map(|count| {
        let semaphore = Arc::clone(&semaphore);
        place.spawn_waiting(&runtime, move || {
            let permits = semaphore.acquire_many(count);
            permits.map(|permits| permits.forget()).is_ok()
        })
    });
    let theirs = Arc::clone(&semaphore);
    // The waiters that get permits run only after the semaphore is closed.
    runtime.run(move || {
        theirs.add_permits(3);
        theirs.close();
    });
    let acquired = waiting.map(|fiber| fiber.join().unwrap());
    assert_eq!(acquired, [true, true, false]);
    assert_eq!(semaphore.available_permits(), 1);
}

fn waiters_are_notified_in_the_order_of_their_calls(place: Place) {
    let runtime = place.runtime();
    let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let waiting: Vec<_> = (0..5)
        .map(|number| {
            let shared = Arc::clone(&shared);
            place.spawn_waiting(&runtime, move || {
                let (order, changed) = &*shared;
                // No wake-up of these comes for another reason.
                let mut order = changed.wait(order.lock().unwrap()).unwrap();
                order.push(number);
            })
        })
        .collect();
    for (count, fiber) in waiting.into_iter().enumerate() {
        assert_eq!(shared.0.lock().unwrap().len(), count);
        shared.1.notify_one();
        fiber.join().unwrap();
    }
    assert_eq!(*shared.0.lock().unwrap(), [0, 1, 2, 3, 4]);
}

fn a_waiter_for_many_permits_is_not_overtaken(place: Place) {
    let runtime = place.runtime();
    let semaphore = Arc::new(Semaphore::new(3));
    let held = semaphore.acquire_many(2).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let waiting = [3, 1, 2].map(|count| {
        let (semaphore, order) = (Arc::clone(&semaphore), Arc::clone(&order));
        place.spawn_waiting(&runtime, move || {
            let permits = semaphore.acquire_many(count).unwrap();
            order.lock().unwrap().push(count);
            drop(permits);
        })
    });
    assert_eq!(semaphore.available_permits(), 1);
    assert!(semaphore.try_acquire().is_err(), "others came before");
    drop(held);
    waiting.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(order.lock().unwrap()[0], 3);
    assert!(semaphore.try_acquire_many(3).is_ok());
}

fn a_waiter_that_gives_up_lets_the_next_acquire(place: Place) {
    let runtime = place.runtime();
    let semaphore = Arc::new(Semaphore::new(1));
    let [many, one] = [2, 1].map(|count| {
        let semaphore = Arc::clone(&semaphore);
        place.spawn_waiting(&runtime, move || {
            drop(semaphore.acquire_many(count).unwrap())
        })
    });
    assert!(!one.is_finished());
    many.cancel();
    one.join().unwrap();
    assert!(many.join().is_err());
    assert!(semaphore.try_acquire().is_ok());
}

fn a_loop_of_tries_for_a_permit_lets_others_run(place: Place) {
    let semaphore = Semaphore::new(0);
    one_worker_lets_others_run(place, || assert!(semaphore.try_acquire().is_err()));
    place.run(|| {
        let shared = Arc::new(Semaphore::new(0));
        let theirs = Arc::clone(&shared);
        spawn(move || theirs.add_permits(1));
        while shared.try_acquire().is_err() {}
    });
}

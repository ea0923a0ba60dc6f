//! Promises: a value that one side sets and several wait for.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{InDrop, is_cancelled, mixed};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{HANG, SHORT};
use uthread::select;
use uthread::sync::promise::{RecvError, channel};
use uthread::thread::park;

behaviours![
    (
        EVERYWHERE,
        [
            all_waiters_see_the_value,
            a_broken_promise_is_an_error_to_all_waiters,
            the_value_stays_for_later_waiters,
            a_wait_ends_at_its_timeout,
            a_promise_without_waiters_may_be_set,
            a_promise_can_be_selected
        ]
    ),
    (
        IN_FIBERS,
        [
            the_end_of_the_runtime_unwinds_waiters,
            a_wait_in_a_destructor_fails_at_the_end_of_the_runtime
        ]
    ),
];

fn all_waiters_see_the_value(place: Place) {
    const VALUE: &str = "the value";
    mixed(place, |setting, waiting| {
        for _ in 0..20 {
            let (promise, waiter) = channel();
            let seen = [(); 5].map(|()| {
                let waiter = waiter.clone();
                waiting.start(move || waiter.wait().cloned())
            });
            setting.start(move || promise.set(VALUE)).join();
            assert_eq!(waiter.wait(), Ok(&VALUE));
            for seen in seen {
                assert_eq!(seen.join(), Ok(VALUE));
            }
        }
    });
}

fn a_broken_promise_is_an_error_to_all_waiters(place: Place) {
    mixed(place, |setting, waiting| {
        let (promise, waiter) = channel::<i32>();
        let seen = [(); 3].map(|()| {
            let waiter = waiter.clone();
            waiting.start(move || waiter.wait().copied())
        });
        let timed = waiter.clone();
        let timed = waiting.start(move || timed.wait_timeout(HANG).copied());
        setting.start(move || drop(promise)).join();
        for seen in seen {
            assert_eq!(seen.join(), Err(RecvError));
        }
        assert_eq!(timed.join(), Err(RecvTimeoutError::Disconnected));
        assert_eq!(waiter.try_get(), Err(TryRecvError::Disconnected));
        assert_eq!(waiter.wait(), Err(RecvError));
    });
}

fn the_value_stays_for_later_waiters(place: Place) {
    place.run(|| {
        let (promise, waiter) = channel();
        assert_eq!(waiter.try_get(), Err(TryRecvError::Empty));
        promise.set(Box::new(7));
        let other = waiter.clone();
        assert_eq!(waiter.try_get().map(|value| **value), Ok(7));
        assert_eq!(
            other.wait_timeout(Duration::ZERO).map(|value| **value),
            Ok(7)
        );
        assert!(std::ptr::eq(waiter.wait().unwrap(), other.wait().unwrap()));
        assert_eq!(format!("{waiter:?}"), "Waiter { value: Some(7) }");
    });
}

fn a_wait_ends_at_its_timeout(place: Place) {
    mixed(place, |setting, waiting| {
        let (promise, waiter) = channel();
        let early = waiter.clone();
        let early = waiting.start(move || {
            let start = Instant::now();
            assert_eq!(early.wait_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            assert!(start.elapsed() >= SHORT);
        });
        early.join();
        let seen = waiting.start(move || waiter.wait_timeout(HANG).copied());
        setting.start(move || promise.set(1)).join();
        assert_eq!(seen.join(), Ok(1));
    });
}

fn a_promise_without_waiters_may_be_set(place: Place) {
    place.run(|| {
        let witness = Arc::new(());
        let (promise, waiter) = channel();
        drop(waiter);
        promise.set(Arc::clone(&witness));
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

fn a_promise_can_be_selected(place: Place) {
    mixed(place, |setting, waiting| {
        let (promise, waiter) = channel();
        let (broken, never) = channel::<i32>();
        select! {
            wait(&waiter) => panic!("the promise is not set yet"),
            wait(&never) => panic!("the promise is not broken yet"),
            default(SHORT) => {}
        }
        let seen = waiting.start(move || {
            let seen = select! {
                wait(&waiter) -> value => value.copied(),
                wait(&never) => panic!("the promise is not broken yet"),
            };
            (seen, never)
        });
        setting.start(move || promise.set(3)).join();
        let (seen, never) = seen.join();
        assert_eq!(seen, Ok(3));
        let seen = waiting.start(move || select! { wait(&never) -> value => value.copied() });
        setting.start(move || drop(broken)).join();
        assert_eq!(seen.join(), Err(RecvError));
    });
}

fn the_end_of_the_runtime_unwinds_waiters(place: Place) {
    let runtime = place.runtime();
    let (_promise, waiter) = channel::<()>();
    let waiting = [waiter.clone(), waiter]
        .map(|waiter| place.spawn_waiting(&runtime, move || waiter.wait().is_ok()));
    drop(runtime);
    assert!(waiting.into_iter().all(is_cancelled));
}

fn a_wait_in_a_destructor_fails_at_the_end_of_the_runtime(place: Place) {
    let runtime = place.runtime();
    let (outcome, outcomes) = channel();
    let mut outcome = Some(outcome);
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let (_promise, waiter) = channel::<()>();
            let seen = waiter.wait().copied();
            outcome.take().unwrap().set(seen);
        });
        park();
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    assert_eq!(outcomes.wait(), Ok(&Err(RecvError)));
}

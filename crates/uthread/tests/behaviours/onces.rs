//! One-time initialization between fibers and threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixtures::fiber_or_thread::{Running, mixed};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, MORE_WORKERS, OUTSIDE, behaviours};
use uthread::sync::{LazyLock, Once, OnceLock};
use uthread::thread::Cancelled;
use uthread::yield_now;

behaviours![
    (
        EVERYWHERE,
        [
            initialization_runs_once_while_others_wait,
            initialization_that_panicked_is_tried_by_the_next,
            a_waiter_sees_the_value_that_another_sets,
            a_lazy_value_is_made_once
        ]
    ),
    (
        &[OUTSIDE, MORE_WORKERS],
        [initialization_that_is_cancelled_is_tried_by_the_next]
    ),
];

fn initialization_runs_once_while_others_wait(place: Place) {
    mixed(place, |here, there| {
        let shared = Arc::new((Once::new(), AtomicUsize::new(0)));
        let running = [here, there, here, there].map(|side| {
            let shared = Arc::clone(&shared);
            side.start(move || {
                let (once, times) = &*shared;
                once.call_once(|| {
                    (0..10).for_each(|_| yield_now());
                    times.fetch_add(1, Ordering::Relaxed);
                });
                assert!(once.is_completed());
                assert_eq!(times.load(Ordering::Relaxed), 1);
            })
        });
        running.into_iter().for_each(Running::join);
    });
}

fn initialization_that_panicked_is_tried_by_the_next(place: Place) {
    mixed(place, |here, there| {
        let shared = Arc::new((OnceLock::new(), AtomicUsize::new(0)));
        let running = [here, there, here, there].map(|side| {
            let shared = Arc::clone(&shared);
            side.start(move || {
                let (cell, tries) = &*shared;
                let begin = || {
                    (0..10).for_each(|_| yield_now());
                    let before = tries.fetch_add(1, Ordering::Relaxed);
                    assert!(before > 0, "the first fails");
                    before
                };
                let got = catch_unwind(AssertUnwindSafe(|| *cell.get_or_init(begin)));
                assert!(got.is_err() || got.is_ok_and(|value| value == 1));
            })
        });
        running.into_iter().for_each(Running::join);
        assert_eq!(shared.0.get(), Some(&1));
        assert_eq!(shared.1.load(Ordering::Relaxed), 2);
    });
}

fn a_waiter_sees_the_value_that_another_sets(place: Place) {
    mixed(place, |here, there| {
        let cell = Arc::new(OnceLock::new());
        let theirs = Arc::clone(&cell);
        let waiting = here.start(move || *theirs.wait());
        let theirs = Arc::clone(&cell);
        there
            .start(move || {
                // A first one that fails ends no wait.
                let failed = catch_unwind(AssertUnwindSafe(|| {
                    theirs.get_or_init(|| panic!("the initialization fails"));
                }));
                assert!(failed.is_err());
                theirs.set(7).unwrap();
            })
            .join();
        assert_eq!(waiting.join(), 7);
        assert_eq!(cell.set(8), Err(8));
    });
}

fn a_lazy_value_is_made_once(place: Place) {
    mixed(place, |here, there| {
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&times);
        let lazy = Arc::new(LazyLock::new(move || {
            (0..10).for_each(|_| yield_now());
            counted.fetch_add(1, Ordering::Relaxed)
        }));
        let running = [here, there, here, there].map(|side| {
            let lazy = Arc::clone(&lazy);
            side.start(move || **lazy)
        });
        for each in running {
            assert_eq!(each.join(), 0);
        }
        assert_eq!(times.load(Ordering::Relaxed), 1);
    });
}

fn initialization_that_is_cancelled_is_tried_by_the_next(place: Place) {
    let runtime = place.runtime();
    let shared = Arc::new((OnceLock::new(), Once::new()));
    let theirs = Arc::clone(&shared);
    let first = place.spawn_waiting(&runtime, move || {
        *theirs.0.get_or_init(|| {
            uthread::thread::park();
            1
        })
    });
    let theirs = Arc::clone(&shared);
    let second = place.spawn_waiting(&runtime, move || *theirs.0.get_or_init(|| 2));
    first.cancel();
    assert_eq!(second.join().unwrap(), 2);
    assert!(first.join().is_err_and(|payload| payload.is::<Cancelled>()));
}

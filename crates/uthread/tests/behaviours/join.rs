//! Fork and join: results, borrows, panics, and the choice of the fiber that runs each closure.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, ON_SEVERAL_WORKERS, behaviours};
use crate::support::HOUR;
use uthread::time::Elapsed;
use uthread::{join, sleep, spawn, timeout, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            a_recursion_returns_its_results_everywhere,
            both_closures_borrow_from_the_caller,
            both_halves_of_a_join_may_wait_and_spawn_fibers,
            a_panic_comes_out_once_both_have_ended,
            a_destructor_has_its_results_after_the_deadline_of_its_fiber
        ]
    ),
    (
        IN_FIBERS,
        [a_destructor_has_its_results_at_the_end_of_its_runtime]
    ),
    (ON_SEVERAL_WORKERS, [an_idle_worker_takes_the_second]),
    (
        ON_ONE_WORKER,
        [
            a_closure_that_is_not_stolen_runs_in_the_calling_fiber,
            after_a_panic_of_the_first_the_second_does_not_begin
        ]
    ),
];

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn a_recursion_returns_its_results_everywhere(place: Place) {
    place.run(|| assert_eq!(fib(15), 610));
    if place.has_more_workers() {
        let runtime = place.runtime_of(3);
        runtime.run(|| assert_eq!(fib(18), 2584));
    }
}

fn both_closures_borrow_from_the_caller(place: Place) {
    fn sort(numbers: &mut [u32]) {
        if numbers.len() < 2 {
            return;
        }
        let pivot = numbers.len() - 1;
        let middle = (0..pivot).fold(0, |low, index| {
            if numbers[index] < numbers[pivot] {
                numbers.swap(low, index);
                low + 1
            } else {
                low
            }
        });
        numbers.swap(middle, pivot);
        let (left, right) = numbers.split_at_mut(middle);
        join(|| sort(left), || sort(&mut right[1..]));
    }
    // About as many joins, each of which may start a thread.
    let count: u32 = if place.is_of_threads() { 2_000 } else { 20_000 };
    let mut numbers: Vec<u32> = (0..count)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    place.run(|| sort(&mut numbers));
    assert_eq!(numbers, sorted);
}

fn an_idle_worker_takes_the_second(place: Place) {
    place.run(|| {
        let taken = AtomicBool::new(false);
        let (first, second) = join(
            || {
                while !taken.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                std::thread::current().id()
            },
            || {
                taken.store(true, Ordering::Release);
                std::thread::current().id()
            },
        );
        assert_ne!(first, second);
    });
}

fn a_closure_that_is_not_stolen_runs_in_the_calling_fiber(place: Place) {
    place.run(|| {
        let me = uthread::current().id();
        let (first, second) = join(|| uthread::current().id(), || uthread::current().id());
        assert_eq!((first, second), (me, me));
    });
}

fn both_halves_of_a_join_may_wait_and_spawn_fibers(place: Place) {
    place.run(|| {
        let ran = std::sync::Arc::new(AtomicUsize::new(0));
        let count = || {
            let ran = std::sync::Arc::clone(&ran);
            spawn(move || ran.fetch_add(1, Ordering::Relaxed));
            sleep(Duration::from_millis(2));
            yield_now();
        };
        join(count, count);
        while ran.load(Ordering::Relaxed) < 2 {
            yield_now();
        }
    });
}

fn a_panic_comes_out_once_both_have_ended(place: Place) {
    let panics = |payload: &'static str| -> () { std::panic::resume_unwind(Box::new(payload)) };
    let payload = |result: std::thread::Result<((), ())>| {
        *result.unwrap_err().downcast::<&'static str>().unwrap()
    };
    place.run(|| {
        let ended = AtomicUsize::new(0);
        let ends = || {
            sleep(Duration::from_millis(1));
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let caught = |a: &(dyn Fn() + Sync), b: &(dyn Fn() + Sync)| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| join(a, b)))
        };
        assert_eq!(payload(caught(&ends, &|| panics("second"))), "second");
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        let both = caught(&|| panics("first"), &|| panics("second"));
        assert_eq!(payload(both), "first");
    });
}

fn after_a_panic_of_the_first_the_second_does_not_begin(place: Place) {
    place.run(|| {
        let began = AtomicBool::new(false);
        let result = std::panic::catch_unwind(|| {
            join(
                || std::panic::resume_unwind(Box::new(())),
                || began.store(true, Ordering::Relaxed),
            )
        });
        assert!(result.is_err());
        assert!(!began.load(Ordering::Relaxed));
    });
}

/// Catches a join that unwinds for want of its results although its fiber unwinds already: that
/// aborted the process.
fn a_destructor_has_its_results_after_the_deadline_of_its_fiber(place: Place) {
    struct Joins;

    impl Drop for Joins {
        fn drop(&mut self) {
            let begun = AtomicBool::new(false);
            let wait = || {
                begun.store(true, Ordering::Release);
                sleep(Duration::from_millis(1));
                2
            };
            let await_begin = || {
                while !begun.load(Ordering::Acquire) {
                    yield_now();
                }
                1
            };
            assert_eq!(join(await_begin, wait), (1, 2));
            let elsewhere = uthread::run(|| {
                sleep(Duration::from_millis(1));
                3
            });
            assert_eq!(elsewhere, 3);
        }
    }

    let outcome = place.run(|| {
        timeout(Duration::from_millis(1), || {
            let _joins = Joins;
            sleep(HOUR);
        })
    });
    assert_eq!(outcome, Err(Elapsed));
}

fn a_destructor_has_its_results_at_the_end_of_its_runtime(place: Place) {
    struct Joins(Sender<(u32, u32)>);
    impl Drop for Joins {
        fn drop(&mut self) {
            let both = join(
                || {
                    yield_now();
                    1
                },
                || 2,
            );
            self.0.send(both).unwrap();
        }
    }
    let runtime = place.runtime();
    let (sender, joined) = channel();
    let fiber = place.spawn_waiting(&runtime, move || {
        let _joins = Joins(sender);
        uthread::thread::park();
    });
    drop(runtime);
    assert!(fiber.join().is_err());
    assert_eq!(joined.try_recv(), Ok((1, 2)));
}

//! Spawning, joining, scopes, parking, sleeping, yielding: on one worker and on several.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, Gap, IN_FIBERS, ON_A_THREAD, ON_ONE_LEAN_WORKER, behaviours};
use uthread::thread::{Builder, Thread, park, sleep_until};
use uthread::{current, scope, sleep, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            join_returns_the_value_or_the_panic,
            ten_thousand_fibers_each_run_once,
            fork_join_recursion_borrows_its_results,
            a_scope_joins_all_its_fibers_also_when_it_panics,
            a_scope_reports_a_fiber_that_panicked_unjoined,
            a_scope_is_quiet_about_a_panic_that_was_joined,
            a_detached_value_is_dropped,
            an_unpark_before_the_park_is_remembered,
            fibers_and_threads_unpark_each_other,
            two_fibers_pass_a_token_between_workers,
            sleeps_end_in_the_order_of_their_deadlines
        ]
    ),
    (
        &[Gap(
            Place::is_outside,
            "a join on a plain thread takes its park's wake-up"
        )],
        [an_unpark_during_another_wait_is_remembered]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [
            a_fiber_that_the_running_one_wakes_is_the_next,
            two_fibers_that_wake_each_other_leave_turns_to_others
        ]
    ),
    (
        ON_A_THREAD,
        [
            a_scope_works_on_a_thread_outside,
            a_native_thread_joins_through_the_default_runtime
        ]
    ),
    (
        IN_FIBERS,
        [
            run_borrows_from_the_caller_and_passes_panics_on,
            zero_workers_are_refused,
            a_stack_size_beyond_all_memory_is_refused
        ]
    ),
];

/// Runs a behaviour also with more workers than CPUs.
fn on_each(place: Place, behaviour: impl Fn() + Send + Sync) {
    place.run(&behaviour);
    if place.has_more_workers() {
        place.runtime_of(4).run(&behaviour);
    }
}

fn join_returns_the_value_or_the_panic(place: Place) {
    on_each(place, || {
        assert_eq!(spawn(|| "value").join().unwrap(), "value");
        let payload = spawn(|| -> u8 { std::panic::panic_any(7_u8) })
            .join()
            .unwrap_err();
        assert_eq!(*payload.downcast::<u8>().unwrap(), 7);
    });
}

fn ten_thousand_fibers_each_run_once(place: Place) {
    on_each(place, || {
        let count = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..10_000)
            .map(|index| {
                let count = Arc::clone(&count);
                spawn(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    if index % 3 == 0 {
                        yield_now();
                    }
                    index
                })
            })
            .collect();
        for (index, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), index);
        }
        assert_eq!(count.load(Ordering::Relaxed), 10_000);
    });
}

fn fork_join_recursion_borrows_its_results(place: Place) {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (mut a, mut b) = (0, 0);
        scope(|scope| {
            scope.spawn(|| a = fib(n - 1));
            b = fib(n - 2);
        });
        a + b
    }
    on_each(place, || assert_eq!(fib(16), 987));
}

fn a_scope_joins_all_its_fibers_also_when_it_panics(place: Place) {
    on_each(place, || {
        let ended = AtomicUsize::new(0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope(|scope| {
                for _ in 0..10 {
                    scope.spawn(|| {
                        sleep(Duration::from_millis(5));
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
                std::panic::resume_unwind(Box::new("the scope's own"));
            });
        }));
        assert_eq!(
            *outcome.unwrap_err().downcast::<&str>().unwrap(),
            "the scope's own"
        );
        assert_eq!(ended.load(Ordering::Relaxed), 10);
    });
}

fn a_scope_reports_a_fiber_that_panicked_unjoined(place: Place) {
    on_each(place, || {
        let outcome = std::panic::catch_unwind(|| {
            scope(|scope| {
                scope.spawn(|| std::panic::resume_unwind(Box::new(())));
            });
        });
        assert!(outcome.is_err());
    });
}

fn a_scope_is_quiet_about_a_panic_that_was_joined(place: Place) {
    on_each(place, || {
        scope(|scope| {
            let fiber = scope.spawn(|| std::panic::resume_unwind(Box::new(5_u8)));
            let payload = fiber.join().unwrap_err();
            assert_eq!(*payload.downcast::<u8>().unwrap(), 5);
        });
    });
}

fn a_scope_works_on_a_thread_outside(place: Place) {
    place.run(|| {
        let mut words = vec!["one", "two", "three"];
        scope(|scope| {
            for word in &mut words {
                scope.spawn(move || *word = &word[1..]);
            }
        });
        assert_eq!(words, ["ne", "wo", "hree"]);
    });
}

fn a_detached_value_is_dropped(place: Place) {
    on_each(place, || {
        let witness = Arc::new(());
        let theirs = Arc::clone(&witness);
        drop(spawn(move || theirs));
        while Arc::strong_count(&witness) > 1 {
            yield_now();
        }
    });
}

fn an_unpark_before_the_park_is_remembered(place: Place) {
    on_each(place, || {
        current().unpark();
        park();
    });
}

/// Catches a join, a scope or a blocking call that swallows the wake-ups that come while it waits:
/// a park after it waited forever.
fn an_unpark_during_another_wait_is_remembered(place: Place) {
    on_each(place, || {
        let own = current();
        // The join waits too, and must not take what is meant for the park.
        spawn(move || {
            own.unpark();
            yield_now();
        })
        .join()
        .unwrap();
        park();
        let own = current();
        uthread::blocking(move || own.unpark());
        park();
        let own = current();
        scope(|scope| {
            scope.spawn(move || own.unpark());
        });
        park();
    });
}

fn fibers_and_threads_unpark_each_other(place: Place) {
    on_each(place, || {
        for _ in 0..200 {
            let fiber = current();
            let thread = std::thread::spawn(move || {
                fiber.unpark();
                std::thread::park();
            });
            park();
            thread.thread().unpark();
            let joiner = spawn(move || thread.join().unwrap());
            joiner.join().unwrap();
        }
    });
}

fn two_fibers_pass_a_token_between_workers(place: Place) {
    on_each(place, || {
        const ROUNDS: usize = 2_000;
        let turn = Arc::new(AtomicUsize::new(0));
        let play = |parity: usize, turn: &AtomicUsize, other: &Thread| {
            for round in 0..ROUNDS {
                while turn.load(Ordering::Acquire) != 2 * round + parity {
                    park();
                }
                turn.fetch_add(1, Ordering::AcqRel);
                other.unpark();
            }
        };
        let main = current();
        let introduction = Arc::new(Mutex::new(None));
        let (theirs, introduce) = (Arc::clone(&turn), Arc::clone(&introduction));
        let other = spawn(move || {
            *introduce.lock().unwrap() = Some(current());
            main.unpark();
            play(1, &theirs, &main);
        });
        let thread = loop {
            if let Some(thread) = introduction.lock().unwrap().take() {
                break thread;
            }
            park();
        };
        play(0, &turn, &thread);
        other.join().unwrap();
        assert_eq!(turn.load(Ordering::Relaxed), 2 * ROUNDS);
    });
}

/// Catches an answer that waits behind everybody else, while what was asked leaves the cache.
fn a_fiber_that_the_running_one_wakes_is_the_next(place: Place) {
    place.run(|| {
        let order = Mutex::new(Vec::new());
        let sleeper = Mutex::new(None);
        let begun = AtomicUsize::new(0);
        scope(|scope| {
            scope.spawn(|| {
                *sleeper.lock().unwrap() = Some(current());
                begun.fetch_add(1, Ordering::Relaxed);
                park();
                order.lock().unwrap().push("woken");
            });
            for _ in 0..3 {
                scope.spawn(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while begun.load(Ordering::Relaxed) < 5 {
                        yield_now();
                    }
                    order.lock().unwrap().push("other");
                });
            }
            while begun.load(Ordering::Relaxed) < 4 {
                yield_now();
            }
            begun.fetch_add(1, Ordering::Relaxed);
            let sleeper = sleeper.lock().unwrap().take();
            sleeper.expect("the sleeper has begun").unpark();
        });
        assert_eq!(*order.lock().unwrap(), ["woken", "other", "other", "other"]);
    });
}

/// Catches two fibers that keep their worker to themselves by waking each other forever.
fn two_fibers_that_wake_each_other_leave_turns_to_others(place: Place) {
    place.run(|| {
        let turns = AtomicUsize::new(0);
        let over = AtomicUsize::new(0);
        let players = Mutex::new(Vec::new());
        let play = || {
            players.lock().unwrap().push(current());
            while players.lock().unwrap().len() < 2 {
                yield_now();
            }
            let mut players = players.lock().unwrap().clone();
            players.retain(|player| player.id() != current().id());
            let partner = players.remove(0);
            while over.load(Ordering::Relaxed) == 0 && turns.load(Ordering::Relaxed) < 10_000 {
                turns.fetch_add(1, Ordering::Relaxed);
                partner.unpark();
                park();
            }
            partner.unpark();
        };
        scope(|scope| {
            scope.spawn(play);
            scope.spawn(play);
            while turns.load(Ordering::Relaxed) < 2 {
                yield_now();
            }
            for _ in 0..100 {
                let before = turns.load(Ordering::Relaxed);
                yield_now();
                let between = turns.load(Ordering::Relaxed) - before;
                assert!(
                    (1..10).contains(&between),
                    "{between} turns of theirs to one"
                );
            }
            over.store(1, Ordering::Relaxed);
        });
    });
}

fn sleeps_end_in_the_order_of_their_deadlines(place: Place) {
    const SLEEPS: [u64; 3] = [30, 10, 20];
    /// How late a sleep may end, as its documentation says.
    const LATE: Duration = Duration::from_millis(1);
    on_each(place, || {
        let fibers = SLEEPS.map(|milliseconds| {
            spawn(move || {
                // A fiber that had to wait for a CPU before it slept may be the last one.
                let due = Instant::now() + Duration::from_millis(milliseconds);
                sleep_until(due);
                (due, Instant::now())
            })
        });
        let mut ends = fibers.map(|fiber| fiber.join().unwrap());
        ends.sort_unstable();
        assert!(ends.iter().all(|(due, end)| end >= due), "{ends:?}");
        // With two workers or threads, the machine may keep either waiting; and with storage of
        // their own, one fiber may be without the worker.
        let is_alone = place.is_of_fibers() && !place.has_more_workers() && !place.has_own_tls();
        let are_in_order = ends
            .windows(2)
            .all(|pair| pair[1].0 < pair[0].0 + LATE || pair[0].1 < pair[1].1);
        assert!(!is_alone || are_in_order, "{ends:?}");
    });
}

fn a_native_thread_joins_through_the_default_runtime(place: Place) {
    place.run(|| {
        let guest = Builder::new().name("guest".into());
        let handle = guest.spawn(|| current().name().map(str::to_owned)).unwrap();
        assert_eq!(handle.join().unwrap().as_deref(), Some("guest"));
    });
}

fn run_borrows_from_the_caller_and_passes_panics_on(place: Place) {
    let text = String::from("borrowed");
    let runtime = place.runtime();
    assert_eq!(runtime.run(|| text.len()), 8);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.run(|| std::panic::resume_unwind(Box::new(3_u8)))
    }));
    assert_eq!(*outcome.unwrap_err().downcast::<u8>().unwrap(), 3);
}

fn zero_workers_are_refused(place: Place) {
    let error = place.builder().workers(0).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("choose from 1"), "{error}");
}

/// Catches sizes that overflow the arithmetic of the pool, up to a mapping smaller than the stacks
/// in it.
fn a_stack_size_beyond_all_memory_is_refused(place: Place) {
    for size in [usize::MAX, usize::MAX / 2, (1 << 58) + 4096, (1 << 30) + 1] {
        let error = place.builder().stack_size(size).build().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

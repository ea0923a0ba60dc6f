//! What a runtime counts, against what it was made to do.

mod common;

use std::time::Duration;

use common::{eventually, runtime};
use uthread::thread::JoinHandle;
use uthread::{sleep, spawn, yield_now};

#[test]
fn fibers_and_switches_are_counted() {
    let runtime = runtime(1);
    runtime.run(|| {
        let handles: Vec<_> = (0..100).map(|_| spawn(yield_now)).collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
    let total = runtime.metrics().total();
    assert_eq!(total.fibers, 101);
    // Each begins and goes on after its yield; the first fiber begins, and goes on at least once.
    assert!((202..=302).contains(&total.switches), "{total:?}");
    assert_eq!((total.steals, total.injected), (0, 1));
}

#[test]
fn operations_are_counted_and_gathered() {
    const FILES: u64 = 64;
    let runtime = runtime(1);
    runtime.run(|| {
        let handles: Vec<JoinHandle<()>> = (0..FILES)
            .map(|_| spawn(|| drop(uthread::fs::File::open("Cargo.toml").unwrap())))
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
    // The worker takes its driver's counts over before it sleeps.
    eventually("the counts are there", || {
        runtime.metrics().total().completions == FILES
    });
    let total = runtime.metrics().total();
    assert_eq!((total.submissions, total.completions), (FILES, FILES));
    assert!((1..FILES).contains(&total.enters), "{total:?}");
}

#[test]
fn work_that_moves_is_counted() {
    let runtime = runtime(2);
    runtime.run(|| {
        let other = spawn(|| std::thread::current().id());
        // Computes until the other worker has taken the fiber.
        while !other.is_finished() {
            std::hint::spin_loop();
        }
        assert_ne!(other.join().unwrap(), std::thread::current().id());
    });
    let total = runtime.metrics().total();
    assert_eq!((total.steals, total.injected), (1, 1));
    assert!(total.wakes_sent + total.wakes_spared >= 1, "{total:?}");
}

#[test]
fn time_asleep_is_counted() {
    const NAP: Duration = Duration::from_millis(30);
    let runtime = runtime(1);
    runtime.run(|| sleep(NAP));
    let total = runtime.metrics().total();
    assert!(total.sleeps >= 1);
    assert!(total.idle >= NAP / 2, "{total:?}");
}

#[test]
fn the_table_has_a_line_per_worker_and_one_for_all() {
    let lines = |workers| runtime(workers).metrics().to_string().lines().count();
    assert_eq!((lines(1), lines(2)), (2, 4));
    assert!(runtime(2).metrics().to_string().contains("\n   all "));
}

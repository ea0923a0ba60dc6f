//! The counters of a runtime, compared with the work that it was given.

use std::time::Duration;

use rustix::thread::gettid;

use crate::harness::place::Place;
use crate::harness::{
    Gap, IN_FIBERS, MORE_WORKERS, ON_ONE_WORKER, ON_WORKERS, ONE_WORKER, OUTSIDE, OWN_THREAD,
    THREADS, behaviours,
};
use crate::support::eventually;
use uthread::runtime::WorkerMetrics;
use uthread::thread::JoinHandle;
use uthread::{sleep, spawn, yield_now};

behaviours![
    (
        ON_ONE_WORKER,
        [fibers_and_switches_are_counted, operations_are_counted]
    ),
    (
        &[
            OUTSIDE,
            THREADS,
            MORE_WORKERS,
            Gap(Place::is_of_epoll, "each operation is a call of its own")
        ],
        [operations_are_gathered]
    ),
    (STEALS_ALONE, [work_that_moves_is_counted]),
    (ON_WORKERS, [time_asleep_is_counted]),
    (IN_FIBERS, [the_table_has_a_line_per_worker_and_one_for_all]),
];

/// Where nothing but a steal takes the second of two fibers away from the first, which computes.
const STEALS_ALONE: &[Gap] = &[OUTSIDE, THREADS, ONE_WORKER, OWN_THREAD];

fn fibers_and_switches_are_counted(place: Place) {
    let runtime = place.runtime();
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

fn operations_are_counted(place: Place) {
    let total = of_opened_files(place);
    assert_eq!((total.submissions, total.completions), (FILES, FILES));
    // A thread of the kernel takes submissions by itself, and the worker has not slept yet.
    assert!(total.enters >= 1 || place.is_polling(), "{total:?}");
}

fn operations_are_gathered(place: Place) {
    let total = of_opened_files(place);
    assert!(total.enters < FILES, "{total:?}");
}

const FILES: u64 = 64;

/// Returns the counters after this number of files were opened at once.
fn of_opened_files(place: Place) -> WorkerMetrics {
    let runtime = place.runtime();
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
    runtime.metrics().total()
}

fn work_that_moves_is_counted(place: Place) {
    let runtime = place.runtime();
    runtime.run(|| {
        let other = spawn(gettid);
        // Computes until the other worker has taken the fiber: `is_finished` would let it run here
        // now and then.
        while runtime.metrics().total().ended == 0 {
            std::hint::spin_loop();
        }
        assert_ne!(other.join().unwrap(), gettid());
    });
    let total = runtime.metrics().total();
    assert_eq!((total.steals, total.injected), (1, 1));
    assert!(total.wakes_sent + total.wakes_spared >= 1, "{total:?}");
}

fn time_asleep_is_counted(place: Place) {
    const NAP: Duration = Duration::from_millis(30);
    let runtime = place.runtime();
    let total = || runtime.metrics().total();
    // A worker that has to wait for a CPU before it sleeps is idle for less than the nap.
    let is_long = |_| {
        let before = total().idle;
        runtime.run(|| sleep(NAP));
        total().idle - before >= NAP / 2
    };
    assert!((0..20).any(is_long), "{:?}", total());
    assert!(total().sleeps >= 1);
}

fn the_table_has_a_line_per_worker_and_one_for_all(place: Place) {
    // The pools of the process may be in use by other tests.
    let is_of_workers = |line: &&str| !line.trim_start().starts_with("pool");
    let count = |table: &str| table.lines().take_while(is_of_workers).count();
    if place.is_of_threads() {
        // All of them share one.
        assert_eq!(count(&place.runtime().metrics().to_string()), 2);
        return;
    }
    let table = |workers| place.runtime_of(workers).metrics().to_string();
    assert_eq!((count(&table(1)), count(&table(2))), (2, 4));
    assert!(table(2).contains("\n   all "));
    let runtime = place.builder().lean().build().unwrap();
    runtime.run(|| uthread::blocking(|| ()));
    let table = runtime.metrics().to_string();
    assert!(table.contains("\nblocking           1 "), "{table}");
}

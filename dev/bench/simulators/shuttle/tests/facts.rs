//! What can and cannot be done with shuttle.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

#[test]
fn there_is_no_time() {
    shuttle::check_random(
        || {
            let real = Instant::now();
            thread::sleep(Duration::from_secs(3600));
            assert!(real.elapsed() < Duration::from_secs(1));
        },
        10,
    );
}

/// Loses an addition if two threads are between their two accesses at the same time.
fn race() {
    let total = Arc::new(AtomicU32::new(0));
    let threads = [0; 2].map(|_| {
        let total = Arc::clone(&total);
        thread::spawn(move || {
            let before = total.load(Ordering::SeqCst);
            total.store(before + 1, Ordering::SeqCst);
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(total.load(Ordering::SeqCst), 2, "an addition is lost");
}

#[test]
#[should_panic(expected = "an addition is lost")]
fn a_race_between_two_instructions_is_found() {
    shuttle::check_dfs(race, None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_deadlock_is_found() {
    let test = || {
        let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (first, second) = (Arc::clone(&a), Arc::clone(&b));
        let thread = thread::spawn(move || {
            let _first = first.lock().unwrap();
            let _second = second.lock().unwrap();
        });
        let _b = b.lock().unwrap();
        let _a = a.lock().unwrap();
        drop((_a, _b));
        thread.join().unwrap();
    };
    shuttle::check_random(test, 100);
}

#[test]
fn a_seed_decides_the_order_of_threads_but_not_the_keys_of_maps() {
    let orders = |seed| {
        let runs = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = std::sync::Arc::clone(&runs);
        let body = move || {
            let order = Arc::new(Mutex::new(Vec::new()));
            let threads = (0..8).map(|number| {
                let order = Arc::clone(&order);
                thread::spawn(move || order.lock().unwrap().push(number))
            });
            threads
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            let keys: Vec<_> = HashSet::from([1, 2, 3, 4, 5, 6, 7, 8])
                .into_iter()
                .collect();
            keep.lock()
                .unwrap()
                .push((order.lock().unwrap().clone(), keys));
        };
        shuttle::check_random_with_seed(body, seed, 10);
        let (orders, keys): (Vec<_>, Vec<_>) = runs.lock().unwrap().drain(..).unzip();
        (orders, keys)
    };
    let (first, again) = (orders(1), orders(1));
    assert_eq!(first.0, again.0);
    assert_ne!(first.0, orders(2).0);
    assert_ne!(first.1, again.1);
}

#[test]
#[should_panic(expected = "an addition is lost")]
fn a_schedule_repeats_a_run() {
    // As printed by the test of the race.
    shuttle::replay(race, "91020cb6b891a6daf8e081738004920200");
}

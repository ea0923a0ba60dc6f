//! How a runtime ends in unusual ways: dropped by what it waits for.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_WORKERS, behaviours};
use crate::support::HANG;
use uthread::thread::{Cancelled, park};
use uthread::{JoinHandle, Runtime, blocking, yield_now};

behaviours![
    (
        IN_FIBERS,
        [a_runtime_may_be_dropped_in_a_blocking_call_of_its_fiber]
    ),
    (ON_WORKERS, [a_report_of_a_stall_may_drop_the_runtime]),
];

/// Starts a fiber on it that waits until it is cancelled.
fn parked(runtime: &Runtime) -> JoinHandle<()> {
    runtime.spawn(|| {
        loop {
            park();
        }
    })
}

fn is_cancelled<T>(handle: JoinHandle<T>) -> bool {
    handle
        .join()
        .is_err_and(|payload| payload.is::<Cancelled>())
}

fn a_runtime_may_be_dropped_in_a_blocking_call_of_its_fiber(place: Place) {
    let runtime = Arc::new(place.runtime());
    let others = [parked(&runtime), parked(&runtime)];
    let own = Arc::clone(&runtime);
    let last = runtime.spawn(move || {
        while Arc::strong_count(&own) > 1 {
            yield_now();
        }
        blocking(move || drop(own));
        "went on"
    });
    drop(runtime);
    assert_eq!(last.join().unwrap(), "went on");
    assert!(others.into_iter().all(is_cancelled));
}

fn a_report_of_a_stall_may_drop_the_runtime(place: Place) {
    let slot = Arc::new(Mutex::new(None::<Runtime>));
    let (dropped, is_dropped) = mpsc::channel();
    let (told, is_told) = mpsc::channel();
    let theirs = Arc::clone(&slot);
    let runtime = place
        .builder()
        .workers(1)
        .stall_threshold(Duration::from_millis(10))
        .on_stall(move |_| {
            let runtime = theirs.lock().unwrap().take();
            if runtime.is_some() {
                told.send(()).unwrap();
                drop(runtime);
                dropped.send(()).unwrap();
            }
        })
        .build()
        .unwrap();
    let waiting = parked(&runtime);
    let stalling = runtime.spawn(move || is_told.recv_timeout(HANG).is_ok());
    *slot.lock().unwrap() = Some(runtime);
    assert!(stalling.join().unwrap());
    is_dropped.recv_timeout(HANG).unwrap();
    assert!(is_cancelled(waiting));
}

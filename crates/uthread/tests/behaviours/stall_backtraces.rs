//! The report of a fiber that blocks its worker contains the calls that have led there.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_ONE_LEAN_WORKER, OUTSIDE, OWN_THREAD, THREADS, behaviours};
use crate::stalls::{THRESHOLD, blocked_until, printed_lines, waiting};
use crate::support::HANG;
use uthread::runtime::{Runtime, Stall};

behaviours![
    (
        &[OUTSIDE, THREADS, OWN_THREAD],
        [
            the_caller_of_a_sleep_is_named,
            the_caller_of_a_lock_is_named,
            the_caller_of_a_method_is_named,
            the_caller_of_a_channel_is_named
        ]
    ),
    (ON_ONE_LEAN_WORKER, [by_default_the_calls_are_printed])
];

/// Runs a fiber that blocks its worker in this system call until `release`; the lines of the
/// backtrace.
fn calls(
    place: Place,
    system_call: &str,
    block: impl FnOnce() + Send + 'static,
    release: impl FnOnce(),
) -> String {
    let is_there =
        |stall: &Stall| stall.system_call == Some(system_call) && stall.backtrace.is_some();
    let stall = blocked_until(place.builder().workers(1), is_there, block, release);
    let backtrace = stall.backtrace.expect("as expected").to_string();
    assert!(backtrace.starts_with("   0: "), "{backtrace}");
    assert!(!backtrace.contains("uthread::fiber"), "{backtrace}");
    assert!(!backtrace.contains("catch_unwind"), "{backtrace}");
    // The last call is the closure of the fiber.
    assert!(backtrace.contains("{closure"), "{backtrace}");
    backtrace
}

#[inline(never)]
fn sleeps_here(until: &AtomicBool) {
    while !until.load(Ordering::Relaxed) {
        thread::sleep(2 * THRESHOLD);
    }
}

#[inline(never)]
fn locks_here(mutex: &Mutex<()>) {
    drop(black_box(mutex.lock()));
}

#[inline(never)]
fn reads_here(reader: &mut dyn Read) {
    black_box(reader.read(&mut [0]).unwrap());
}

#[inline(never)]
fn receives_here(receiver: &mpsc::Receiver<bool>) {
    black_box(receiver.recv().unwrap());
}

fn the_caller_of_a_sleep_is_named(place: Place) {
    let end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&end);
    let sleep = move || sleeps_here(&ends);
    let release = || end.store(true, Ordering::Relaxed);
    let calls = calls(place, "clock_nanosleep", sleep, release);
    assert!(calls.contains("sleeps_here"), "{calls}");
    assert!(!calls.contains("nanosleep"), "{calls}");
}

fn the_caller_of_a_lock_is_named(place: Place) {
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.lock().unwrap();
    let theirs = Arc::clone(&mutex);
    let calls = calls(place, "futex", move || locks_here(&theirs), || drop(guard));
    assert!(calls.contains("locks_here"), "{calls}");
}

fn the_caller_of_a_method_is_named(place: Place) {
    let (reader, writer) = io::pipe().unwrap();
    let mut file = File::from(OwnedFd::from(reader));
    let calls = calls(
        place,
        "read",
        move || reads_here(&mut file),
        || drop(writer),
    );
    assert!(calls.contains("reads_here"), "{calls}");
}

fn the_caller_of_a_channel_is_named(place: Place) {
    let (sender, receiver) = mpsc::channel();
    let receive = move || receives_here(&receiver);
    let calls = calls(place, "futex", receive, || sender.send(true).unwrap());
    assert!(calls.contains("receives_here"), "{calls}");
}

fn by_default_the_calls_are_printed(place: Place) {
    alone(|| {
        let lines = printed_lines();
        let is_printed = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_printed);
        // Earlier lines are about a worker that had to wait for a CPU.
        let reading = thread::spawn(move || {
            let next = || lines.recv_timeout(HANG).expect("the calls are printed");
            while !next().contains("blocked in clock_nanosleep") {}
            // A line has no calls if the worker has run on meanwhile.
            while !next().contains("sleeps_here") {}
            theirs.store(true, Ordering::Relaxed);
        });
        let runtime = Runtime::builder().driver(place.driver()).workers(1).lean();
        let runtime = runtime.stall_threshold(THRESHOLD).build().unwrap();
        runtime.run(|| {
            let waits = waiting();
            sleeps_here(&is_printed);
            waits.join().unwrap();
        });
        reading.join().unwrap();
    });
}

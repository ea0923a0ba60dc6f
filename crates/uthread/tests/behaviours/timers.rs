//! Many timers: pending at once, cancelled, and their lateness.
//!
//! By default 20,000 fibers sleep at once, and 100,000 in `cargo xtask ci`, which takes half a
//! gigabyte. A million takes 5 GB:
//!
//! ```sh
//! UTHREAD_SLEEPERS=1000000 cargo test --release -p uthread --test behaviours -- timers::very --test-threads=1
//! ```

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours, lacks};
use crate::support::{HANG, eventually, pair};
use uthread::net::TcpStream;
use uthread::{JoinHandle, Runtime, sleep, spawn, yield_now};

behaviours![
    (
        IN_FIBERS,
        [
            very_many_fibers_sleep_at_once_and_all_wake_up,
            very_many_sleeps_end_with_their_runtime
        ]
    ),
    (ON_ONE_WORKER, [timers_of_reads_that_came_in_time_are_gone]),
    (
        EVERYWHERE,
        [an_idle_runtime_ends_each_sleep_within_a_millisecond]
    ),
];

/// Returns how many fibers sleep at once.
fn sleepers_count(place: Place) -> usize {
    let count = env::var("UTHREAD_SLEEPERS");
    let count = count.map_or(20_000, |count| count.parse().expect("a number"));
    if place.is_of_threads() {
        // Each costs more, and the kernel has mappings for some 30,000 at most.
        return count.min(1000);
    }
    if place.has_own_tls() {
        return count.min(10_000); // Each costs a thread of the C library at first.
    }
    count
}

/// Starts a runtime whose fibers take as few page tables as with optimization.
fn runtime_of_many(place: Place) -> Runtime {
    place.builder().stack_size(256 * 1024).build().unwrap()
}

/// How many have begun to sleep and how many have ended, and whether all may end.
#[derive(Default)]
struct Sleepers {
    begun: AtomicUsize,
    ended: AtomicUsize,
    may_end: AtomicBool,
}

/// How long a test starts fibers: a busy machine gets fewer of them, and its tests end in time.
const START_MAX: Duration = Duration::from_secs(8);

/// Starts up to `count` fibers by `start`, which takes their numbers. Returns once each has begun.
fn start_many(
    runtime: &Runtime,
    count: usize,
    begun: &AtomicUsize,
    start: impl Fn(usize) -> JoinHandle<()> + Sync,
) -> Vec<JoinHandle<()>> {
    const BATCH: usize = 1000;
    runtime.run(|| {
        let begin = Instant::now();
        let mut handles = Vec::new();
        while handles.len() < count && begin.elapsed() < START_MAX {
            handles.extend((handles.len()..count).take(BATCH).map(&start));
            while begun.load(Ordering::Relaxed) < handles.len() {
                yield_now();
            }
        }
        handles
    })
}

/// Starts fibers that sleep again and again until they may end. The more there are the longer each
/// sleeps, so that all can start meanwhile on a slow machine, and no two of a thousand are due at
/// the same time.
fn start_sleepers(
    runtime: &Runtime,
    count: usize,
    sleepers: &Arc<Sleepers>,
) -> Vec<JoinHandle<()>> {
    let longest_us = count as u64 * 50;
    start_many(runtime, count, &sleepers.begun, |index| {
        let sleepers = Arc::clone(sleepers);
        spawn(move || {
            let spread_us = index as u64 * 7919 % (longest_us / 2);
            let pause = Duration::from_micros(longest_us - spread_us);
            sleepers.begun.fetch_add(1, Ordering::Relaxed);
            while !sleepers.may_end.load(Ordering::Relaxed) {
                let begin = Instant::now();
                sleep(pause);
                assert!(begin.elapsed() >= pause, "early");
            }
            sleepers.ended.fetch_add(1, Ordering::Relaxed);
        })
    })
}

fn very_many_fibers_sleep_at_once_and_all_wake_up(place: Place) {
    let (runtime, count) = (runtime_of_many(place), sleepers_count(place));
    let sleepers = Arc::new(Sleepers::default());
    let handles = start_sleepers(&runtime, count, &sleepers);
    let count = handles.len();
    // None ends before it may, so all of them live now.
    assert_eq!(sleepers.ended.load(Ordering::Relaxed), 0);
    sleepers.may_end.store(true, Ordering::Relaxed);
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(sleepers.ended.load(Ordering::Relaxed), count);
}

fn very_many_sleeps_end_with_their_runtime(place: Place) {
    const HOUR_US: usize = 3_600_000_000;
    let (runtime, count) = (runtime_of_many(place), sleepers_count(place));
    let begun = Arc::new(AtomicUsize::new(0));
    let handles = start_many(&runtime, count, &begun, |index| {
        let begun = Arc::clone(&begun);
        spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            // From an hour to a year: on several levels of the wheel.
            sleep(Duration::from_micros(
                (HOUR_US + index * HOUR_US / 10) as u64,
            ));
        })
    });
    drop(runtime);
    assert!(handles.iter().all(JoinHandle::is_finished));
    assert_eq!(Arc::strong_count(&begun), 1);
}

/// Time after which a talk ends: several times what it takes on an idle machine.
const TALK_MAX: Duration = Duration::from_secs(8);

/// Sends a byte to and fro, in fewer rounds if the machine is busy; returns the connection, still
/// open.
fn talk(timeout: Duration, rounds: u32) -> (TcpStream, TcpStream) {
    let (mut ours, mut theirs) = pair();
    ours.set_read_timeout(Some(timeout)).unwrap();
    theirs.set_read_timeout(Some(timeout)).unwrap();
    let begin = Instant::now();
    for _ in 0..rounds {
        if begin.elapsed() > TALK_MAX {
            break;
        }
        ours.write_all(&[1]).unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        theirs.write_all(&[2]).unwrap();
        ours.read_exact(&mut [0]).unwrap();
    }
    (ours, theirs)
}

/// Catches timers that are left behind: each read adds one, and cancels it when its bytes come
/// first. Otherwise it would wake the worker when it is due, and end some later read too early.
fn timers_of_reads_that_came_in_time_are_gone(place: Place) {
    const CONNECTIONS: u32 = 20;
    /// A timeout long enough that no read of one byte reaches it, and short enough to wait for.
    const TIMEOUT: Duration = Duration::from_secs(2);
    const SPREAD: Duration = Duration::from_millis(300);
    // Where the kernel polls, each may have to wake its thread.
    let reads = if place.is_polling() { 30_000 } else { 120_000 };
    let runtime = place.runtime();
    // Beside each other, so that the cancelled timers are among others that are due at the same
    // time.
    let talks: Vec<_> = (0..CONNECTIONS)
        .map(|index| {
            let timeout = TIMEOUT + SPREAD * index / CONNECTIONS;
            runtime.spawn(move || talk(timeout, reads / CONNECTIONS / 2))
        })
        .collect();
    let ends: Vec<_> = talks.into_iter().map(|talk| talk.join().unwrap()).collect();
    // Published before the worker sleeps.
    eventually("all is counted", || {
        let total = runtime.metrics().total();
        total.submissions == total.completions
    });
    let before = runtime.metrics().total();
    thread::sleep(TIMEOUT + 2 * SPREAD);
    let after = runtime.metrics().total();
    // The worker may have been on its way to sleep at first, and is woken twice to trim stacks.
    assert!(after.sleeps <= before.sleeps + 3, "{before:?} {after:?}");
    assert_eq!(after.submissions, before.submissions);
    drop(ends);
}

/// Compares with a plain thread, which a busy machine keeps waiting as well, so that only the
/// library can fail the test.
fn an_idle_runtime_ends_each_sleep_within_a_millisecond(place: Place) {
    const LATE: Duration = Duration::from_millis(1);
    /// Sleeps of a thread that end in time while all of the runtime end late.
    const IN_TIME_MAX: usize = 50;
    place.run(|| {
        let begin = Instant::now();
        for duration in (1..=20).map(Duration::from_millis) {
            let is_late = |sleep: fn(Duration)| {
                let begin = Instant::now();
                sleep(duration);
                let elapsed = begin.elapsed();
                assert!(elapsed >= duration, "{elapsed:?} of {duration:?}");
                elapsed - duration > LATE
            };
            let mut in_time = 0;
            while is_late(sleep) {
                in_time += usize::from(uthread::blocking(|| !is_late(thread::sleep)));
                assert!(in_time < IN_TIME_MAX, "{duration:?} is always late");
                if begin.elapsed() > HANG {
                    lacks("not measured: threads sleep too long as well");
                }
            }
        }
    });
}

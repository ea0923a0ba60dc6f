//! The greatest durations, which programs pass to say "never".

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_WORKERS, behaviours};
use crate::support::HOUR;
use uthread::sync::{Semaphore, mpmc, mpsc, oneshot, select, watch};
use uthread::thread::park_timeout;
use uthread::time::{Elapsed, deadline, interval};
use uthread::{current, sleep, spawn, timeout};

behaviours![
    (&[], [calls_with_the_greatest_durations_complete]),
    (ON_WORKERS, [a_runtime_with_the_greatest_durations_works]),
];

/// Durations that overflow when something is added to them, or when they are multiplied.
const GREATEST: [Duration; 3] = [
    Duration::MAX,
    Duration::from_secs(u64::MAX / 2),
    Duration::from_secs(u64::MAX / 4),
];

/// Returns a time near the last that the clock can represent.
fn last_instant() -> Instant {
    let mut last = Instant::now();
    let mut step = Duration::from_secs(1 << 62);
    while !step.is_zero() {
        match last.checked_add(step) {
            Some(later) => last = later,
            None => step /= 2,
        }
    }
    last
}

fn calls_with_the_greatest_durations_complete(place: Place) {
    place.run(|| {
        GREATEST.into_iter().for_each(complete_within);
        let last = last_instant();
        assert_eq!(deadline(last, || timeout(HOUR, || 1)), Ok(Ok(1)));
        assert_eq!(select::try_select(&mut [&mut select::at(last)]), None);
    });
}

fn complete_within(longest: Duration) {
    assert_eq!(timeout(longest, || timeout(longest, || 1)), Ok(Ok(1)));
    current().unpark();
    park_timeout(longest);
    let sleeping = spawn(move || sleep(longest));
    sleeping.cancel();
    assert!(sleeping.join().is_err());
    assert_eq!(spawn(|| 2).join_timeout(longest).unwrap().unwrap(), 2);
    let (sender, receiver) = mpsc::channel();
    sender.send(3).unwrap();
    assert_eq!(receiver.recv_timeout(longest), Ok(3));
    let (sender, receiver) = mpmc::sync_channel(1);
    sender.send_timeout(4, longest).unwrap();
    assert_eq!(receiver.recv_timeout(longest), Ok(4));
    let (sender, receiver) = oneshot::channel();
    sender.send(5).unwrap();
    assert_eq!(receiver.recv_timeout(longest).unwrap(), 5);
    let (sender, mut receiver) = watch::channel(0);
    sender.send_replace(6);
    assert_eq!(*receiver.changed_timeout(longest).unwrap(), 6);
    assert!(Semaphore::new(1).acquire_timeout(longest).is_ok());
    assert_eq!(select::try_select(&mut [&mut select::after(longest)]), None);
    let mut times = interval(longest);
    assert_eq!(timeout(Duration::ZERO, || times.next()), Err(Elapsed));
}

/// Catches a monitor that panics beside a fiber that blocks its worker.
fn a_runtime_with_the_greatest_durations_works(place: Place) {
    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    /// Time in which the monitor looks several times.
    const BLOCKED: Duration = Duration::from_millis(100);
    alone(|| {
        panic::set_hook(Box::new(|_| HAS_PANICKED.store(true, Ordering::Relaxed)));
        for longest in GREATEST {
            let builder = place.builder().stall_threshold(longest);
            let builder = builder.sample_delays(longest).blocking_keep_alive(longest);
            let runtime = builder.build().unwrap();
            runtime.run(|| {
                spawn(|| ()).join().unwrap();
                thread::sleep(BLOCKED);
            });
        }
        assert!(!HAS_PANICKED.load(Ordering::Relaxed));
    });
}

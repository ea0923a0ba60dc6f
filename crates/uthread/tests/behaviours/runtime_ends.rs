//! Unusual ends of a runtime: dropped by a call that it waits for, with fibers that do not end, and
//! with each kind of shutdown.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{InDrop, is_cancelled, park_for_ever};
use crate::harness::child::child;
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, OUTSIDE, OWN_THREAD, THREADS, behaviours};
use crate::support::{FREE, HANG, HOUR, eventually};
use uthread::net::TcpListener;
use uthread::runtime::Shutdown;
use uthread::sync::{Mutex, RwLock, Semaphore, mpmc};
use uthread::thread::Builder;
use uthread::{JoinHandle, Runtime, blocking, scope, shield, sleep, spawn, yield_now};

behaviours![
    (
        IN_FIBERS,
        [
            a_runtime_may_be_dropped_in_a_blocking_call_of_its_fiber,
            a_fiber_that_catches_its_end_is_named_and_abandoned,
            blocked_fibers_are_named_and_abandoned,
            a_slow_end_is_waited_for,
            a_join_waits_for_all,
            a_join_in_a_fiber_of_its_own_returns_at_once,
            an_abandoned_fiber_neither_runs_nor_drops,
            an_abandoned_fiber_strands_no_lock,
            an_abandoned_receiver_leaves_its_value_to_another,
            an_abandoned_call_on_another_thread_is_joined_after_it,
            a_runtime_may_be_abandoned_in_a_fiber_of_its_own,
        ]
    ),
    (
        // No fiber keeps the worker where fibers have thread-local storage of their own.
        &[OUTSIDE, THREADS, OWN_THREAD],
        [a_report_of_a_stall_may_drop_the_runtime]
    ),
];

/// Starts a fiber on it that waits until it is cancelled.
fn parked(runtime: &Runtime) -> JoinHandle<()> {
    runtime.spawn(park_for_ever)
}

/// Waits until nobody else has the value, and returns it.
fn the_only<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(value) => return value,
            Err(still_shared) => shared = still_shared,
        }
        yield_now();
    }
}

/// Starts fibers, and returns when each has begun.
fn begin<const COUNT: usize>(
    runtime: &Runtime,
    fibers: [Box<dyn FnOnce() + Send>; COUNT],
) -> [JoinHandle<()>; COUNT] {
    let begun = Arc::new(AtomicUsize::new(0));
    let handles = fibers.map(|fiber| {
        let begun = Arc::clone(&begun);
        runtime.spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            fiber();
        })
    });
    runtime.run(|| {
        while begun.load(Ordering::Relaxed) < COUNT {
            yield_now();
        }
    });
    handles
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
    let slot = Arc::new(std::sync::Mutex::new(None::<Runtime>));
    let (dropped, is_dropped) = mpsc::channel();
    let (reported, is_reported) = mpsc::channel();
    let theirs = Arc::clone(&slot);
    let runtime = place
        .builder()
        .workers(1)
        .stall_threshold(Duration::from_millis(10))
        .on_stall(move |_| {
            let runtime = theirs.lock().unwrap().take();
            if runtime.is_some() {
                reported.send(()).unwrap();
                drop(runtime);
                dropped.send(()).unwrap();
            }
        })
        .build()
        .unwrap();
    let waiting = parked(&runtime);
    runtime.run(yield_now);
    let stalling = runtime.spawn(move || is_reported.recv_timeout(HANG).is_ok());
    *slot.lock().unwrap() = Some(runtime);
    assert!(stalling.join().unwrap());
    is_dropped.recv_timeout(HANG).unwrap();
    assert!(is_cancelled(waiting));
}

/// Runs `body` in a child, and returns the lines about fibers that the child has printed.
fn named(body: impl FnOnce()) -> Option<Vec<String>> {
    let Some(output) = child() else {
        body();
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", output.status);
    let lines = text.lines().filter(|line| line.starts_with("uthread: "));
    Some(lines.map(str::to_owned).collect())
}

fn a_fiber_that_catches_its_end_is_named_and_abandoned(place: Place) {
    let lines = named(|| {
        let runtime = place.runtime();
        let (begun, has_begun) = mpsc::channel();
        let server = move || {
            let listener = TcpListener::bind(FREE).unwrap();
            begun.send(()).unwrap();
            loop {
                // Ordinary isolation of panics.
                let _ = catch_unwind(AssertUnwindSafe(|| listener.accept().map(drop)));
            }
        };
        let server: JoinHandle<()> = runtime
            .run(|| Builder::new().name("server".into()).spawn(server))
            .unwrap();
        has_begun.recv().unwrap();
        drop(runtime);
        assert!(is_cancelled(server));
    });
    if let Some(lines) = lines {
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(" \"server\" (spawned at "), "{lines:?}");
    }
}

fn blocked_fibers_are_named_and_abandoned(place: Place) {
    let lines = named(|| {
        let runtime = place.runtime();
        let shared = Arc::new(Mutex::new(0));
        let held = shared.lock().unwrap();
        let (first, second) = (Arc::clone(&shared), Arc::clone(&shared));
        let fibers = begin(
            &runtime,
            [
                Box::new(|| {
                    let own = Mutex::new(0);
                    let _held = own.lock();
                    drop(own.lock());
                }),
                Box::new(move || drop(first.lock())),
                Box::new(move || {
                    scope(|scope| {
                        scope.spawn(|| drop(second.lock()));
                    });
                }),
                Box::new(|| shield(park_for_ever)),
            ],
        );
        drop(runtime);
        assert!(fibers.into_iter().all(is_cancelled));
        drop(held);
        assert!(
            shared.try_lock().is_ok(),
            "the lock was handed to an ended fiber"
        );
    });
    if let Some(lines) = lines {
        // A child that had not started has ended with its scope; one that has is named with its
        // parent.
        assert!((3..=5).contains(&lines.len()), "{lines:?}");
        let count_of = |what| lines.iter().filter(|line| line.ends_with(what)).count();
        assert!(count_of("it waits for a lock") >= 2, "{lines:?}");
    }
}

/// Takes far longer than a runtime that stands still is waited for.
fn a_slow_end_is_waited_for(place: Place) {
    const LONG: Duration = Duration::from_millis(3500);
    let runtime = place.runtime();
    let done = Arc::new(AtomicUsize::new(0));
    let count = || {
        let done = Arc::clone(&done);
        InDrop(move || drop(done.fetch_add(1, Ordering::Relaxed).to_string()))
    };
    let (one, two, three, four) = (count(), count(), count(), count());
    let inner = Arc::new(place.runtime_of(1));
    let theirs = Arc::clone(&inner);
    let fibers = begin(
        &runtime,
        [
            Box::new(move || {
                shield(|| sleep(LONG));
                drop(one);
            }),
            Box::new(move || {
                blocking(|| std::thread::sleep(LONG));
                drop(two);
            }),
            Box::new(move || {
                // A child that waits is waited for by its parent.
                scope(|scope| {
                    scope.spawn(|| shield(|| sleep(LONG)));
                    yield_now();
                });
                drop(three);
            }),
            Box::new(move || {
                theirs.run(|| shield(|| sleep(LONG)));
                drop(four);
            }),
        ],
    );
    drop(runtime);
    assert!(fibers.iter().all(JoinHandle::is_finished));
    // Unwound or not: none was abandoned.
    assert_eq!(done.load(Ordering::Relaxed), 4);
    drop(inner);
}

fn a_join_waits_for_all(place: Place) {
    let runtime = place.runtime();
    let ended = Arc::new(AtomicUsize::new(0));
    for index in 0..10 {
        let ended = Arc::clone(&ended);
        drop(runtime.spawn(move || {
            sleep(Duration::from_millis(index));
            let theirs = Arc::clone(&ended);
            drop(spawn(move || {
                blocking(|| std::thread::sleep(Duration::from_millis(1)));
                theirs.fetch_add(1, Ordering::Relaxed);
            }));
            ended.fetch_add(1, Ordering::Relaxed);
        }));
    }
    runtime.shutdown(Shutdown::Join);
    assert_eq!(ended.load(Ordering::Relaxed), 20);
    place.runtime().shutdown(Shutdown::Join);
}

fn a_join_in_a_fiber_of_its_own_returns_at_once(place: Place) {
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let other = runtime.spawn(|| {
        sleep(Duration::from_millis(5));
        "by itself"
    });
    let caller = runtime.spawn(move || {
        the_only(own).shutdown(Shutdown::Join);
        spawn(|| "goes on").join().unwrap()
    });
    drop(runtime);
    assert_eq!(caller.join().unwrap(), "goes on");
    assert_eq!(other.join().unwrap(), "by itself");
}

fn an_abandoned_fiber_neither_runs_nor_drops(place: Place) {
    let runtime = place.runtime();
    let touched = Arc::new(AtomicBool::new(false));
    let witness = || {
        let touched = Arc::clone(&touched);
        InDrop(move || touched.store(true, Ordering::Relaxed))
    };
    let (one, two, three, four) = (witness(), witness(), witness(), witness());
    let listener = TcpListener::bind(FREE).unwrap();
    let fibers = begin(
        &runtime,
        [
            Box::new(move || {
                let _one = one;
                park_for_ever();
            }),
            Box::new(move || {
                let _two = two;
                drop(listener.accept());
            }),
            Box::new(move || {
                let _three = three;
                shield(|| sleep(HOUR));
            }),
            Box::new(move || {
                // The fiber is unwinding.
                let _four = four;
                let _waits = InDrop(|| shield(park_for_ever));
                std::panic::resume_unwind(Box::new("on purpose"));
            }),
        ],
    );
    let begin = Instant::now();
    runtime.shutdown(Shutdown::Abandon);
    assert!(fibers.into_iter().all(is_cancelled));
    assert!(begin.elapsed() < HANG);
    assert!(!touched.load(Ordering::Relaxed), "a destructor has run");
}

fn an_abandoned_fiber_strands_no_lock(place: Place) {
    let runtime = place.runtime();
    let shared = Arc::new((Mutex::new(0), RwLock::new(0), Semaphore::new(1)));
    let held = (
        shared.0.lock().unwrap(),
        shared.1.write().unwrap(),
        shared.2.acquire().unwrap(),
    );
    let theirs = [(); 4].map(|()| Arc::clone(&shared));
    let [one, two, three, four] = theirs;
    let fibers = begin(
        &runtime,
        [
            Box::new(move || drop(one.0.lock())),
            Box::new(move || drop(two.1.read())),
            Box::new(move || drop(three.1.write())),
            Box::new(move || shield(|| drop(four.2.acquire().unwrap()))),
        ],
    );
    runtime.shutdown(Shutdown::Abandon);
    assert!(fibers.into_iter().all(is_cancelled));
    drop(held);
    assert!(shared.0.try_lock().is_ok());
    assert!(shared.1.try_write().is_ok());
    assert_eq!(shared.2.available_permits(), 1);
}

/// Catches a value that nobody takes although a receiver waits, as another one was woken for it.
fn an_abandoned_receiver_leaves_its_value_to_another(_: Place) {
    // With a single worker, a fiber that was spawned before waits when another one runs.
    let runtime = Arc::new(Runtime::builder().workers(1).build().unwrap());
    let (sender, receiver) = mpmc::channel();
    let other = receiver.clone();
    let [abandoned] = begin(
        &runtime,
        [Box::new(move || assert!(receiver.recv().is_err()))],
    );
    let waits = spawn(move || {
        let begin = Instant::now();
        let received = other.recv_timeout(HANG);
        assert!(begin.elapsed() < HANG, "it was not woken");
        received
    });
    yield_now();
    let own = Arc::clone(&runtime);
    let last = runtime.spawn(move || {
        let own = the_only(own);
        sender.send(1).unwrap();
        own.shutdown(Shutdown::Abandon);
        sleep(HOUR);
    });
    drop(runtime);
    assert!(is_cancelled(abandoned));
    assert!(is_cancelled(last));
    assert_eq!(waits.join().unwrap(), Ok(1));
}

fn an_abandoned_call_on_another_thread_is_joined_after_it(place: Place) {
    let runtime = place.runtime();
    let (release, is_released) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&over);
    let calling = runtime.spawn(move || {
        let call = move || {
            begun.send(()).unwrap();
            is_released.recv().unwrap();
            theirs.store(true, Ordering::Relaxed);
        };
        blocking(call);
        sleep(HOUR);
    });
    has_begun.recv().unwrap();
    runtime.shutdown(Shutdown::Abandon);
    assert!(!calling.is_finished());
    release.send(()).unwrap();
    assert!(is_cancelled(calling));
    assert!(over.load(Ordering::Relaxed));
}

fn a_runtime_may_be_abandoned_in_a_fiber_of_its_own(place: Place) {
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let other = parked(&runtime);
    let (sender, went_on) = mpsc::channel();
    let caller = runtime.spawn(move || {
        the_only(own).shutdown(Shutdown::Abandon);
        sender.send("to its next wait").unwrap();
        sleep(Duration::ZERO);
        sender.send("beyond it").unwrap();
    });
    drop(runtime);
    assert!(is_cancelled(caller));
    assert!(is_cancelled(other));
    assert_eq!(went_on.try_recv(), Ok("to its next wait"));
    eventually("nothing more comes", || went_on.try_recv().is_err());
}

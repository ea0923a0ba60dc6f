//! The end of a runtime with dedicated fibers: it waits for them as for all others.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::gettid;
use uthread::fs::File;
use uthread::runtime::Shutdown;
use uthread::thread::{Builder, park};
use uthread::{JoinHandle, Runtime, blocking, scope, shield, sleep, spawn};
use uthread::{timeout, yield_now};

use crate::fixtures::dedicated::{dedicated, waiting};
use crate::fixtures::fiber_or_thread::{InDrop, is_cancelled, park_for_ever};
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_WORKERS, behaviours};
use crate::support::calls::stats_of_threads;
use crate::support::{HANG, HOUR, errno, eventually, pair, wait_until_asleep};

behaviours![
    (
        IN_FIBERS,
        [
            a_drop_cancels_it,
            a_drop_waits_for_a_call_that_cannot_be_interrupted,
            a_joined_runtime_waits_for_it_and_its_fibers,
            an_abandoned_one_stops_and_runs_no_destructor,
            the_borrows_of_an_abandoned_one_are_left_alone,
            dedicated_fibers_may_drop_their_runtime,
            dedicated_fibers_may_join_their_runtime,
            dedicated_fibers_may_abandon_their_runtime,
            a_fiber_that_stays_parked_is_abandoned_at_shutdown,
            one_that_ignores_its_end_is_abandoned,
            spawns_that_race_with_the_drop_all_end,
            no_thread_is_left,
        ]
    ),
    (
        ON_WORKERS,
        [
            a_fiber_that_drops_the_runtime_does_not_wait_for_its_joiner,
            a_drop_waits_for_one_that_has_just_started,
            an_abandoned_runtime_waits_for_one_that_has_just_started,
        ]
    ),
];

/// Waits until this is the only owner of the runtime.
fn the_only(mut runtime: Arc<Runtime>) -> Runtime {
    loop {
        match Arc::try_unwrap(runtime) {
            Ok(only) => return only,
            Err(shared) => runtime = shared,
        }
        yield_now();
    }
}

fn a_drop_cancels_it(place: Place) {
    let waits: [Box<dyn FnOnce() + Send>; 4] = [
        Box::new(park_for_ever),
        Box::new(|| sleep(HOUR)),
        Box::new(|| {
            assert!(is_cancelled(spawn(park_for_ever)));
            sleep(HOUR);
        }),
        Box::new(|| scope(|scope| drop(scope.spawn(park_for_ever)))),
    ];
    for wait in waits {
        let runtime = place.runtime();
        let witness = Arc::new(());
        let theirs = Arc::clone(&witness);
        let fiber = waiting(&runtime, move || {
            let _theirs = theirs;
            wait();
        });
        drop(runtime);
        assert!(fiber.is_finished());
        assert_eq!(Arc::strong_count(&witness), 1);
        assert!(is_cancelled(fiber));
    }
    let (mut stream, _peer) = pair();
    let runtime = place.runtime();
    let reading = waiting(&runtime, move || stream.read(&mut [0; 16]));
    drop(runtime);
    assert_eq!(errno(reading.join().unwrap()), Errno::CANCELED);
}

fn a_drop_waits_for_a_call_that_cannot_be_interrupted(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = mpsc::channel();
    let blocked = waiting(&runtime, move || receiver.recv());
    // Unwound by the drop, it lets the call end.
    let (begun, begins) = mpsc::channel();
    let releasing = runtime.spawn(move || {
        let _release = InDrop(move || sender.send("released").unwrap());
        begun.send(()).unwrap();
        park_for_ever();
    });
    begins.recv().unwrap();
    drop(runtime);
    assert!(blocked.is_finished());
    assert_eq!(blocked.join().unwrap(), Ok("released"));
    assert!(is_cancelled(releasing));
}

fn a_joined_runtime_waits_for_it_and_its_fibers(place: Place) {
    let runtime = place.runtime();
    let ran = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&ran);
    let (sender, receiver) = mpsc::channel();
    let spawns = move || {
        receiver.recv().unwrap();
        for _ in 0..3 {
            let [one, two] = [(); 2].map(|()| Arc::clone(&theirs));
            spawn(move || {
                sleep(Duration::from_millis(2));
                one.fetch_add(1, Ordering::Relaxed);
            });
            dedicated(move || {
                std::thread::sleep(Duration::from_millis(2));
                two.fetch_add(1, Ordering::Relaxed);
            });
        }
        theirs.fetch_add(10, Ordering::Relaxed);
    };
    drop(waiting(&runtime, spawns));
    let joining = gettid();
    let ends = std::thread::spawn(move || {
        wait_until_asleep(joining);
        sender.send(()).unwrap();
    });
    runtime.shutdown(Shutdown::Join);
    assert_eq!(ran.load(Ordering::Relaxed), 16);
    ends.join().unwrap();
}

fn an_abandoned_one_stops_and_runs_no_destructor(place: Place) {
    let touched = Arc::new(AtomicBool::new(false));
    let (mut stream, _peer) = pair();
    let waits: [Box<dyn FnOnce() + Send>; 4] = [
        Box::new(park_for_ever),
        Box::new(|| sleep(HOUR)),
        Box::new(|| shield(park_for_ever)),
        Box::new(move || drop(stream.read(&mut [0; 16]))),
    ];
    let runtime = place.runtime();
    let fibers = waits.map(|wait| {
        let theirs = Arc::clone(&touched);
        waiting(&runtime, move || {
            let _touch = InDrop(|| theirs.store(true, Ordering::Relaxed));
            wait();
        })
    });
    let begin = Instant::now();
    runtime.shutdown(Shutdown::Abandon);
    assert!(fibers.into_iter().all(is_cancelled));
    assert!(begin.elapsed() < HANG);
    assert!(!touched.load(Ordering::Relaxed), "a destructor has run");
}

/// Catches a joiner that learns of the end while something still runs that may use what the fiber
/// has lent.
fn the_borrows_of_an_abandoned_one_are_left_alone(place: Place) {
    let runtime = place.runtime();
    let (release, is_released) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&over);
    let computing = waiting(&runtime, move || {
        is_released.recv().unwrap();
        theirs.store(true, Ordering::Relaxed);
        park_for_ever();
    });
    let parked = [
        waiting(&runtime, park_for_ever),
        runtime.spawn(park_for_ever),
    ];
    runtime.shutdown(Shutdown::Abandon);
    std::thread::sleep(Duration::from_millis(20));
    assert!(parked.iter().all(|fiber| !fiber.is_finished()));
    release.send(()).unwrap();
    assert!(parked.into_iter().all(is_cancelled));
    assert!(over.load(Ordering::Relaxed));
    assert!(is_cancelled(computing));
}

fn dedicated_fibers_may_drop_their_runtime(place: Place) {
    for in_call in [false, true] {
        let runtime = Arc::new(place.runtime());
        let other = runtime.spawn(park_for_ever);
        let own = Arc::clone(&runtime);
        let last = runtime.run(|| {
            dedicated(move || {
                let own = the_only(own);
                if in_call {
                    blocking(|| drop(own));
                } else {
                    drop(own);
                }
                let refused = errno(File::open("Cargo.toml")) == Errno::CANCELED;
                refused && is_cancelled(spawn(|| ())) && is_cancelled(dedicated(|| ()))
            })
        });
        drop(runtime);
        assert!(last.join().unwrap());
        assert!(is_cancelled(other));
    }
}

fn dedicated_fibers_may_join_their_runtime(place: Place) {
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let last = runtime.run(|| {
        dedicated(move || {
            the_only(own).shutdown(Shutdown::Join);
            // The shutdown returns at once, and the fibers go on.
            sleep(Duration::from_millis(1));
            spawn(|| 7).join().unwrap() + dedicated(|| 8).join().unwrap()
        })
    });
    drop(runtime);
    assert_eq!(last.join().unwrap(), 15);
}

fn dedicated_fibers_may_abandon_their_runtime(place: Place) {
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let other = runtime.spawn(park_for_ever);
    let (sender, went_on) = mpsc::channel();
    let last = runtime.run(|| {
        dedicated(move || {
            the_only(own).shutdown(Shutdown::Abandon);
            sender.send("to its next wait").unwrap();
            park();
            sender.send("beyond it").unwrap();
        })
    });
    drop(runtime);
    assert!(is_cancelled(last));
    assert!(is_cancelled(other));
    assert_eq!(went_on.try_recv(), Ok("to its next wait"));
    assert!(went_on.try_recv().is_err());
}

fn a_fiber_that_stays_parked_is_abandoned_at_shutdown(place: Place) {
    let runtime = place.runtime();
    let stuck = waiting(&runtime, || shield(park_for_ever));
    let beside = runtime.spawn(|| shield(park_for_ever));
    let begin = Instant::now();
    drop(runtime);
    assert!(begin.elapsed() < HANG);
    assert!(is_cancelled(stuck));
    assert!(is_cancelled(beside));
}

fn one_that_ignores_its_end_is_abandoned(place: Place) {
    let runtime = place.runtime();
    let ignoring = waiting(&runtime, || {
        loop {
            let _ = std::panic::catch_unwind(park);
        }
    });
    drop(runtime);
    assert!(is_cancelled(ignoring));
}

fn spawns_that_race_with_the_drop_all_end(place: Place) {
    for round in 0..200 {
        let runtime = place.runtime_of(1 + round % 2);
        let (sender, handles) = mpsc::channel();
        let spawner = runtime.run(|| {
            dedicated(move || {
                let mut rounds = 0_u64;
                loop {
                    let fiber = match rounds % 3 {
                        0 => dedicated(|| ()),
                        1 => spawn(|| sleep(Duration::from_micros(100))),
                        _ => Builder::new()
                            .priority(uthread::priority::Priority::Urgent)
                            .spawn(|| ())
                            .unwrap(),
                    };
                    sender.send(fiber).unwrap();
                    rounds += 1;
                    if uthread::thread::is_cancelled() && rounds.is_multiple_of(4) {
                        break;
                    }
                }
            })
        });
        for _ in 0..round % 5 {
            sender_has_begun(&handles);
        }
        drop(runtime);
        assert!(spawner.is_finished());
        let is_over = spawner.join().is_ok();
        // If nothing was awaited, it may not have started.
        assert!(is_over || round % 5 == 0);
        for fiber in handles {
            assert!(fiber.is_finished());
            let _ = fiber.join();
        }
    }
}

fn sender_has_begun(handles: &mpsc::Receiver<JoinHandle<()>>) {
    let _ = handles.recv_timeout(HANG).unwrap().join();
}

fn a_fiber_that_drops_the_runtime_does_not_wait_for_its_joiner(place: Place) {
    let runtime = Arc::new(place.runtime_of(1));
    let own = Arc::clone(&runtime);
    let (sender, receiver) = mpsc::channel::<JoinHandle<()>>();
    let joining = waiting(&runtime, move || receiver.recv().unwrap().join().is_ok());
    sender
        .send(runtime.spawn(move || drop(the_only(own))))
        .unwrap();
    drop(runtime);
    assert!(joining.join().unwrap());
}

/// Keeps the only worker busy until the runtime has shut down, so that it starts nothing that waits
/// for the dedicated fiber.
fn a_drop_waits_for_one_that_has_just_started(place: Place) {
    let runtime = place.runtime_of(1);
    let (begun, begins) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let (spawned, spawns) = mpsc::channel();
    runtime.spawn(move || {
        let fiber = dedicated(move || {
            begun.send(()).unwrap();
            is_released.recv().unwrap();
        });
        begins.recv().unwrap();
        spawned.send(fiber).unwrap();
        // With a deadline it looks at the runtime itself.
        let until_the_end = || {
            while !uthread::thread::is_cancelled() {
                std::thread::yield_now();
            }
        };
        timeout(HANG, until_the_end)
    });
    let fiber = spawns.recv().unwrap();
    let dropping = gettid();
    let releases = std::thread::spawn(move || {
        wait_until_asleep(dropping);
        release.send(()).unwrap();
    });
    drop(runtime);
    assert!(fiber.is_finished());
    fiber.join().unwrap();
    releases.join().unwrap();
}

fn an_abandoned_runtime_waits_for_one_that_has_just_started(place: Place) {
    let runtime = Arc::new(place.runtime_of(1));
    let parked = runtime.spawn(park_for_ever);
    let (begun, begins) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let own = Arc::clone(&runtime);
    let spawner = runtime.spawn(move || {
        let own = the_only(own);
        let fiber = dedicated(move || {
            begun.send(()).unwrap();
            is_released.recv().unwrap();
            park_for_ever();
        });
        begins.recv().unwrap();
        own.shutdown(Shutdown::Abandon);
        fiber
    });
    drop(runtime);
    let fiber = spawner.join().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!parked.is_finished());
    release.send(()).unwrap();
    assert!(is_cancelled(parked));
    assert!(is_cancelled(fiber));
}

fn no_thread_is_left(place: Place) {
    alone(|| {
        let count = || {
            stats_of_threads()
                .filter(|stat| !stat.contains("(uthread-"))
                .count()
        };
        let before = count();
        for _ in 0..3 {
            let runtime = place.runtime();
            for _ in 0..5 {
                drop(waiting(&runtime, park_for_ever));
            }
            runtime.run(|| dedicated(|| ()).join().unwrap());
            drop(runtime);
            eventually("all threads end", || count() == before);
        }
    });
}

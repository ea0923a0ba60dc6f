//! Panics: each is the result of its fiber, and none does harm beyond it.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_LEAN_WORKER, behaviours};
use crate::support::{FREE, HOUR, SHORT};
use uthread::sync::Mutex;
use uthread::sync::mpsc::{Receiver, Sender, channel};
use uthread::thread::{Cancelled, panicking, park};
use uthread::time::Elapsed;
use uthread::{blocking, scope, sleep, spawn, timeout, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            join_returns_the_payload_of_a_panic,
            a_panic_passes_through_suspensions_and_runs_destructors,
            a_panic_is_caught_where_the_fiber_catches_it,
            a_panic_of_a_blocking_call_is_the_callers,
            a_scope_joins_its_fibers_before_it_panics,
            the_panic_of_a_scope_precedes_those_of_its_fibers,
            a_panic_in_an_inner_scope_reaches_the_outer_one,
            a_payload_that_panics_when_dropped_is_harmless,
            a_value_that_panics_when_dropped_is_harmless,
            a_capture_that_panics_when_dropped_is_the_fibers_panic,
            a_panic_that_is_over_is_not_taken_for_one_of_the_next_fiber,
            only_the_fiber_that_panics_is_panicking
        ]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [a_capture_that_panics_harms_no_shutdown]
    ),
    (
        IN_FIBERS,
        [
            run_passes_a_panic_on_and_the_runtime_lives,
            waits_end_beside_a_fiber_that_panicked_and_waits,
            locks_are_poisoned_beside_a_fiber_that_panicked_and_waits,
            the_end_of_a_runtime_poisons_no_lock
        ]
    ),
];

/// Panics when dropped, quietly.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            resume_unwind(Box::new("bomb"));
        }
    }
}

/// Ends the caller by a panic that prints nothing.
fn fail<T: Send + 'static>(payload: T) -> ! {
    resume_unwind(Box::new(payload))
}

fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Box<dyn std::any::Any + Send>> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Asserts that new fibers still run on each worker.
fn assert_fibers_run() {
    let handles: Vec<_> = (0..20).map(|index| spawn(move || index)).collect();
    for (index, handle) in (0..).zip(handles) {
        assert_eq!(handle.join().unwrap(), index);
    }
}

fn join_returns_the_payload_of_a_panic(place: Place) {
    place.run(|| {
        let payload = spawn(|| fail(vec![1, 2])).join().unwrap_err();
        assert_eq!(*payload.downcast::<Vec<i32>>().unwrap(), [1, 2]);
        let payload = spawn(|| assert_eq!(1, 2, "on purpose")).join().unwrap_err();
        assert!(payload.downcast::<String>().unwrap().contains("on purpose"));
        let payload = spawn(|| panic!("on purpose")).join().unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
    });
}

fn a_panic_passes_through_suspensions_and_runs_destructors(place: Place) {
    struct Waits<'a>(&'a AtomicUsize);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            yield_now();
            sleep(Duration::from_millis(1));
            spawn(|| ()).join().unwrap();
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    place.run(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&dropped);
        let failing = spawn(move || {
            let _outer = Waits(&theirs);
            let _inner = Waits(&theirs);
            yield_now();
            fail(9_u8)
        });
        let payload = failing.join().unwrap_err();
        assert_eq!(*payload.downcast::<u8>().unwrap(), 9);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert_fibers_run();
    });
}

fn a_panic_is_caught_where_the_fiber_catches_it(place: Place) {
    place.run(|| {
        let failing = |index: u32| {
            let outcome = caught(|| {
                yield_now();
                if index.is_multiple_of(2) {
                    sleep(Duration::from_millis(1));
                    fail(index);
                }
                blocking(|| index)
            });
            // The fiber goes on, through more suspensions.
            yield_now();
            outcome.unwrap_or_else(|payload| *payload.downcast().unwrap())
        };
        let handles: Vec<_> = (0..40).map(|index| spawn(move || failing(index))).collect();
        for (index, handle) in (0..).zip(handles) {
            assert_eq!(handle.join().unwrap(), index);
        }
    });
}

fn a_panic_of_a_blocking_call_is_the_callers(place: Place) {
    place.run(|| {
        let payload = caught(|| blocking(|| fail("blocked"))).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "blocked");
        // The thread of the call makes further calls.
        assert_eq!(blocking(|| 5), 5);
    });
}

fn a_scope_joins_its_fibers_before_it_panics(place: Place) {
    place.run(|| {
        let ended = AtomicUsize::new(0);
        let outcome = caught(|| {
            scope(|scope| {
                scope.spawn(|| fail(()));
                scope.spawn(|| {
                    sleep(Duration::from_millis(2));
                    ended.fetch_add(1, Ordering::Relaxed);
                });
                "value"
            })
        });
        let message = *outcome.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(message, "a fiber of the scope panicked");
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}

fn the_panic_of_a_scope_precedes_those_of_its_fibers(place: Place) {
    place.run(|| {
        let outcome = caught(|| {
            scope(|scope| -> () {
                scope.spawn(|| fail(1_u8));
                fail(2_u8)
            })
        });
        assert_eq!(*outcome.unwrap_err().downcast::<u8>().unwrap(), 2);
    });
}

fn a_panic_in_an_inner_scope_reaches_the_outer_one(place: Place) {
    place.run(|| {
        let outcome = caught(|| {
            scope(|outer| {
                let inner = outer.spawn(|| {
                    scope(|inner| {
                        inner.spawn(|| fail(()));
                    });
                });
                assert!(inner.join().is_err());
            });
        });
        assert!(
            outcome.is_ok(),
            "the fiber was joined, but its panic went on"
        );
    });
}

fn a_payload_that_panics_when_dropped_is_harmless(place: Place) {
    place.run(|| {
        // Dropped by the fiber, whose handle is gone.
        drop(spawn(|| {
            yield_now();
            fail(Bomb)
        }));
        // Dropped with the handle.
        let handle = spawn(|| fail(Bomb));
        while !handle.is_finished() {
            yield_now();
        }
        drop::<uthread::JoinHandle<()>>(handle);
        // Dropped by the joiner.
        let payload = spawn(|| fail(Bomb)).join().unwrap_err();
        assert!(caught(|| drop(payload)).is_err());
        let payload = caught(|| blocking(|| fail(Bomb))).unwrap_err();
        assert!(caught(|| drop(payload)).is_err());
        // Dropped by the scope.
        let outcome = caught(|| {
            scope(|scope| {
                scope.spawn(|| fail(Bomb));
            });
        });
        assert!(outcome.unwrap_err().is::<&str>());
        assert_fibers_run();
    });
}

fn a_value_that_panics_when_dropped_is_harmless(place: Place) {
    place.run(|| {
        drop(spawn(|| {
            yield_now();
            Bomb
        }));
        let handle = spawn(|| Bomb);
        while !handle.is_finished() {
            yield_now();
        }
        drop(handle);
        scope(|scope| {
            scope.spawn(|| Bomb);
        });
        assert_fibers_run();
    });
}

fn a_capture_that_panics_when_dropped_is_the_fibers_panic(place: Place) {
    place.run(|| {
        let bomb = Bomb;
        let handle = spawn(move || {
            let _moved = &bomb;
            5
        });
        let payload = handle.join().unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "bomb");
    });
}

fn a_capture_that_panics_harms_no_shutdown(place: Place) {
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let spawner = runtime.spawn(move || {
        while Arc::strong_count(&own) > 1 {
            yield_now();
        }
        let bomb = Bomb;
        let bombed = spawn(move || drop(bomb));
        let harmless = spawn(|| ());
        drop(own);
        (bombed.join(), harmless.join())
    });
    drop(runtime);
    let (bombed, harmless) = spawner.join().unwrap();
    assert_eq!(*bombed.unwrap_err().downcast::<&str>().unwrap(), "bomb");
    assert!(harmless.unwrap_err().is::<Cancelled>());
}

fn run_passes_a_panic_on_and_the_runtime_lives(place: Place) {
    let runtime = place.runtime();
    for round in 0..20_u8 {
        let outcome = caught(|| {
            runtime.run(|| {
                if round % 2 == 0 {
                    fail(round)
                }
            })
        });
        match outcome {
            Ok(()) => assert_eq!(round % 2, 1),
            Err(payload) => assert_eq!(*payload.downcast::<u8>().unwrap(), round),
        }
    }
    let outcome: Result<(), _> = caught(|| runtime.run(|| fail(Bomb)));
    assert!(caught(|| drop(outcome)).is_err());
    runtime.run(assert_fibers_run);
}

fn a_panic_that_is_over_is_not_taken_for_one_of_the_next_fiber(place: Place) {
    place.run(|| {
        for _ in 0..10 {
            assert!(spawn(|| fail(())).join().is_err());
        }
        assert!(!std::thread::panicking());
        // A caught panic leaves nothing behind for later fibers.
        assert!(caught(|| panic_any(Cancelled)).is_err());
        assert!(!spawn(std::thread::panicking).join().unwrap());
    });
}

fn only_the_fiber_that_panics_is_panicking(place: Place) {
    struct Waits(Sender<bool>, Receiver<()>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.send(panicking()).unwrap();
            self.1.recv().unwrap();
            self.0.send(panicking()).unwrap();
        }
    }
    place.run(|| {
        let (sender, seen) = channel();
        let (resume, resumed) = channel();
        let failing = spawn(move || {
            let _waits = Waits(sender, resumed);
            fail(())
        });
        assert!(seen.recv().unwrap(), "before it waits");
        // Where both fibers share a worker, the failing one waits in its destructor by the time the
        // spawned one runs. Elsewhere, the order does not matter.
        assert!(!spawn(panicking).join().unwrap());
        assert!(!panicking());
        resume.send(()).unwrap();
        assert!(seen.recv().unwrap(), "after it has waited");
        assert!(failing.join().is_err());
        assert!(!panicking());
    });
}

/// Calls `call` while another fiber, which has panicked, waits in a destructor. Both run on the
/// same worker if the runtime has only one.
fn beside_a_fiber_that_panicked_and_waits(call: impl FnOnce()) {
    struct Waits(Sender<()>, Receiver<()>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }
    let (begins, begun) = channel();
    let (end, ends) = channel();
    let failing = spawn(move || {
        let _waits = Waits(begins, ends);
        fail("on purpose")
    });
    begun.recv().unwrap();
    yield_now();
    call();
    end.send(()).unwrap();
    let failed: Result<(), _> = failing.join();
    assert!(failed.unwrap_err().is::<&str>());
}

fn waits_end_beside_a_fiber_that_panicked_and_waits(place: Place) {
    place.run(|| {
        beside_a_fiber_that_panicked_and_waits(|| {
            let (sender, receiver) = channel::<()>();
            // Repeated, to catch anything that unwinding leaves behind after a time limit, a panic
            // or a cancellation.
            for _ in 0..3 {
                assert_eq!(timeout(SHORT, || receiver.recv()), Err(Elapsed));
                assert_eq!(timeout(SHORT, || sleep(HOUR)), Err(Elapsed));
                assert_eq!(timeout(SHORT, park), Err(Elapsed));
                let scoped = caught(|| scope(|_| -> () { panic!("on purpose") }));
                assert!(scoped.is_err() && !panicking());
                let joined = caught(|| uthread::join(|| (), || -> () { panic!("on purpose") }));
                assert!(joined.is_err() && !panicking());
                let sleeping = spawn(|| sleep(HOUR));
                yield_now();
                sleeping.cancel();
                assert!(sleeping.join().unwrap_err().is::<Cancelled>());
            }
            drop(sender);
            assert!(receiver.recv().is_err());
        });
    });
}

fn locks_are_poisoned_beside_a_fiber_that_panicked_and_waits(place: Place) {
    // With the library's panic hook, which the tests replace.
    alone(|| {
        place.run(|| {
            beside_a_fiber_that_panicked_and_waits(|| {
                let lock = Mutex::new(());
                drop(lock.lock().unwrap());
                assert!(!lock.is_poisoned());
                let failed = scope(|scope| {
                    let failing = scope.spawn(|| {
                        let _guard = lock.lock().unwrap();
                        assert!(!panicking());
                        panic!("on purpose");
                    });
                    failing.join().is_err()
                });
                assert!(failed && lock.is_poisoned());
            });
        })
    });
}

fn the_end_of_a_runtime_poisons_no_lock(place: Place) {
    let locks: Arc<[Mutex<()>; 3]> = Arc::default();
    let runtime = place.runtime();
    let waits: [fn(); 3] = [
        || sleep(HOUR),
        park,
        || {
            let socket = uthread::net::UdpSocket::bind(FREE).unwrap();
            socket.recv(&mut [0]).unwrap();
        },
    ];
    let fibers: Vec<_> = waits
        .into_iter()
        .enumerate()
        .map(|(index, wait)| {
            let locks = Arc::clone(&locks);
            place.spawn_waiting(&runtime, move || {
                let _guard = locks[index].lock().unwrap();
                wait();
            })
        })
        .collect();
    drop(runtime);
    for fiber in fibers {
        assert!(fiber.join().is_err());
    }
    assert!(locks.iter().all(|lock| !lock.is_poisoned()));
}

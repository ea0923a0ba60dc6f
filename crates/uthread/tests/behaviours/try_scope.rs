//! Scopes that end with the first failure.

use std::io::{self, Read};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use uthread::net::TcpListener;
use uthread::sync::oneshot;
use uthread::thread::{Cancelled, is_cancelled};
use uthread::{scope, shield, sleep, spawn, timeout, try_scope};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{FREE, HOUR, pair};

behaviours![
    (
        EVERYWHERE,
        [
            all_that_succeeds_is_joined,
            the_first_error_ends_the_others_and_is_returned,
            an_error_of_the_body_ends_the_fibers,
            a_panic_ends_the_others_and_is_passed_on,
            a_panic_of_the_body_ends_the_fibers_and_is_passed_on,
            a_fiber_spawned_after_the_failure_ends_too,
            a_child_cancelled_by_hand_is_no_failure,
            the_caller_goes_on_after_a_failure,
            a_second_error_is_dropped_after_the_fibers_have_ended,
            a_panic_beside_an_error_is_dropped_after_the_fibers_have_ended,
        ]
    ),
    (
        IN_FIBERS,
        [
            the_body_ends_with_the_first_failure,
            a_shield_in_the_body_holds_it_off,
            an_outer_failure_ends_an_inner_scope,
            the_caller_may_be_cancelled,
            a_second_error_that_waits_is_dropped_after_the_fibers_have_ended,
        ]
    )
];

fn ready<T>(value: T) -> io::Result<T> {
    Ok(value)
}

fn endless() -> io::Result<()> {
    sleep(HOUR);
    Ok(())
}

fn failure() -> io::Error {
    io::Error::other("on purpose")
}

fn all_that_succeeds_is_joined(place: Place) {
    let sum = place.run(|| {
        let numbers = [1, 2, 3];
        try_scope(|scope| {
            let doubled: Vec<_> = numbers
                .iter()
                .map(|number| scope.spawn(move || ready(2 * number)))
                .collect();
            doubled
                .into_iter()
                .try_fold(0, |sum, number| Ok::<_, io::Error>(sum + number.join()?))
        })
    });
    assert_eq!(sum.unwrap(), 12);
}

fn the_first_error_ends_the_others_and_is_returned(place: Place) {
    place.run(|| {
        let (mut silent, _peer) = pair();
        let failed = try_scope(|scope| {
            let reading = scope.spawn(move || silent.read(&mut [0; 16]));
            let sleeping = scope.spawn(endless);
            scope.spawn(|| {
                sleep(Duration::from_millis(1));
                Err::<(), _>(failure())
            });
            // Whether the others fail with an error or unwind, the scope's is the first.
            reading.join()?;
            sleeping.join()?;
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");
    });
}

fn an_error_of_the_body_ends_the_fibers(place: Place) {
    place.run(|| {
        let failed: io::Result<()> = try_scope(|scope| {
            scope.spawn(endless);
            Err(failure())
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");
    });
}

fn message(result: std::thread::Result<io::Result<()>>) -> Option<&'static str> {
    result.err()?.downcast_ref::<&'static str>().copied()
}

fn a_panic_ends_the_others_and_is_passed_on(place: Place) {
    place.run(|| {
        let panicked = panic::catch_unwind(|| {
            try_scope(|scope| {
                scope.spawn(endless);
                scope.spawn(|| -> io::Result<()> { panic!("on purpose") });
                Ok(())
            })
        });
        assert_eq!(message(panicked), Some("a fiber of the scope panicked"));
    });
}

fn a_panic_of_the_body_ends_the_fibers_and_is_passed_on(place: Place) {
    place.run(|| {
        let panicked = panic::catch_unwind(|| {
            try_scope(|scope| {
                scope.spawn(endless);
                panic!("on purpose")
            })
        });
        assert_eq!(message(panicked), Some("on purpose"));
    });
}

fn a_fiber_spawned_after_the_failure_ends_too(place: Place) {
    place.run(|| {
        let failed = try_scope(|scope| {
            let failing = scope.spawn(|| Err::<(), _>(failure()));
            assert_eq!(shield(|| failing.join()), Err(Cancelled));
            let late = scope.spawn(endless);
            shield(|| late.join())?;
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");
    });
}

fn a_child_cancelled_by_hand_is_no_failure(place: Place) {
    place.run(|| {
        let value = try_scope(|scope| {
            let child = scope.spawn(endless);
            child.cancel();
            assert_eq!(child.join(), Err(Cancelled));
            ready("a value")
        });
        assert_eq!(value.unwrap(), "a value");
    });
}

fn the_caller_goes_on_after_a_failure(place: Place) {
    place.run(|| {
        for _ in 0..3 {
            let failed: io::Result<()> = try_scope(|scope| {
                scope.spawn(|| Err::<(), _>(failure()));
                sleep(Duration::from_millis(1));
                Ok(())
            });
            assert!(failed.is_err());
            assert!(!is_cancelled());
            sleep(Duration::from_millis(1));
            uthread::fs::read("Cargo.toml").unwrap();
        }
    });
}

fn the_body_ends_with_the_first_failure(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let failed = try_scope(|scope| {
            scope.spawn(|| {
                sleep(Duration::from_millis(1));
                Err::<(), _>(failure())
            });
            let refused = listener.accept().unwrap_err();
            assert_eq!(Errno::from_io_error(&refused), Some(Errno::CANCELED));
            Err::<(), _>(refused)
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");

        // A failure also unwinds the body, and the unwinding ends at the scope.
        let failed = try_scope(|scope| {
            scope.spawn(|| Err::<(), _>(failure()));
            sleep(HOUR);
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");
    });
}

fn a_shield_in_the_body_holds_it_off(place: Place) {
    place.run(|| {
        let mut slept = false;
        let failed: io::Result<()> = try_scope(|scope| {
            scope.spawn(|| Err::<(), _>(failure()));
            shield(|| sleep(Duration::from_millis(5)));
            slept = true;
            sleep(HOUR);
            Ok(())
        });
        assert!(failed.is_err() && slept);
    });
}

fn an_outer_failure_ends_an_inner_scope(place: Place) {
    place.run(|| {
        let failed = try_scope(|outer| {
            outer.spawn(|| {
                sleep(Duration::from_millis(1));
                Err::<(), _>(failure())
            });
            scope(|inner| {
                inner.spawn(|| sleep(HOUR));
            });
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");

        // Not the other way round, and a shield around both changes nothing.
        let value = shield(|| {
            try_scope(|_| {
                let inner: io::Result<()> = try_scope(|scope| {
                    scope.spawn(|| Err::<(), _>(failure()));
                    sleep(HOUR);
                    Ok(())
                });
                assert!(inner.is_err() && !is_cancelled());
                ready("a value")
            })
        });
        assert_eq!(value.unwrap(), "a value");
    });
}

fn the_caller_may_be_cancelled(place: Place) {
    place.run(|| {
        let caller = spawn(|| {
            try_scope(|scope| {
                scope.spawn(endless);
                Ok(())
            })
        });
        assert!(timeout(Duration::from_millis(2), || sleep(HOUR)).is_err());
        caller.cancel();
        let payload = caller.join().unwrap_err();
        assert!(payload.is::<Cancelled>());
    });
}

/// An error whose destructor reports whether the shielded fiber had ended, and then does something.
struct Last {
    ended: Arc<AtomicBool>,
    drops_late: Arc<AtomicBool>,
    then: fn(),
}

impl Drop for Last {
    fn drop(&mut self) {
        let late = self.ended.load(Ordering::Relaxed);
        self.drops_late.store(late, Ordering::Relaxed);
        (self.then)();
    }
}

/// Asserts that a scope that has failed, and whose body then does what `second` says, drops what
/// came of that after its shielded fiber has ended, and not before it ends itself.
fn assert_dropped_late(then: fn(), second: fn(Last) -> Result<(), Option<Last>>) {
    let (ended, drops_late) = (Arc::default(), Arc::default());
    let last = Last {
        ended: Arc::clone(&ended),
        drops_late: Arc::clone(&drops_late),
        then,
    };
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        try_scope(|scope| {
            let (begins, has_begun) = oneshot::channel();
            let ended = &ended;
            scope.spawn(move || {
                shield(|| {
                    begins.send(()).unwrap();
                    sleep(Duration::from_millis(5));
                    ended.store(true, Ordering::Relaxed);
                });
                Ok(())
            });
            shield(|| has_begun.recv().unwrap());
            let failing = scope.spawn(|| Err::<(), _>(None));
            assert!(shield(|| failing.join()).is_err());
            second(last)
        })
    }));
    assert!(ended.load(Ordering::Relaxed), "the scope waits for all");
    drop(caught);
    assert!(
        drops_late.load(Ordering::Relaxed),
        "and runs no code before"
    );
}

fn a_second_error_is_dropped_after_the_fibers_have_ended(place: Place) {
    fn panics() {
        panic::resume_unwind(Box::new("a destructor"));
    }
    place.run(|| assert_dropped_late(panics, |last| Err(Some(last))));
}

fn a_second_error_that_waits_is_dropped_after_the_fibers_have_ended(place: Place) {
    place.run(|| {
        // The caller may not wait any more when it does.
        let in_time = timeout(Duration::from_millis(1), || {
            assert_dropped_late(|| sleep(HOUR), |last| Err(Some(last)));
        });
        assert_eq!(in_time, Ok(()));
    });
}

fn a_panic_beside_an_error_is_dropped_after_the_fibers_have_ended(place: Place) {
    place.run(|| assert_dropped_late(|| (), |last| panic::resume_unwind(Box::new(last))));
}

//! The builder of fibers: names, stack sizes, and its errors.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, ON_A_THREAD, behaviours};
use uthread::thread::{Builder, ThreadId, park};
use uthread::{current, scope, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            a_scoped_fiber_borrows_and_has_its_name,
            an_unchecked_fiber_borrows_what_outlives_its_join,
            a_handle_knows_who_its_fiber_is,
            the_fiber_of_a_handle_is_unparked_by_it,
            an_identity_outlives_its_fiber
        ]
    ),
    (
        ON_A_THREAD,
        [a_builder_returns_the_error_of_a_runtime_that_cannot_start]
    ),
];

fn a_scoped_fiber_borrows_and_has_its_name(place: Place) {
    place.run(|| {
        let mut numbers = vec![1, 2, 3];
        let name = scope(|scope| {
            let builder = Builder::new().name("scoped".into());
            let fiber = builder.spawn_scoped(scope, || {
                yield_now();
                numbers.push(4);
                current().name().map(str::to_owned)
            });
            let fiber = fiber.unwrap();
            assert_eq!(fiber.thread().name(), Some("scoped"));
            fiber.join().unwrap()
        });
        assert_eq!(name.as_deref(), Some("scoped"));
        assert_eq!(numbers, [1, 2, 3, 4]);
    });
}

#[allow(unsafe_code, reason = "what is to be tried")]
fn an_unchecked_fiber_borrows_what_outlives_its_join(place: Place) {
    place.run(|| {
        let text = String::from("borrowed");
        // SAFETY: the text lives until the join, and nothing before that panics.
        let handle = unsafe { Builder::new().spawn_unchecked(|| (&text[1..], yield_now())) };
        assert_eq!(handle.unwrap().join().unwrap().0, "orrowed");
    });
}

fn a_handle_knows_who_its_fiber_is(place: Place) {
    place.run(|| {
        let own: fn() -> ThreadId = || current().id();
        let plain = spawn(own);
        let id = plain.thread().id();
        assert_eq!(plain.thread().name(), None);
        assert_eq!(plain.join().unwrap(), id);
        let named = Builder::new().name("named".into()).spawn(own).unwrap();
        assert_eq!(named.thread().name(), Some("named"));
        assert_ne!(named.thread().id(), id);
        let id = named.thread().id();
        assert_eq!(named.join().unwrap(), id);
    });
}

fn the_fiber_of_a_handle_is_unparked_by_it(place: Place) {
    place.run(|| {
        let passed = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&passed);
        let parked = spawn(move || {
            while theirs.load(Ordering::Relaxed) == 0 {
                park();
            }
        });
        yield_now();
        passed.store(1, Ordering::Relaxed);
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

fn an_identity_outlives_its_fiber(place: Place) {
    place.run(|| {
        let (left, id) = scope(|scope| {
            let text = String::from("borrowed");
            let fiber = Builder::new().name("gone".into());
            let fiber = fiber.spawn_scoped(scope, move || text.len()).unwrap();
            let left = fiber.thread().clone();
            assert_eq!(fiber.join().unwrap(), 8);
            (left.clone(), left.id())
        });
        left.unpark();
        assert_eq!((left.name(), left.id()), (Some("gone"), id));
    });
}

fn a_builder_returns_the_error_of_a_runtime_that_cannot_start(place: Place) {
    alone(|| {
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit {
            current: Some(3),
            ..limit
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        place.run(|| {
            let dropped = Arc::new(());
            let theirs = Arc::clone(&dropped);
            let error = Builder::new().spawn(move || drop(theirs)).unwrap_err();
            assert!(error.to_string().contains("ulimit -n"), "{error}");
            assert_eq!(Arc::strong_count(&dropped), 1);
            scope(|scope| {
                let refused = Builder::new().spawn_scoped(scope, || ());
                assert_ne!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
            });
        });
        setrlimit(Resource::Nofile, limit).unwrap();
        let later = Builder::new().spawn(|| 5);
        assert_eq!(later.unwrap().join().unwrap(), 5);
    });
}

//! The end of fiber-local values: with that of their fiber, whatever it is, and on its stack.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;
// The channels of `std`, which destructors can use even in a cancelled fiber.
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_A_THREAD, ON_ONE_LEAN_WORKER, behaviours};
use uthread::io::{self, Read, Write};
use uthread::local::AccessError;
use uthread::sync::mpsc as ours;
use uthread::thread::{Cancelled, ThreadId, park};
use uthread::{JoinHandle, Runtime, current, sleep, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            values_are_dropped_newest_first_before_the_join,
            values_are_dropped_after_a_panic,
            a_destructor_may_wait_and_spawn,
            a_destroyed_value_is_not_made_again,
            values_made_by_destructors_are_dropped,
            values_without_destructors_outlive_all_others,
            a_destructor_that_panics_is_the_fibers_panic,
        ]
    ),
    (
        IN_FIBERS,
        [
            values_are_dropped_when_the_runtime_cancels,
            values_are_dropped_when_the_fiber_is_cancelled,
            a_destructor_waits_whatever_has_ended_the_fiber,
            values_made_by_unused_values_are_dropped,
            values_made_by_late_panic_payloads_are_dropped
        ]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [a_fiber_that_never_ran_drops_what_its_captures_make]
    ),
    (
        ON_A_THREAD,
        [
            outside_a_value_is_the_threads,
            an_access_after_the_end_of_a_threads_values_is_refused
        ]
    ),
];

/// Tells its name when it is dropped, once it has been given a sender.
struct Tells(&'static str, RefCell<Option<Sender<&'static str>>>);

impl Tells {
    fn named(name: &'static str) -> Tells {
        Tells(name, RefCell::new(None))
    }

    fn to(&self, sender: &Sender<&'static str>) {
        *self.1.borrow_mut() = Some(sender.clone());
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        if let Some(sender) = self.1.take() {
            sender.send(self.0).unwrap();
        }
    }
}

uthread::local! {
    static NUMBER: Cell<u32> = const { Cell::new(7) };
    static FIRST: Tells = Tells::named("first");
    static SECOND: Tells = Tells::named("second");
    static THIRD: Tells = Tells::named("third");
}

/// Uses the three keys in another order than they are declared.
fn use_three(sender: &Sender<&'static str>) {
    for key in [&SECOND, &FIRST, &THIRD] {
        key.with(|value| value.to(sender));
    }
}

fn taken(names: &Receiver<&'static str>) -> Vec<&'static str> {
    names.try_iter().collect()
}

fn values_are_dropped_newest_first_before_the_join(place: Place) {
    place.run(|| {
        let (sender, dropped) = channel();
        let fiber = spawn(move || {
            use_three(&sender);
            yield_now();
        });
        assert!(fiber.join().is_ok());
        assert_eq!(taken(&dropped), ["third", "first", "second"]);
    });
}

fn values_are_dropped_after_a_panic(place: Place) {
    place.run(|| {
        let (sender, dropped) = channel();
        let fiber = spawn(move || {
            use_three(&sender);
            resume_unwind(Box::new(5_u8))
        });
        let payload: Result<(), _> = fiber.join();
        assert_eq!(*payload.unwrap_err().downcast::<u8>().unwrap(), 5);
        assert_eq!(taken(&dropped), ["third", "first", "second"]);
    });
}

fn a_destructor_may_wait_and_spawn(place: Place) {
    struct Waits(RefCell<Option<Sender<u32>>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(!std::thread::panicking());
            yield_now();
            sleep(Duration::from_millis(1));
            let answer = spawn(|| 6 * 7).join().unwrap();
            self.0.take().unwrap().send(answer).unwrap();
        }
    }
    uthread::local!(static WAITS: Waits = Waits(RefCell::new(None)));
    place.run(|| {
        let (sender, answers) = channel();
        let fiber = spawn(move || WAITS.with(|waits| *waits.0.borrow_mut() = Some(sender)));
        fiber.join().unwrap();
        assert_eq!(answers.try_recv(), Ok(42));
    });
}

/// Calls what it was given when it is dropped.
#[derive(Default)]
struct Calls(Cell<Option<Box<dyn FnOnce()>>>);

impl Calls {
    fn later(&self, call: impl FnOnce() + 'static) {
        self.0.set(Some(Box::new(call)));
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

uthread::local! {
    static CALLS: Calls = Calls::default();
    static CALLS_FIRST: Calls = Calls::default();
}

/// Returns the result of `call`, made in a destructor at the end of a fiber. The local values that
/// `before` uses are older.
fn at_the_end<T: Send + 'static>(before: fn(), call: fn() -> T) -> T {
    let (sender, result) = channel();
    let fiber = spawn(move || {
        before();
        CALLS.with(|calls| calls.later(move || sender.send(call()).unwrap()));
    });
    fiber.join().unwrap();
    result.try_recv().unwrap()
}

fn a_destroyed_value_is_not_made_again(place: Place) {
    place.run(|| {
        let (itself, older) = at_the_end(
            || CALLS_FIRST.with(|_| ()),
            || {
                let itself = CALLS.try_with(|_| ()).unwrap_err();
                let panics = std::panic::catch_unwind(|| CALLS.with(|_| ())).is_err();
                assert!(panics);
                (itself.to_string(), CALLS_FIRST.try_with(|_| ()))
            },
        );
        assert_eq!(itself, "the fiber-local value has already been destroyed");
        assert_eq!(older, Ok(()), "and alive");
        let (sender, result) = channel();
        let fiber = spawn(move || {
            let look = move || sender.send(CALLS.try_with(|_| ())).unwrap();
            CALLS_FIRST.with(|calls| calls.later(look));
            CALLS.with(|_| ());
        });
        fiber.join().unwrap();
        assert!(result.try_recv().unwrap().is_err(), "newer, and gone");
    });
}

fn values_made_by_destructors_are_dropped(place: Place) {
    place.run(|| {
        let (sender, dropped) = channel();
        let fiber = spawn(move || {
            CALLS.with(|calls| {
                calls.later(move || {
                    FIRST.with(|value| value.to(&sender));
                    let late = move || SECOND.with(|value| value.to(&sender));
                    CALLS_FIRST.with(|calls| calls.later(late));
                });
            });
        });
        fiber.join().unwrap();
        assert_eq!(taken(&dropped), ["second", "first"]);
    });
}

fn values_without_destructors_outlive_all_others(place: Place) {
    place.run(|| {
        let (sender, seen) = channel();
        let fiber = spawn(move || {
            let look = move || sender.send((NUMBER.replace(6), NUMBER.get())).unwrap();
            CALLS.with(|calls| calls.later(look));
            // Newer, and so gone by then, if it were dropped.
            NUMBER.set(5);
        });
        fiber.join().unwrap();
        assert_eq!(seen.try_recv(), Ok((5, 6)));
        assert_eq!(at_the_end(|| (), || NUMBER.get()), 7);
    });
}

fn a_destructor_that_panics_is_the_fibers_panic(place: Place) {
    place.run(|| {
        let bombs = |ends: fn() -> String| {
            let (sender, dropped) = channel();
            let fiber = spawn(move || {
                FIRST.with(|value| value.to(&sender));
                CALLS.with(|calls| calls.later(|| resume_unwind(Box::new("older"))));
                CALLS_FIRST.with(|calls| calls.later(|| resume_unwind(Box::new("newer"))));
                ends()
            });
            let payload = fiber.join().unwrap_err();
            assert_eq!(taken(&dropped), ["first"]);
            *payload.downcast::<&str>().unwrap()
        };
        assert_eq!(bombs(|| "value".to_owned()), "newer");
        assert_eq!(bombs(|| resume_unwind(Box::new("own"))), "own");
    });
}

fn values_are_dropped_when_the_runtime_cancels(place: Place) {
    let runtime = place.runtime();
    let (fiber, dropped) = uses_three_and_waits(place, &runtime);
    drop(runtime);
    assert!(fiber.join().unwrap_err().is::<Cancelled>());
    assert_eq!(taken(&dropped), ["third", "first", "second"]);
}

fn values_are_dropped_when_the_fiber_is_cancelled(place: Place) {
    let runtime = place.runtime();
    let (fiber, dropped) = uses_three_and_waits(place, &runtime);
    fiber.cancel();
    assert!(fiber.join().unwrap_err().is::<Cancelled>());
    assert_eq!(taken(&dropped), ["third", "first", "second"]);
}

fn a_destructor_waits_whatever_has_ended_the_fiber(place: Place) {
    let runtime = place.runtime();
    let spawn_waiting = || {
        let (sender, reached) = channel();
        let fiber = place.spawn_waiting(&runtime, move || {
            let waits = move || {
                // None has an error to return, but the last.
                yield_now();
                sleep(Duration::from_millis(1));
                // With the runtime this one ends before it has begun.
                let _ = spawn(yield_now).join();
                let mut stream = io::pipe().unwrap();
                stream.1.write_all(b"1").unwrap();
                stream.0.read_exact(&mut [0]).unwrap();
                sender.send(()).unwrap();
            };
            CALLS.with(|calls| calls.later(waits));
            loop {
                park();
            }
        });
        (fiber, reached)
    };
    let (cancelled, reached) = spawn_waiting();
    cancelled.cancel();
    let payload: Result<(), _> = cancelled.join();
    assert!(payload.unwrap_err().is::<Cancelled>());
    assert_eq!(reached.try_recv(), Ok(()));
    let (left, reached) = spawn_waiting();
    drop(runtime);
    assert!(left.join().unwrap_err().is::<Cancelled>());
    assert_eq!(reached.try_recv(), Ok(()));
}

fn uses_three_and_waits(
    place: Place,
    runtime: &Runtime,
) -> (JoinHandle<()>, Receiver<&'static str>) {
    let (sender, dropped) = channel();
    let fiber = place.spawn_waiting(runtime, move || {
        use_three(&sender);
        loop {
            park();
        }
    });
    (fiber, dropped)
}

fn values_made_by_unused_values_are_dropped(place: Place) {
    struct UsesCalls(ours::Sender<ThreadId>);
    impl Drop for UsesCalls {
        fn drop(&mut self) {
            let sender = self.0.clone();
            let tell = move || sender.send(current().id()).unwrap();
            CALLS.with(|calls| calls.later(tell));
        }
    }
    place.run(|| {
        let (sender, dropped) = ours::channel();
        let (detached, is_detached) = ours::channel();
        let fiber = spawn(move || {
            is_detached.recv().unwrap();
            UsesCalls(sender)
        });
        let id = fiber.thread().id();
        drop(fiber);
        detached.send(()).unwrap();
        assert_eq!(dropped.recv(), Ok(id), "on its own stack");
    });
}

/// Catches a value that ends only with the last handle, on whichever thread that is.
fn values_made_by_late_panic_payloads_are_dropped(place: Place) {
    struct Payload(ours::Sender<ThreadId>);
    impl Drop for Payload {
        fn drop(&mut self) {
            let sender = self.0.clone();
            let tell_and_panic = move || {
                sender.send(current().id()).unwrap();
                resume_unwind(Box::new("the destructor of a late value"));
            };
            CALLS_FIRST.with(|calls| calls.later(tell_and_panic));
        }
    }
    struct PanicsLate(ours::Sender<ThreadId>);
    impl Drop for PanicsLate {
        fn drop(&mut self) {
            let payload = Payload(self.0.clone());
            CALLS.with(|calls| calls.later(|| resume_unwind(Box::new(payload))));
        }
    }
    place.run(|| {
        let (sender, dropped) = ours::channel();
        let (detached, is_detached) = ours::channel();
        let fiber = spawn(move || {
            is_detached.recv().unwrap();
            PanicsLate(sender)
        });
        let last_handle = fiber.thread().clone();
        drop(fiber);
        detached.send(()).unwrap();
        assert_eq!(dropped.recv(), Ok(last_handle.id()), "on its own stack");
        assert!(dropped.recv().is_err(), "and once");
    });
}

/// A value that uses a key when it is dropped.
struct UsesFirst(Sender<&'static str>);

impl Drop for UsesFirst {
    fn drop(&mut self) {
        FIRST.with(|value| value.to(&self.0));
    }
}

fn a_fiber_that_never_ran_drops_what_its_captures_make(place: Place) {
    let (sender, dropped) = channel();
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let spawner = runtime.spawn(move || {
        while Arc::strong_count(&own) > 1 {
            yield_now();
        }
        let capture = UsesFirst(sender);
        let never = spawn(move || drop(capture));
        drop(own);
        never.join()
    });
    drop(runtime);
    let never = spawner.join().unwrap();
    assert!(never.unwrap_err().is::<Cancelled>());
    assert_eq!(taken(&dropped), ["first"]);
}

fn outside_a_value_is_the_threads(place: Place) {
    place.run(|| {
        let (sender, dropped) = channel();
        let before = NUMBER.replace(3);
        let thread = std::thread::spawn(move || {
            use_three(&sender);
            NUMBER.get()
        });
        assert_eq!(thread.join().unwrap(), 7);
        assert_eq!(taken(&dropped), ["third", "first", "second"]);
        assert_eq!(NUMBER.replace(before), 3);
    });
}

fn an_access_after_the_end_of_a_threads_values_is_refused(place: Place) {
    struct Looks(Sender<[Result<(), AccessError>; 3]>);
    impl Drop for Looks {
        fn drop(&mut self) {
            let tries = [
                FIRST.try_with(|_| ()),
                SECOND.try_with(|_| ()),
                NUMBER.try_with(|_| ()),
            ];
            self.0.send(tries).unwrap();
        }
    }
    thread_local! {
        static LOOKS: RefCell<Option<Looks>> = const { RefCell::new(None) };
    }
    place.run(|| {
        let (sender, seen) = channel();
        let thread = std::thread::spawn(move || {
            // Registered first, and so dropped last.
            LOOKS.set(Some(Looks(sender)));
            FIRST.with(|_| ());
            NUMBER.with(|_| ());
        });
        thread.join().unwrap();
        assert!(seen.recv().unwrap().iter().all(Result::is_err));
    });
}

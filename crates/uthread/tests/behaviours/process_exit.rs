//! The end of the process by `exit` in a fiber: the destructors of the thread's values may wait,
//! and nothing else runs there.

use std::cell::Cell;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::harness::child::child;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, OUTSIDE, OWN_TLS, behaviours};
use uthread::io::{self, Read, Write};
use uthread::{sleep, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [an_initializer_of_a_fiber_local_may_wait_and_use_its_key]
    ),
    (
        IN_FIBERS,
        [a_destructor_that_waits_at_exit_lets_no_fiber_run]
    ),
    // Elsewhere the value is left behind by the fiber that exits.
    (&[OUTSIDE, OWN_TLS], [the_exit_of_std_is_noticed_too])
];

/// The exit code of a process in which nothing ran that must not.
const CODE: i32 = 17;

static EXITS: AtomicBool = AtomicBool::new(false);

/// Waits in every way when it is destroyed.
struct Waits;

impl Drop for Waits {
    fn drop(&mut self) {
        EXITS.store(true, Ordering::Relaxed);
        sleep(Duration::from_millis(2));
        yield_now();
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"a").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        println!("waited");
    }
}

thread_local! {
    static VALUE: Waits = const { Waits };
    static EXITING: Cell<bool> = const { Cell::new(false) };
}

/// Ends the process by `exit` after `prepare`, beside fibers of the same worker that say so if they
/// run after that.
fn exit_beside_others(place: Place, prepare: fn(), exit: fn(i32) -> !) {
    place.run(|| {
        for _ in 0..4 {
            spawn(|| {
                loop {
                    sleep(Duration::from_micros(100));
                    if EXITS.load(Ordering::Relaxed) && EXITING.get() {
                        println!("another fiber runs");
                    }
                }
            });
        }
        let exiting = spawn(move || {
            prepare();
            EXITING.set(true);
            exit(CODE);
        });
        let _: Result<(), _> = exiting.join();
    });
}

fn assert_exited(output: &process::Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(CODE), "{text}");
    assert!(text.contains("waited"), "{text}");
    assert!(!text.contains("another fiber runs"), "{text}");
}

fn a_destructor_that_waits_at_exit_lets_no_fiber_run(place: Place) {
    let Some(output) = child() else {
        return exit_beside_others(place, || VALUE.with(|_| ()), uthread::process::exit);
    };
    assert_exited(&output);
}

fn the_exit_of_std_is_noticed_too(place: Place) {
    let Some(output) = child() else {
        // The worker sleeps so often that it learns of the value.
        let make_and_sleep = || {
            VALUE.with(|_| ());
            (0..100).for_each(|_| sleep(Duration::from_micros(200)));
        };
        return exit_beside_others(place, make_and_sleep, process::exit);
    };
    assert_exited(&output);
}

fn an_initializer_of_a_fiber_local_may_wait_and_use_its_key(place: Place) {
    uthread::local! {
        static SLOW: String = {
            yield_now();
            sleep(Duration::from_millis(1));
            if NESTED.replace(true) {
                String::from("inner")
            } else {
                // Made while the outer one is: that is dropped then, but for those who use it.
                SLOW.with(|inner| {
                    yield_now();
                    format!("outer of {inner}")
                })
            }
        };
        static NESTED: Cell<bool> = const { Cell::new(false) };
    }
    place.run(|| {
        let fibers: Vec<_> = (0..4).map(|_| spawn(|| SLOW.with(String::clone))).collect();
        for fiber in fibers {
            assert_eq!(fiber.join().unwrap(), "outer of inner");
        }
    });
}

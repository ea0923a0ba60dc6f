//! The messages of panics. Hooks belong to the process, so each trial has a process of its own.

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use std::{process, thread};

use rustix::stdio::dup2_stderr;

use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_A_THREAD, behaviours};
use crate::support::pair;
use uthread::io::{Read, Write};
use uthread::sync::Mutex;
use uthread::thread::Builder;
use uthread::{Driver, Runtime, current, io, sleep, spawn, yield_now};

behaviours![
    (
        IN_FIBERS,
        [
            the_message_names_the_fiber,
            a_fiber_without_a_name_is_named_by_its_number,
            a_hook_that_was_there_before_is_called,
            a_hook_that_comes_later_replaces_it,
            a_runtime_may_start_during_a_panic,
            a_message_without_a_reader_is_harmless,
            a_hook_may_wait_while_others_panic,
            a_hook_that_comes_later_may_wait_while_others_panic,
            a_hook_may_use_up_its_turn
        ]
    ),
    (ON_A_THREAD, [the_panic_of_a_plain_thread_names_the_thread]),
];

/// The line in which `fail` spawns.
const LINE: u32 = line!() + 5;

/// Lets a fiber panic.
fn fail(name: Option<&str>) {
    let builder = name.map_or_else(Builder::new, |name| Builder::new().name(name.into()));
    let failing = builder.spawn(|| panic!("on purpose"));
    assert!(failing.unwrap().join().is_err());
}

/// Returns the child's standard error, without numbers.
fn said(output: &process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", output.status);
    text.replace(|c: char| c.is_ascii_digit(), "")
}

/// Returns the message of `std`, without numbers.
fn message(thread: &str) -> String {
    let file = file!();
    let note = "note: run with `RUST_BACKTRACE=` environment variable to display a backtrace";
    format!("\nthread '{thread}' () panicked at {file}:::\non purpose\n{note}\n")
}

/// Returns the line that precedes it, without numbers.
fn line(name: &str) -> String {
    format!(
        "uthread: fiber {name}(spawned at {}::) panicked:\n",
        file!()
    )
}

fn thread_name(place: Place, fiber: &'static str) -> &'static str {
    if place.is_of_threads() {
        fiber
    } else if place.has_own_tls() {
        // To `std`, the fiber is a thread that it has not created.
        "<unnamed>"
    } else {
        "uthread-"
    }
}

fn the_message_names_the_fiber(place: Place) {
    let Some(output) = child() else {
        return place.run(|| fail(Some("bee")));
    };
    let message = message(thread_name(place, "bee"));
    assert_eq!(said(&output), line(" \"bee\" ") + &message);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("{}:{LINE}:27)", file!())), "{text}");
}

fn a_fiber_without_a_name_is_named_by_its_number(place: Place) {
    let Some(output) = child() else {
        return place.run(|| fail(None));
    };
    let message = message(thread_name(place, "<unnamed>"));
    assert_eq!(said(&output), line(" ") + &message);
}

/// Sets a hook that prints the name of the fiber that panics.
fn set_hook(said: &'static str) {
    panic::set_hook(Box::new(move |_| {
        eprintln!("{said} {}", current().name().unwrap_or("none"));
    }));
}

fn a_hook_that_was_there_before_is_called(place: Place) {
    let Some(output) = child() else {
        set_hook("own");
        // The hook of a second runtime would be a second line.
        drop(place.runtime());
        return place.run(|| fail(Some("bee")));
    };
    assert_eq!(said(&output), line(" \"bee\" ") + "own bee\n");
}

fn a_hook_that_comes_later_replaces_it(place: Place) {
    let Some(output) = child() else {
        return place.run(|| {
            set_hook("own");
            fail(Some("bee"));
        });
    };
    assert_eq!(said(&output), "own bee\n");
}

fn a_runtime_may_start_during_a_panic(place: Place) {
    struct Starts(Place);
    impl Drop for Starts {
        fn drop(&mut self) {
            self.0.run(|| fail(Some("early")));
        }
    }
    let Some(output) = child() else {
        set_hook("own");
        let failing = AssertUnwindSafe(|| {
            let _starts = Starts(place);
            panic!("on purpose")
        });
        let failed: Result<(), _> = catch_unwind(failing);
        assert!(failed.is_err());
        return place.run(|| fail(Some("bee")));
    };
    let trial = thread::current().name().unwrap().to_owned();
    let trial = trial.replace(|c: char| c.is_ascii_digit(), "");
    let bee = line(" \"bee\" ");
    assert_eq!(
        said(&output),
        format!("own {trial}\nown early\n{bee}own bee\n")
    );
}

fn a_message_without_a_reader_is_harmless(place: Place) {
    alone(|| {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        dup2_stderr(writer).unwrap();
        place.run(|| {
            fail(None);
            assert_eq!(spawn(|| 5).join().unwrap(), 5);
        });
    });
}

/// Sets a hook that waits in each way, and prints a line for the last of [`PANICS`] panics.
fn set_waiting_hook() {
    static LOCK: Mutex<u32> = Mutex::new(0);
    panic::set_hook(Box::new(|_| {
        sleep(Duration::from_millis(1));
        yield_now();
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"a").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        let mut count = LOCK.lock().unwrap();
        *count += 1;
        sleep(Duration::from_millis(1));
        if *count == PANICS {
            eprintln!("all said");
        }
    }));
}

const PANICS: u32 = 5;

/// Lets fibers panic at once.
fn fail_together() {
    let failing: Vec<_> = (0..PANICS)
        .map(|_| spawn(|| panic!("on purpose")))
        .collect();
    for fiber in failing {
        let failed: Result<(), _> = fiber.join();
        assert!(failed.is_err());
    }
}

/// Exercises a hook that keeps its worker: no other fiber runs meanwhile, and all others run
/// afterwards.
fn a_hook_may_use_up_its_turn(place: Place) {
    alone(|| {
        panic::set_hook(Box::new(|_| {
            let (mut ours, mut theirs) = pair();
            for _ in 0..100 {
                ours.write_all(&[1; 64]).unwrap();
                theirs.read_exact(&mut [0; 64]).unwrap();
            }
        }));
        place.run(|| {
            fail(None);
            assert_eq!(spawn(|| 5).join().unwrap(), 5);
        });
    });
}

/// Catches a second panic on the thread of a hook, which would end the process.
fn a_hook_may_wait_while_others_panic(place: Place) {
    let Some(output) = child() else {
        set_waiting_hook();
        return place.run(fail_together);
    };
    assert!(said(&output).ends_with("\nall said\n"));
}

fn a_hook_that_comes_later_may_wait_while_others_panic(place: Place) {
    let Some(output) = child() else {
        return place.run(|| {
            set_waiting_hook();
            fail_together();
        });
    };
    assert_eq!(said(&output), "all said\n");
}

fn the_panic_of_a_plain_thread_names_the_thread(_: Place) {
    let Some(output) = child() else {
        drop(Runtime::builder().driver(Driver::Epoll).build().unwrap());
        let thread = thread::Builder::new().name("plain".into());
        let failing = thread.spawn(|| panic!("on purpose")).unwrap();
        let failed: Result<(), _> = failing.join();
        return assert!(failed.is_err());
    };
    assert_eq!(said(&output), message("plain"));
}

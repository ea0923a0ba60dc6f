//! Stacks: what fits runs, what overflows ends the process with a report, in a child to be watched.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{Gap, IN_FIBERS, ON_SEVERAL_WORKERS, OUTSIDE, behaviours};
use uthread::thread::Builder;
use uthread::{Runtime, spawn, yield_now};

const ON_OWN_STACKS: &[Gap] = &[
    OUTSIDE,
    Gap(Place::is_of_threads, "a thread's stack is the system's"),
];

behaviours![
    (
        ON_OWN_STACKS,
        [
            an_overflow_names_the_fiber_its_spawn_site_and_the_size,
            a_fiber_without_a_name_is_reported_too,
            an_overflow_of_a_blocking_call_or_a_thread_is_the_ordinary_one,
            a_bad_address_elsewhere_ends_the_process_as_ever
        ]
    ),
    (
        IN_FIBERS,
        [
            what_fits_runs,
            the_smallest_stack_holds_a_panic_with_its_backtrace,
            deep_fibers_do_not_reach_into_each_other
        ]
    ),
    (ON_SEVERAL_WORKERS, [each_worker_and_each_fiber_is_watched]),
];

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// The guard is part of a stack's size.
const GUARD: usize = 16 * 1024;

/// Recurses until it has used so many bytes of stack.
#[inline(never)]
fn use_stack(bytes: usize) -> usize {
    #[inline(never)]
    fn deeper(start: usize, bytes: usize) -> usize {
        let frame = black_box([1_u8; 512]);
        let used = start - (&raw const frame).addr();
        if used < bytes {
            // Not a tail call: the frame is read after it.
            deeper(start, bytes) + usize::from(black_box(frame)[7])
        } else {
            1
        }
    }
    let here = black_box(0_u8);
    deeper((&raw const here).addr(), bytes)
}

fn on_stacks_of(place: Place, bytes: usize) -> Runtime {
    place.builder().stack_size(bytes).build().unwrap()
}

/// The report of a child that overflowed.
fn report(output: &Output) -> String {
    assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.matches("stack overflow in fiber").count(), 1, "{text}");
    text
}

fn an_overflow_names_the_fiber_its_spawn_site_and_the_size(place: Place) {
    let line = line!() + 4; // of the spawn below
    let Some(output) = child() else {
        return on_stacks_of(place, 256 * 1024).run(|| {
            let deep = Builder::new().name("deep one".into());
            let deep = deep.spawn(|| {
                yield_now();
                use_stack(usize::MAX)
            });
            deep.unwrap().join().map(drop).unwrap();
        });
    };
    let text = report(&output);
    assert!(text.contains("'deep one'"), "{text}");
    assert!(text.contains("256 KiB"), "{text}");
    let site = format!("{}:{}:", file!(), line);
    assert!(text.contains(&site), "{site} in {text}");
}

fn a_fiber_without_a_name_is_reported_too(place: Place) {
    let Some(output) = child() else {
        return on_stacks_of(place, 100_000).run(|| {
            uthread::scope(|scope| {
                scope.spawn(|| use_stack(usize::MAX));
            });
        });
    };
    let text = report(&output);
    assert!(text.contains("'unnamed'"), "{text}");
    // Rounded up to whole pages.
    assert!(text.contains("100 KiB"), "{text}");
    assert!(text.contains(file!()), "{text}");
}

fn each_worker_and_each_fiber_is_watched(place: Place) {
    let Some(output) = child() else {
        let runtime = place.runtime_of(3);
        // Stacks that were used before and ones beside which others are in use.
        for _ in 0..200 {
            let used = runtime.spawn(|| use_stack(100 * 1024)).join();
            assert!(used.is_ok());
        }
        let waiting: Vec<_> = (0..100)
            .map(|_| runtime.spawn(uthread::thread::park))
            .collect();
        let deep = runtime.run(|| spawn(|| use_stack(usize::MAX)).join());
        drop((waiting, deep));
        return;
    };
    report(&output);
}

fn an_overflow_of_a_blocking_call_or_a_thread_is_the_ordinary_one(place: Place) {
    let Some(output) = child() else {
        on_stacks_of(place, 256 * 1024).run(|| uthread::blocking(|| use_stack(usize::MAX)));
        return;
    };
    assert_eq!(output.status.signal(), Some(SIGABRT));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("uthread-call-0"), "{text}");
    assert!(text.contains("has overflowed its stack"), "{text}");
    assert!(!text.contains("in fiber"), "{text}");
}

fn a_bad_address_elsewhere_ends_the_process_as_ever(place: Place) {
    let Some(output) = child() else {
        on_stacks_of(place, 256 * 1024).run(|| {
            yield_now();
            load_from_nowhere();
        });
        return;
    };
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("overflow"), "{text}");
}

#[allow(unsafe_code, reason = "safe code reaches no bad address")]
fn load_from_nowhere() {
    let nowhere = std::ptr::without_provenance::<u8>(64);
    // SAFETY: none; the lowest page is never mapped, so the process ends here, as is meant.
    black_box(unsafe { nowhere.read_volatile() });
}

fn what_fits_runs(place: Place) {
    /// What the first frames of a fiber and of the test take.
    const REST: usize = 8 * 1024;
    for size in [1, 64 * 1024, 256 * 1024, 1024 * 1024] {
        let room = size.max(64 * 1024) - GUARD - REST;
        on_stacks_of(place, size).run(|| {
            for _ in 0..3 {
                assert!(use_stack(room) > 10);
                assert!(spawn(move || use_stack(room)).join().unwrap() > 10);
                yield_now();
            }
        });
    }
    place.run(|| assert!(use_stack(230 * 1024) > 100));
}

fn deep_fibers_do_not_reach_into_each_other(place: Place) {
    fn fill(depth: u32, mark: u8) -> bool {
        let frame = black_box([mark; 1024]);
        if depth == 0 {
            yield_now();
            return true;
        }
        fill(depth - 1, mark) && black_box(frame).iter().all(|byte| *byte == mark)
    }
    place.run(|| {
        let handles: Vec<_> = (0..100).map(|mark| spawn(move || fill(40, mark))).collect();
        assert!(handles.into_iter().all(|handle| handle.join().unwrap()));
    });
}

fn the_smallest_stack_holds_a_panic_with_its_backtrace(place: Place) {
    alone(|| on_stacks_of(place, 1).run(panics_with_its_backtrace));
}

fn panics_with_its_backtrace() {
    let failing = spawn(|| {
        // Taken by force: the environment may ask for none.
        let trace = std::backtrace::Backtrace::force_capture();
        format!("{trace}").len()
    });
    assert!(failing.join().unwrap() > 0);
    let failing = spawn(|| assert_eq!("one", "other", "by intent"));
    assert!(failing.join().is_err());
}

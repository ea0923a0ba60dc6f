//! Stacks: deep calls that fit run, and an overflow terminates the process with a report. Overflows
//! happen in child processes.

use std::hint::black_box;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{Gap, IN_FIBERS, ON_SEVERAL_WORKERS, OUTSIDE, OWN_THREAD, behaviours, lacks};
use crate::support::eventually;
use crate::support::memory::{resident, status, use_stack};
use uthread::thread::{Builder, on_shared_stack};
use uthread::{Runtime, spawn, yield_now};

const ON_OWN_STACKS: &[Gap] = &[
    OUTSIDE,
    Gap(Place::is_of_threads, "a thread's stack is the system's"),
];

const STACKS_WITHOUT_BLOCKS: &[Gap] = &[
    OUTSIDE,
    Gap(Place::is_of_threads, "a thread's stack is the system's"),
    Gap(
        Place::has_own_tls,
        "a thousand stacks keep their blocks of thread-local storage",
    ),
];

behaviours![
    (
        ON_OWN_STACKS,
        [
            an_overflow_names_the_fiber_its_spawn_site_and_the_size,
            a_fiber_without_a_name_is_reported_too,
            an_overflow_of_a_larger_stack_is_reported_with_its_size,
            an_overflow_of_a_shared_stack_names_the_fiber_on_it,
            a_bad_address_elsewhere_ends_the_process,
            memory_of_a_larger_stack_is_given_back
        ]
    ),
    (
        &[
            OUTSIDE,
            Gap(Place::is_of_threads, "a thread's stack is the system's"),
            OWN_THREAD,
        ],
        [an_overflow_of_a_blocking_call_or_a_thread_is_the_ordinary_one]
    ),
    (STACKS_WITHOUT_BLOCKS, [memory_of_many_stacks_is_given_back]),
    (
        IN_FIBERS,
        [
            calls_that_fit_run,
            an_array_of_a_megabyte_fits_without_optimization,
            the_smallest_stack_holds_a_panic_with_its_backtrace,
            deep_fibers_do_not_reach_into_each_other,
            a_fiber_may_have_a_larger_stack_than_the_others,
            no_memory_for_a_larger_stack_is_an_error,
            a_stack_larger_than_any_is_refused
        ]
    ),
    (ON_SEVERAL_WORKERS, [each_worker_and_each_fiber_is_watched]),
];

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// The guard is part of a stack's size.
const GUARD: usize = 16 * 1024;

const MIB: usize = 1024 * 1024;

fn on_stacks_of(place: Place, bytes: usize) -> Runtime {
    place.builder().stack_size(bytes).build().unwrap()
}

/// Returns the report of a child that overflowed.
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

fn an_overflow_of_a_larger_stack_is_reported_with_its_size(place: Place) {
    let Some(output) = child() else {
        return on_stacks_of(place, 256 * 1024).run(|| {
            for bytes in [3 * MIB, usize::MAX] {
                let larger = Builder::new().name("larger".into()).stack_size(4 * MIB);
                larger
                    .spawn(move || use_stack(bytes))
                    .unwrap()
                    .join()
                    .unwrap();
            }
        });
    };
    let text = report(&output);
    assert!(text.contains("'larger'"), "{text}");
    // With its guard, as everywhere.
    assert!(text.contains("4112 KiB"), "{text}");
}

fn an_overflow_of_a_shared_stack_names_the_fiber_on_it(place: Place) {
    let Some(output) = child() else {
        return on_stacks_of(place, 256 * 1024).run(|| {
            let deep = Builder::new().name("deep one".into());
            let deep = deep.spawn(|| on_shared_stack(|| (yield_now(), use_stack(usize::MAX))));
            drop(deep.unwrap().join());
        });
    };
    let text = report(&output);
    assert!(text.contains("'deep one'"), "{text}");
    assert!(text.contains("256 KiB"), "{text}");
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

fn a_bad_address_elsewhere_ends_the_process(place: Place) {
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

/// Uses an array such as programs written for threads have, and above all their tests.
fn an_array_of_a_megabyte_fits_without_optimization(place: Place) {
    if !cfg!(debug_assertions) {
        lacks("with optimization stacks are smaller");
    }
    place.run(|| {
        let array = black_box([65_u8; 1_000_000]);
        let printed = uthread::process::Command::new("echo")
            .arg("x")
            .output()
            .unwrap();
        assert_eq!(printed.stdout, b"x\n");
        assert_eq!(
            array.iter().filter(|byte| **byte == 65).count(),
            array.len()
        );
    });
}

fn calls_that_fit_run(place: Place) {
    /// The stack space that the first frames of a fiber and of the test take.
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

fn a_fiber_may_have_a_larger_stack_than_the_others(place: Place) {
    on_stacks_of(place, 128 * 1024).run(|| {
        let of = |bytes| Builder::new().stack_size(bytes);
        // None is too small to run, and each has at least what was asked for.
        for bytes in [0, 1, 16 * 1024, 128 * 1024, MIB, 5 * MIB, 64 * MIB] {
            let used = bytes.max(64 * 1024) - 16 * 1024;
            for _ in 0..3 {
                let deep = move || (use_stack(used), yield_now(), use_stack(used));
                assert!(of(bytes).spawn(deep).unwrap().join().is_ok());
            }
        }
        // Stacks of several sizes at once, beside ordinary ones, and scoped.
        let depth = uthread::scope(|scope| {
            let all: Vec<_> = (1..=20)
                .map(|size| {
                    let use_it = move || (yield_now(), use_stack(size * MIB));
                    let large = of(size * MIB + 64 * 1024);
                    let large = large.spawn_scoped(scope, use_it).unwrap();
                    (large, scope.spawn(|| use_stack(64 * 1024)))
                })
                .collect();
            let ends = all.into_iter();
            let ends = ends.map(|(large, other)| large.join().is_ok() && other.join().is_ok());
            ends.filter(|ok| *ok).count()
        });
        assert_eq!(depth, 20);
    });
}

fn memory_of_a_larger_stack_is_given_back(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let before = resident();
        runtime.run(|| {
            let deep = || {
                use_stack(60 * MIB);
                assert!(resident() > before + 50 * MIB);
            };
            for _ in 0..4 {
                let deeper = Builder::new().stack_size(64 * MIB);
                uthread::scope(|scope| deeper.spawn_scoped(scope, deep).unwrap().join().unwrap());
            }
        });
        // By the worker it ran on, after the join.
        eventually("the stack's memory is given back", || {
            resident() < before + 20 * MIB
        });
    });
}

/// Returns `true` if the kernel frees the page tables of memory that is released but remains
/// mapped.
fn reclaims_page_tables() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    cfg!(target_arch = "x86_64") && (next(), next()) >= (6, 14)
}

/// Includes page tables, which are half a KiB a stack.
fn memory_of_many_stacks_is_given_back(place: Place) {
    const FIBERS: usize = 20_000;
    alone(|| {
        if !reclaims_page_tables() {
            lacks("page tables of memory given back are freed since Linux 6.14");
        }
        let runtime = place.runtime();
        let before = status("VmPTE:");
        let (at_peak, memory_at_peak) = runtime.run(|| {
            let parked = AtomicUsize::new(0);
            uthread::scope(|scope| {
                let wait = || {
                    parked.fetch_add(1, Ordering::Relaxed);
                    uthread::thread::park();
                };
                let fibers: Vec<_> = (0..FIBERS).map(|_| scope.spawn(wait)).collect();
                while parked.load(Ordering::Relaxed) < FIBERS {
                    yield_now();
                }
                let peak = (status("VmPTE:"), resident());
                // In another order than they have come, so that few neighbours end together.
                for index in 0..FIBERS {
                    fibers[index * 7_919 % FIBERS].thread().unpark();
                }
                peak
            })
        });
        assert!(at_peak > before + FIBERS * 400, "{at_peak} of page tables");
        // By idle workers, after the scope.
        eventually("page tables are given back", || {
            status("VmPTE:") < before + (at_peak - before) / 4
        });
        eventually("memory is given back", || {
            resident() < memory_at_peak - FIBERS * 4096 / 2
        });
        // All of it can be used again.
        runtime.run(|| {
            uthread::scope(|scope| {
                for _ in 0..FIBERS {
                    scope.spawn(|| (yield_now(), use_stack(4096)));
                }
            });
        });
    });
}

fn no_memory_for_a_larger_stack_is_an_error(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let errors = runtime.run(|| {
            let limit = getrlimit(Resource::As);
            let lowered = Rlimit {
                current: Some(4 << 30),
                ..limit
            };
            setrlimit(Resource::As, lowered).unwrap();
            // Address space only, and more than is left.
            let of = || Builder::new().stack_size(1 << 30);
            let kept: Vec<_> = (0..4).map(|_| of().spawn(uthread::thread::park)).collect();
            let scoped = uthread::scope(|scope| of().spawn_scoped(scope, || ()).err());
            setrlimit(Resource::As, limit).unwrap();
            let mut errors: Vec<_> = scoped.into_iter().collect();
            for fiber in kept {
                match fiber {
                    Ok(parked) => {
                        parked.thread().unpark();
                        parked.join().unwrap();
                    }
                    Err(error) => errors.push(error),
                }
            }
            assert!(of().spawn(|| ()).unwrap().join().is_ok());
            errors
        });
        assert!(!errors.is_empty());
        // For a thread, the C library returns the error of a shortage that passes.
        let expected = if place.is_of_threads() {
            Errno::AGAIN
        } else {
            Errno::NOMEM
        };
        for error in errors {
            assert_eq!(error.raw_os_error(), Some(expected.raw_os_error()));
        }
    });
}

fn a_stack_larger_than_any_is_refused(place: Place) {
    place.run(|| {
        for bytes in [usize::MAX, usize::MAX / 2, (1 << 30) + 1] {
            let refused = Builder::new().stack_size(bytes).spawn(|| ());
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("choose at most"), "{error}");
        }
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

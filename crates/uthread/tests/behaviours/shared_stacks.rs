//! Calls on a stack that fibers share.

use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use uthread::sync::Barrier;
use uthread::thread::{Builder, on_shared_stack};
use uthread::{sleep, spawn, timeout, yield_now};

use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, ON_WORKERS, behaviours};
use crate::support::memory::{resident, use_stack};
use crate::support::{HANG, SHORT};

behaviours![
    (
        EVERYWHERE,
        [
            a_call_returns_borrows_and_panics,
            calls_nest,
            a_deadline_ends_a_wait_in_a_call
        ]
    ),
    (
        IN_FIBERS,
        [
            calls_wait_beside_each_other,
            a_fiber_with_a_larger_stack_keeps_it
        ]
    ),
    (
        ON_ONE_WORKER,
        [
            fibers_use_one_stack,
            waiting_fibers_keep_no_memory_of_a_call
        ]
    ),
    (ON_WORKERS, [a_program_may_end_in_a_call]),
];

/// Returns an address on the stack of the caller.
#[inline(never)]
fn here() -> usize {
    ptr::from_ref(&black_box(0_u8)).addr()
}

fn a_call_returns_borrows_and_panics(place: Place) {
    place.run(|| {
        let count = Cell::new(1);
        let text = on_shared_stack(|| {
            count.set(count.get() + 1);
            String::from("result")
        });
        assert_eq!((text.as_str(), count.get()), ("result", 2));
        for _ in 0..3 {
            let failing = || on_shared_stack(|| -> () { panic!("by intent") });
            let payload = catch_unwind(AssertUnwindSafe(failing)).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"by intent"));
            let caught = on_shared_stack(|| catch_unwind(|| -> () { panic!("by intent") }));
            assert!(caught.is_err());
        }
    });
}

fn calls_nest(place: Place) {
    fn nest(depth: usize) -> usize {
        if depth == 0 {
            yield_now();
            return 0;
        }
        let kept = black_box([depth; 100]);
        let below = on_shared_stack(|| nest(depth - 1));
        assert_eq!(black_box(kept), [depth; 100]);
        below + 1
    }
    place.run(|| {
        for _ in 0..3 {
            assert_eq!(nest(100), 100);
        }
    });
}

fn a_deadline_ends_a_wait_in_a_call(place: Place) {
    place.run(|| {
        let in_call = timeout(SHORT, || on_shared_stack(|| sleep(HANG)));
        let around = on_shared_stack(|| timeout(SHORT, || sleep(HANG)));
        assert!(in_call.is_err() && around.is_err());
    });
}

/// Each has its own stack while it waits in a call, and its values are as they were.
fn calls_wait_beside_each_other(place: Place) {
    const FIBERS: usize = 300;
    place.run(|| {
        let all = Barrier::new(FIBERS);
        let all = &all;
        uthread::scope(|scope| {
            for index in 0..FIBERS {
                scope.spawn(move || {
                    let own = black_box([index; 64]);
                    for round in 0..5 {
                        on_shared_stack(|| {
                            let inner = black_box([index + round; 64]);
                            use_stack(16 * 1024);
                            match round {
                                0 | 4 => drop(all.wait()),
                                1 => sleep(SHORT / 5),
                                2 => yield_now(),
                                _ => (),
                            }
                            assert_eq!(black_box(inner), [index + round; 64]);
                        });
                    }
                    assert_eq!(black_box(own), [index; 64]);
                });
            }
        });
    });
}

fn a_fiber_with_a_larger_stack_keeps_it(place: Place) {
    const MIB: usize = 1024 * 1024;
    let runtime = place.builder().stack_size(128 * 1024).build().unwrap();
    runtime.run(|| {
        let large = Builder::new().stack_size(8 * MIB);
        let deep = large.spawn(|| on_shared_stack(|| use_stack(6 * MIB)));
        assert!(deep.unwrap().join().unwrap() > 10);
    });
}

fn fibers_use_one_stack(place: Place) {
    place.run(|| {
        let own = here();
        let of_main = on_shared_stack(here);
        assert!(own.abs_diff(of_main) > 16 * 1024);
        let others: Vec<_> = (0..100).map(|_| spawn(|| on_shared_stack(here))).collect();
        for other in others {
            assert!(other.join().unwrap().abs_diff(of_main) < 1024);
        }
    });
}

fn waiting_fibers_keep_no_memory_of_a_call(place: Place) {
    const FIBERS: usize = 500;
    /// Bytes that each uses in its call.
    const DEEP: usize = 64 * 1024;
    alone(|| {
        place.run(|| {
            let before = resident();
            let waiting = AtomicUsize::new(0);
            uthread::scope(|scope| {
                let fibers: Vec<_> = (0..FIBERS)
                    .map(|_| {
                        scope.spawn(|| {
                            on_shared_stack(|| use_stack(DEEP));
                            waiting.fetch_add(1, Ordering::Relaxed);
                            uthread::thread::park();
                        })
                    })
                    .collect();
                while waiting.load(Ordering::Relaxed) < FIBERS {
                    yield_now();
                }
                assert!(resident() < before + FIBERS * DEEP / 2);
                fibers.iter().for_each(|fiber| fiber.thread().unpark());
            });
        });
    });
}

/// Fibers that a runtime leaves behind keep their stacks.
fn a_program_may_end_in_a_call(place: Place) {
    let Some(output) = child() else {
        let runtime = place.runtime();
        runtime.run(|| {
            for _ in 0..10 {
                drop(spawn(|| on_shared_stack(|| sleep(HANG))));
            }
            yield_now();
        });
        drop(runtime);
        assert_eq!(on_shared_stack(|| 1), 1);
        return;
    };
    assert!(output.status.success(), "{output:?}");
}

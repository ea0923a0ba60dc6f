//! Fork and join: results, borrows, panics, and who runs what.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use uthread::{Runtime, join, sleep, spawn, yield_now};

fn on(workers: usize, behaviour: impl FnOnce() + Send) {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    runtime.run(behaviour);
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn a_recursion_returns_its_results_everywhere() {
    on(1, || assert_eq!(fib(15), 610));
    on(3, || assert_eq!(fib(18), 2584));
    assert_eq!(fib(12), 144, "outside the runtime");
}

#[test]
fn both_closures_borrow_from_the_caller() {
    fn sort(numbers: &mut [u32]) {
        if numbers.len() < 2 {
            return;
        }
        let pivot = numbers.len() - 1;
        let middle = (0..pivot).fold(0, |low, index| {
            if numbers[index] < numbers[pivot] {
                numbers.swap(low, index);
                low + 1
            } else {
                low
            }
        });
        numbers.swap(middle, pivot);
        let (left, right) = numbers.split_at_mut(middle);
        join(|| sort(left), || sort(&mut right[1..]));
    }
    let mut numbers: Vec<u32> = (0..20_000_u32)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    on(2, || sort(&mut numbers));
    assert_eq!(numbers, sorted);
}

#[test]
fn an_idle_worker_takes_the_second() {
    on(2, || {
        let taken = AtomicBool::new(false);
        let (first, second) = join(
            || {
                while !taken.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                std::thread::current().id()
            },
            || {
                taken.store(true, Ordering::Release);
                std::thread::current().id()
            },
        );
        assert_ne!(first, second);
    });
}

#[test]
fn what_nobody_took_runs_in_the_calling_fiber() {
    on(1, || {
        let me = uthread::current().id();
        let (first, second) = join(|| uthread::current().id(), || uthread::current().id());
        assert_eq!((first, second), (me, me));
    });
}

#[test]
fn both_may_wait_and_leave_fibers_behind() {
    on(2, || {
        let ran = std::sync::Arc::new(AtomicUsize::new(0));
        let count = || {
            let ran = std::sync::Arc::clone(&ran);
            spawn(move || ran.fetch_add(1, Ordering::Relaxed));
            sleep(Duration::from_millis(2));
            yield_now();
        };
        join(count, count);
        while ran.load(Ordering::Relaxed) < 2 {
            yield_now();
        }
    });
}

#[test]
fn a_panic_comes_out_once_both_have_ended() {
    let panics = |payload: &'static str| -> () { std::panic::resume_unwind(Box::new(payload)) };
    let payload = |result: std::thread::Result<((), ())>| {
        *result.unwrap_err().downcast::<&'static str>().unwrap()
    };
    for workers in [1, 2] {
        on(workers, || {
            let ended = AtomicUsize::new(0);
            let ends = || {
                sleep(Duration::from_millis(1));
                ended.fetch_add(1, Ordering::Relaxed);
            };
            let caught = |a: &(dyn Fn() + Sync), b: &(dyn Fn() + Sync)| {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| join(a, b)))
            };
            assert_eq!(payload(caught(&ends, &|| panics("second"))), "second");
            assert_eq!(ended.load(Ordering::Relaxed), 1);
            let both = caught(&|| panics("first"), &|| panics("second"));
            assert_eq!(payload(both), "first");
        });
    }
}

#[test]
fn after_a_panic_of_the_first_the_second_does_not_begin() {
    on(1, || {
        let began = AtomicBool::new(false);
        let result = std::panic::catch_unwind(|| {
            join(
                || std::panic::resume_unwind(Box::new(())),
                || began.store(true, Ordering::Relaxed),
            )
        });
        assert!(result.is_err());
        assert!(!began.load(Ordering::Relaxed));
    });
}

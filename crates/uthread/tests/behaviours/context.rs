//! Context that a program keeps in thread-locals belongs to the fiber that has set it.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uthread::runtime::FiberContext;
use uthread::sync::mpsc::channel;
use uthread::thread::{ThreadId, current};
use uthread::{Runtime, scope, sleep, spawn, yield_now};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, OUTSIDE, OWN_TLS, THREADS, behaviours};
use crate::support::{HOUR, pair};

behaviours![
    (
        IN_FIBERS,
        [
            each_fiber_sees_what_it_has_set,
            the_next_fiber_sees_nothing_of_one_that_has_ended
        ]
    ),
    (
        &[OUTSIDE, THREADS, OWN_TLS],
        [
            a_fiber_that_is_unwound_sees_its_context,
            the_context_of_fibers_is_dropped_with_them,
            a_call_of_a_context_is_that_of_no_fiber
        ]
    ),
];

thread_local! {
    static CONTEXT: RefCell<Option<Arc<usize>>> = const { RefCell::new(None) };
}

// Never inlined: where a worker changes its thread, an address of the thread's storage must not be
// kept across a switch.
#[inline(never)]
fn set(number: &Arc<usize>) {
    CONTEXT.set(Some(Arc::clone(number)));
}

#[inline(never)]
fn get() -> Option<usize> {
    CONTEXT.with_borrow(|context| context.as_deref().copied())
}

struct Context;

impl FiberContext for Context {
    type Saved = Arc<usize>;

    fn suspend(&self) -> Option<Arc<usize>> {
        CONTEXT.take()
    }

    fn resume(&self, number: Arc<usize>) {
        assert!(get().is_none(), "another fiber's");
        CONTEXT.set(Some(number));
    }
}

fn runtime(place: Place) -> Runtime {
    place.builder().context(Context).build().unwrap()
}

fn each_fiber_sees_what_it_has_set(place: Place) {
    const FIBERS: usize = 50;
    runtime(place).run(|| {
        scope(|scope| {
            for number in 0..FIBERS {
                scope.spawn(move || keep_context(number));
            }
        });
        assert_eq!(get(), None);
    });
}

/// Waits in all ways, and sees that no wait changes the context.
fn keep_context(number: usize) {
    let assert_kept = |expected| assert_eq!(get(), expected, "of {number}");
    assert_kept(None);
    yield_now();
    assert_kept(None);
    set(&Arc::new(number));
    for _ in 0..3 {
        yield_now();
        assert_kept(Some(number));
        sleep(Duration::from_micros(number as u64));
        assert_kept(Some(number));
    }
    let (sender, receiver) = channel();
    let child = spawn(move || {
        assert_eq!(get(), None, "a new fiber has none");
        sender.send(number).unwrap();
    });
    assert_eq!(receiver.recv(), Ok(number));
    assert_kept(Some(number));
    child.join().unwrap();
    assert_kept(Some(number));
    let (mut ours, mut theirs) = pair();
    theirs.write_all(&[1]).unwrap();
    ours.read_exact(&mut [0]).unwrap();
    assert_kept(Some(number));
}

fn the_next_fiber_sees_nothing_of_one_that_has_ended(place: Place) {
    runtime(place).run(|| {
        for number in 0..20 {
            let seen = spawn(move || {
                let seen = get();
                set(&Arc::new(number));
                seen
            });
            assert_eq!(seen.join().unwrap(), None);
        }
    });
}

/// Records the context that it is dropped in.
struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        yield_now();
        self.0.store(get().unwrap(), Ordering::Relaxed);
    }
}

fn a_fiber_that_is_unwound_sees_its_context(place: Place) {
    let seen = Arc::new(AtomicUsize::new(0));
    runtime(place).run(|| {
        let (begun, begin) = channel();
        let waiting = spawn({
            let seen = Arc::clone(&seen);
            move || {
                set(&Arc::new(42));
                let _on_drop = OnDrop(seen);
                begun.send(()).unwrap();
                sleep(HOUR);
            }
        });
        begin.recv().unwrap();
        waiting.cancel();
        waiting.join().unwrap_err();
    });
    assert_eq!(seen.load(Ordering::Relaxed), 42);
}

fn the_context_of_fibers_is_dropped_with_them(place: Place) {
    let number = Arc::new(7);
    let runtime = runtime(place);
    runtime.run(|| {
        for _ in 0..10 {
            let number = Arc::clone(&number);
            let (begun, begin) = channel();
            spawn(move || {
                set(&number);
                begun.send(()).unwrap();
                sleep(HOUR);
            });
            begin.recv().unwrap();
        }
    });
    assert!(Arc::strong_count(&number) > 10);
    drop(runtime);
    assert_eq!(Arc::strong_count(&number), 1);
}

thread_local! {
    static CALLER: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

#[inline(never)]
fn caller() -> Option<ThreadId> {
    CALLER.get()
}

struct Asking;

impl FiberContext for Asking {
    type Saved = ();

    fn suspend(&self) -> Option<()> {
        CALLER.set(Some(current().id()));
        Some(())
    }

    fn resume(&self, (): ()) {
        // Waits, as on a thread outside, and the worker with it.
        yield_now();
        sleep(Duration::from_millis(1));
    }
}

fn a_call_of_a_context_is_that_of_no_fiber(place: Place) {
    let runtime = place.builder().context(Asking).build().unwrap();
    runtime.run(|| {
        for _ in 0..3 {
            yield_now();
            let caller = caller();
            assert!(caller.is_some_and(|caller| caller != current().id()));
        }
    });
}

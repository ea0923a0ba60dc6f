//! Fibers with larger stacks, which are used again: each finds initial values, and what a deep one
//! has touched is given back.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uthread::thread::{Builder, park};
use uthread::{Runtime, spawn};

use super::own_tls::WITH_OWN_TLS;
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_WORKERS, behaviours};
use crate::support::eventually;
use crate::support::memory::{resident, use_stack};

behaviours![
    (
        WITH_OWN_TLS,
        [the_next_fiber_on_a_larger_stack_finds_initial_values]
    ),
    (
        ON_WORKERS,
        [
            deep_fibers_give_their_stacks_back,
            many_short_fibers_take_the_memory_of_few
        ]
    ),
];

/// Larger than the stacks of a runtime.
const STACK: usize = 2 << 20;

/// Bytes of stack that a deep fiber touches.
const DEEP: usize = 1 << 20;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(7) };
    static LIST: RefCell<Vec<usize>> = RefCell::default();
}

/// Adds one to a counter when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

thread_local! {
    static COUNTED: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

fn builder() -> Builder {
    Builder::new().stack_size(STACK)
}

fn the_next_fiber_on_a_larger_stack_finds_initial_values(place: Place) {
    const FIBERS: usize = 200;
    place.run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        for number in 0..FIBERS {
            let counted = Counted(Arc::clone(&drops));
            let fiber = builder().spawn(move || {
                assert!(COUNTED.replace(Some(counted)).is_none());
                LIST.with_borrow_mut(|list| list.push(number));
                (NUMBER.replace(number), LIST.with_borrow(Vec::len))
            });
            assert_eq!(fiber.unwrap().join().unwrap(), (7, 1));
            assert_eq!(drops.load(Ordering::SeqCst), number + 1);
            // One with an ordinary stack has another block.
            assert_eq!(spawn(|| NUMBER.replace(8)).join().unwrap(), 7);
        }
    });
}

/// More than are kept.
const FIBERS: usize = 300;

/// Runs as many fibers at once, each of which touches much of its stack.
fn run_deep_fibers(runtime: &Runtime) -> usize {
    let begun = Arc::new(AtomicUsize::new(0));
    let deep = |begun: Arc<AtomicUsize>| {
        use_stack(DEEP);
        begun.fetch_add(1, Ordering::Relaxed);
        park();
    };
    let fibers = (0..FIBERS).map(|_| {
        let begun = Arc::clone(&begun);
        builder().spawn_on(runtime, move || deep(begun)).unwrap()
    });
    let fibers: Vec<_> = fibers.collect();
    eventually("all have begun", || begun.load(Ordering::Relaxed) == FIBERS);
    let peak = resident();
    fibers.iter().for_each(|fiber| fiber.thread().unpark());
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    peak
}

fn deep_fibers_give_their_stacks_back(place: Place) {
    /// Bytes that each may keep: those of a runner that is used again, and its share of the
    /// runtime.
    const KEPT: usize = 64 * 1024;
    alone(|| {
        let runtime = place.runtime();
        let before = resident();
        for _ in 0..2 {
            let peak = run_deep_fibers(&runtime);
            assert!(peak > before + FIBERS * DEEP / 2, "touched: {peak}");
            eventually("the stacks are given back", || {
                resident() < before + FIBERS * KEPT
            });
        }
    });
}

fn many_short_fibers_take_the_memory_of_few(place: Place) {
    const SHORT: usize = 2000;
    const GROWTH_MAX: usize = 4 << 20;
    alone(|| {
        let runtime = place.runtime();
        let run = |fibers: usize| {
            for _ in 0..fibers {
                let fiber = builder().spawn_on(&runtime, || use_stack(DEEP)).unwrap();
                fiber.join().unwrap();
            }
        };
        run(SHORT / 10);
        let before = resident();
        run(SHORT);
        let grown = resident().saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes more");
    });
}

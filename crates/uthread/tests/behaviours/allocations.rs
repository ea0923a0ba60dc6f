//! Memory that fibers with thread-local storage of their own allocate and release. The allocator
//! keeps its cache for each thread, and not for each fiber.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use uthread::thread::park;
use uthread::{JoinHandle, scope, yield_now};

use crate::harness::behaviours;
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::own_tls::WITH_OWN_TLS;
use crate::support::eventually;
use crate::support::memory::resident;

behaviours![(
    WITH_OWN_TLS,
    [
        fibers_that_wait_keep_no_released_memory,
        memory_is_nobody_elses_when_workers_are_taken,
        a_thread_that_ends_leaves_the_memory_of_fibers_alone
    ]
)];

fn fibers_that_wait_keep_no_released_memory(place: Place) {
    const FIBERS: usize = 200;
    /// Bytes that each of them may keep: its storage, and frames that are large without
    /// optimization. With a cache of its own, it would keep what it has released, 60 KiB more.
    const KEPT: usize = 40 * 1024;
    alone(|| {
        let runtime = place.runtime_of(1);
        let begun = Arc::new(AtomicUsize::new(0));
        let wait = || -> Vec<JoinHandle<()>> {
            let fibers = (0..FIBERS).map(|_| {
                let begun = Arc::clone(&begun);
                runtime.spawn(move || {
                    for bytes in (512..1024).step_by(32) {
                        black_box([(); 5].map(|()| vec![1_u8; bytes]));
                    }
                    begun.fetch_add(1, Ordering::Relaxed);
                    park();
                })
            });
            fibers.collect()
        };
        let before = resident();
        let fibers = wait();
        eventually("all wait", || begun.load(Ordering::Relaxed) == FIBERS);
        let kept = resident().saturating_sub(before) / FIBERS;
        assert!(kept < KEPT, "{kept} bytes");
        for fiber in fibers {
            fiber.thread().unpark();
            fiber.join().unwrap();
        }
    });
}

/// Memory that contains the number of its fiber.
struct Marked(Vec<usize>);

impl Marked {
    fn new(number: usize, words: usize) -> Marked {
        Marked(vec![number; words])
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let number = self.0[0];
        assert!(self.0.iter().all(|word| *word == number), "{number}");
        // What others have got as well is found to be theirs.
        self.0.fill(usize::MAX);
    }
}

/// Allocates and releases, and leaves some memory to others.
fn allocate(number: usize, rounds: usize, left: &Mutex<Vec<Marked>>) {
    const LEFT: usize = 100;
    let mut own = Vec::new();
    for round in 0..rounds {
        own.push(Marked::new(number, 1 + (number + round * 7) % 60));
        if own.len() == 16 {
            let mut left = left.lock().unwrap();
            left.extend(own.drain(..8));
            if left.len() > LEFT {
                let others = Vec::from_iter(left.drain(..LEFT / 2));
                drop(left);
                drop(others);
            }
        }
    }
}

fn memory_is_nobody_elses_when_workers_are_taken(place: Place) {
    const FIBERS: usize = 32;
    const TURNS: usize = 60;
    const ROUNDS: usize = 500;
    /// Long enough for the monitor to take the worker.
    const LONG: Duration = Duration::from_millis(3);
    alone(|| {
        place.runtime_of(2).run(|| {
            let left = Mutex::new(Vec::new());
            for _generation in 0..2 {
                scope(|scope| {
                    for number in 0..FIBERS {
                        let left = &left;
                        scope.spawn(move || {
                            for turn in 0..TURNS {
                                allocate(number, ROUNDS / 2, left);
                                if (number + turn).is_multiple_of(16) {
                                    thread::sleep(LONG);
                                    // Maybe without a worker.
                                    allocate(number, ROUNDS / 2, left);
                                }
                                yield_now();
                                allocate(number, ROUNDS / 4, left);
                            }
                        });
                    }
                });
            }
        });
    });
}

fn a_thread_that_ends_leaves_the_memory_of_fibers_alone(place: Place) {
    const RUNTIMES: usize = 20;
    alone(|| {
        let left = Mutex::new(Vec::new());
        for number in 0..RUNTIMES {
            let runtime = place.runtime_of(2);
            runtime.run(|| {
                scope(|scope| {
                    for fiber in 0..20 {
                        let left = &left;
                        scope.spawn(move || allocate(20 * number + fiber, 100, left));
                    }
                });
            });
            // Its workers end, and so do the threads of its blocks.
            drop(runtime);
            allocate(number, 100, &left);
        }
    });
}

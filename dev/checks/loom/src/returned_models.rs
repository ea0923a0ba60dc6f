//! Threads of the pool that give results back, against the worker that waits for them.

use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::driver::returned::Returned;
use crate::substitutes::Ring;

/// Imitates `send_to_pool`, `wait` and `reap` of the epoll driver. Catches a result that remains
/// while the worker sleeps, because the thread that returned it relied on another thread's wake-up.
#[test]
fn a_worker_does_not_sleep_beside_a_result() {
    const THREADS: usize = 2;
    check(4, || {
        let returned = Arc::new(Returned::default());
        let ring = Arc::new(Ring::default());
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (returned, ring) = (Arc::clone(&returned), Arc::clone(&ring));
                thread::spawn(move || {
                    if returned.give(thread) {
                        ring.wake();
                    }
                })
            })
            .collect();
        let mut taken = Vec::new();
        while taken.len() < THREADS {
            if returned.is_empty() {
                ring.wait();
            }
            // A look at the events ends what has rung, asleep or not.
            ring.reap();
            taken.extend(returned.take());
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

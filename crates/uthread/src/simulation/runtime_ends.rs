//! Properties of the end of a runtime that hold under every seed: fibers are abandoned, or all of
//! them are awaited.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::operations::receive_and_check;
use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sched::shared::abandonment::Abandonment;
use crate::sync::{Condvar, Mutex, RwLock, Semaphore, mpsc};
use crate::thread::{Cancelled, JoinHandle, park, scope, shield, sleep, spawn, yield_now};

const HOUR: Duration = Duration::from_secs(3600);

/// Phase that fibers of a runtime share with the rest of the process, and do not hold across a
/// wait.
struct Outside {
    mutex: Mutex<()>,
    lock: RwLock<()>,
    changed: Condvar,
    permits: Semaphore,
}

impl Outside {
    fn new() -> Arc<Outside> {
        Arc::new(Outside {
            mutex: Mutex::new(()),
            lock: RwLock::new(()),
            changed: Condvar::new(),
            permits: Semaphore::new(2),
        })
    }

    /// Waits for one of them.
    fn wait(&self, choices: &mut Choices) {
        match choices.below(5) {
            0 => drop(self.mutex.lock()),
            1 => drop(self.lock.read()),
            2 => drop(self.lock.write()),
            3 => drop(
                self.permits
                    .acquire_many(1 + choices.below(2) as usize)
                    .unwrap(),
            ),
            _ => drop(self.changed.wait(self.mutex.lock().unwrap())),
        }
    }

    fn assert_free(&self) {
        assert!(self.mutex.try_lock().is_ok(), "a mutex is stranded");
        assert!(self.lock.try_write().is_ok(), "a lock is stranded");
        assert_eq!(self.permits.available_permits(), 2, "permits are stranded");
    }
}

/// Waits for anything, forever.
fn wait_for_ever(choices: &mut Choices, outside: &Outside) {
    let (_sender, receiver) = mpsc::channel::<()>();
    loop {
        match choices.below(9) {
            0 => park(),
            1 => sleep(HOUR),
            2 => drop(spawn(yield_now).join()),
            3 => drop(receiver.recv()),
            4 => shield(|| sleep(HOUR)),
            5 => dawdle(choices),
            6 => scope(|scope| {
                scope.spawn(|| outside.wait(&mut Choices(choices.below(1 << 20))));
                yield_now();
            }),
            7 => drop(receive_and_check(choices)),
            _ => outside.wait(choices),
        }
    }
}

fn is_cancelled<T>(fiber: JoinHandle<T>) -> bool {
    assert!(fiber.is_finished(), "its joiner would wait forever");
    fiber.join().is_err_and(|payload| payload.is::<Cancelled>())
}

#[test]
fn fibers_abandoned_at_any_moment_are_joined_and_strand_no_lock() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let outside = Outside::new();
        let mut choices = Choices(seed + 5);
        // Until after the end, or let go before it.
        let mut held = Some((
            outside.mutex.try_lock().unwrap(),
            outside.lock.try_write().unwrap(),
            outside.permits.try_acquire_many(2).unwrap(),
        ));
        let fibers: Vec<_> = (0..10)
            .map(|index| {
                let outside = Arc::clone(&outside);
                simulation.spawn(move || wait_for_ever(&mut Choices(seed * 31 + index), &outside))
            })
            .collect();
        let (turns, free_at) = (choices.below(300), choices.below(600));
        for turn in 0..turns {
            if turn == free_at {
                held = None;
            }
            simulation.try_step();
        }
        simulation.shared.abandon(Abandonment::Quiet);
        if choices.below(2) == 0 {
            held = None;
        }
        simulation.shut_down();
        drop(held);
        assert!(fibers.into_iter().all(is_cancelled));
        outside.assert_free();
    });
}

#[test]
fn a_runtime_that_stands_still_abandons_what_is_left() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 2);
        let outside = Outside::new();
        let held = (
            outside.mutex.try_lock().unwrap(),
            outside.lock.try_write().unwrap(),
        );
        let begun = Arc::new(AtomicUsize::new(0));
        let waiting = |index| {
            let (outside, begun) = (Arc::clone(&outside), Arc::clone(&begun));
            simulation.spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                match index {
                    0 => drop(outside.mutex.lock()),
                    1 => drop(outside.lock.read()),
                    2 => {
                        let own = Mutex::new(());
                        let _held = own.lock();
                        drop(own.lock());
                    }
                    3 => scope(|scope| {
                        scope.spawn(|| drop(outside.mutex.lock()));
                    }),
                    4 => shield(|| {
                        loop {
                            park();
                        }
                    }),
                    _ => loop {
                        let _ = catch_unwind(|| sleep(HOUR));
                    },
                }
            })
        };
        let fibers: Vec<_> = (0..6).map(waiting).collect();
        // This one ends before, and long after the others have come to rest.
        let (done, late) = (Arc::clone(&begun), Duration::from_secs(seed % 5));
        let shielded = simulation.spawn(move || {
            done.fetch_add(1, Ordering::Relaxed);
            shield(|| sleep(late));
            let received = shield(|| receive_and_check(&mut Choices(seed)));
            assert_ne!(received, Err(Errno::CANCELED.raw_os_error()));
            "done"
        });
        simulation.step_until(|_| begun.load(Ordering::Relaxed) == 7);
        simulation.shut_down();
        assert_eq!(shielded.join().unwrap(), "done");
        drop(held);
        assert!(fibers.into_iter().all(is_cancelled));
        outside.assert_free();
    });
}

#[test]
fn a_join_waits_for_all_fibers_and_those_that_they_spawn() {
    fn grow(seed: u64, depth: u64, ended: &Arc<AtomicUsize>) {
        let mut choices = Choices(seed * 17 + depth);
        for child in 0..choices.below(3).min(depth) {
            let ended = Arc::clone(ended);
            drop(spawn(move || grow(seed + child, depth - 1, &ended)));
            dawdle(&mut choices);
        }
        dawdle(&mut choices);
        ended.fetch_add(1, Ordering::Relaxed);
    }
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let ended = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&ended);
        let root = simulation.spawn(move || grow(seed, 5, &theirs));
        simulation.step_some(100);
        simulation.shared.join();
        simulation.step_until(|workers| {
            workers
                .iter()
                .all(|simulated| simulated.phase == super::Phase::Ended)
        });
        root.join().unwrap();
        let count = simulation.metrics().total().fibers;
        assert_eq!(
            ended.load(Ordering::Relaxed) as u64,
            count,
            "a fiber was cut off"
        );
    });
}

#[test]
fn a_shutdown_at_any_moment_ends_every_fiber() {
    const FIBERS: usize = 12;
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let fibers: Vec<_> = (0..FIBERS)
            .map(|index| {
                simulation.spawn(move || {
                    let mut choices = Choices(seed * 13 + index as u64);
                    loop {
                        match choices.below(5) {
                            0 => park(),
                            1 => drop(spawn(yield_now).join()),
                            2 => dawdle(&mut choices),
                            _ => match receive_and_check(&mut choices) {
                                Err(errno) if errno == Errno::CANCELED.raw_os_error() => return,
                                _ => {}
                            },
                        }
                    }
                })
            })
            .collect();
        simulation.step_some(300);
        simulation.shut_down();
        for fiber in fibers {
            match fiber.join() {
                Ok(()) => {}
                Err(payload) if payload.is::<Cancelled>() => {}
                Err(payload) => std::panic::resume_unwind(payload),
            }
        }
    });
}

//! Properties of started fibers that workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::operations::await_nothing;
use super::programs::worker_index;
use super::{Simulation, compute, under_seeds};
use crate::op;
use crate::sched::shared::SharePolicy;
use crate::thread::{sleep, spawn, yield_now};
use crate::time::timeout;

/// Time for which a fiber computes in a turn: more than a worker may wait without sharing.
const TURN: Duration = Duration::from_micros(300);

const FIBERS: usize = 12;

/// Starts fibers until all of them are on workers, and lets those on worker 0 compute for this
/// number of turns. Returns the number of turns that they have spent on other workers, and the
/// total.
fn compute_on_one(turns: usize) -> (usize, usize) {
    let started = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<_> = (0..FIBERS)
        .map(|_| {
            let started = Arc::clone(&started);
            spawn(move || {
                started.fetch_add(1, Ordering::Relaxed);
                while started.load(Ordering::Relaxed) < FIBERS {
                    yield_now();
                }
                // Sleeps end the sharing of those that only wait for the others to start.
                sleep(Duration::from_millis(20));
                if worker_index() != 0 {
                    return (0, 0);
                }
                let mut elsewhere = 0;
                for _ in 0..turns {
                    compute(TURN);
                    yield_now();
                    elsewhere += usize::from(worker_index() != 0);
                }
                (elsewhere, turns)
            })
        })
        .collect();
    let spent = fibers.into_iter().map(|fiber| fiber.join().unwrap());
    spent.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1))
}

#[test]
fn an_idle_worker_gets_started_fibers_that_wait_for_long() {
    const TURNS: usize = 400;
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, 2, SharePolicy::IfLong);
        let (elsewhere, all) = simulation.run(|| compute_on_one(TURNS));
        // Of three fibers, the other worker gets one, after a while that the seed chooses.
        assert!(
            all <= TURNS || elsewhere * 8 > all,
            "{elsewhere} of {all} turns"
        );
    });
}

#[test]
fn fibers_that_pass_messages_stay_together() {
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, 2, SharePolicy::IfLong);
        simulation.run(|| {
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| {
                    spawn(|| {
                        let home = worker_index();
                        for _ in 0..1000 {
                            compute(Duration::from_nanos(200));
                            yield_now();
                            assert_eq!(worker_index(), home);
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

#[test]
fn a_fiber_is_cancelled_and_woken_wherever_it_is() {
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, 3, SharePolicy::AtRandom);
        simulation.run(|| {
            let fibers: Vec<_> = (0..FIBERS)
                .map(|_| {
                    spawn(|| {
                        let mut moves = 0;
                        let mut last = worker_index();
                        for _ in 0..20 {
                            let cut = timeout(Duration::from_micros(500), || {
                                sleep(Duration::from_secs(3600));
                            });
                            assert!(cut.is_err(), "an hour has passed");
                            // A batch of turns ends before all have yielded.
                            (0..20).for_each(|_| yield_now());
                            moves += usize::from(worker_index() != last);
                            last = worker_index();
                        }
                        moves
                    })
                })
                .collect();
            let endless: Vec<_> = (0..FIBERS)
                .map(|_| {
                    spawn(|| {
                        // It moves between operations, and waits for one that never ends.
                        for _ in 0..20 {
                            let pause = Some(Duration::from_micros(300));
                            assert!(await_nothing(pause).is_err());
                            yield_now();
                        }
                        await_nothing(None).map(drop)
                    })
                })
                .collect();
            let moves = fibers.into_iter().map(|fiber| fiber.join().unwrap());
            assert!(moves.sum::<usize>() > 0, "none has moved");
            for fiber in endless {
                fiber.cancel();
                // A yield unwinds.
                if let Ok(result) = fiber.join() {
                    assert_eq!(result.unwrap_err().raw_os_error(), Some(op::CANCELLED));
                }
            }
        });
    });
}

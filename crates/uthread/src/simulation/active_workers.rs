//! Properties of workers whose number changes. In the simulations of the other files, it changes by
//! a third of the seeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::operations::await_nothing;
use super::programs::{Choices, dawdle, worker_index};
use super::{Simulation, under_seeds};
use crate::sched::caller;
use crate::sched::shared::SharePolicy;
use crate::thread::{sleep, spawn, yield_now};

const WORKERS: usize = 3;

const FIBERS: u64 = 12;

/// Sets the number of active workers.
fn set_active(count: usize) {
    let shared = caller::runtime().expect("on a worker");
    shared.set_active_workers(count);
}

/// Time after which each worker has followed a change, as it advances while all of them sleep.
const SETTLED: Duration = Duration::from_millis(1);

/// Starts fibers that yield, sleep, and wait for operations until `is_over`, and count the turns
/// that they take beyond worker 0 while `is_one` is set.
fn start(
    seed: u64,
    is_one: &Arc<AtomicBool>,
    is_over: &Arc<AtomicBool>,
) -> Vec<crate::thread::JoinHandle<usize>> {
    let start = |index| {
        let (is_one, is_over) = (Arc::clone(is_one), Arc::clone(is_over));
        spawn(move || {
            let mut choices = Choices(seed * FIBERS + index);
            let mut elsewhere = 0;
            while !is_over.load(Ordering::Relaxed) {
                let one_before = is_one.load(Ordering::Relaxed);
                match choices.below(3) {
                    0 => assert!(await_nothing(Some(SETTLED)).is_err()),
                    1 => drop(spawn(yield_now).join()),
                    _ => dawdle(&mut choices),
                }
                let is_one = one_before && is_one.load(Ordering::Relaxed);
                elsewhere += usize::from(is_one && worker_index() != 0);
            }
            elsewhere
        })
    };
    (0..FIBERS).map(start).collect()
}

#[test]
fn an_inactive_worker_runs_no_fiber_and_loses_none() {
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, WORKERS, SharePolicy::IfLong);
        simulation.run(move || {
            let (is_one, is_over) = (Arc::default(), Arc::default());
            let fibers = start(seed, &is_one, &is_over);
            for round in 0..5 {
                set_active(1 + (seed as usize + round) % WORKERS);
                sleep(SETTLED);
                set_active(1);
                sleep(4 * SETTLED);
                is_one.store(true, Ordering::Relaxed);
                sleep(2 * SETTLED);
                is_one.store(false, Ordering::Relaxed);
            }
            is_over.store(true, Ordering::Relaxed);
            let elsewhere = fibers.into_iter().map(|fiber| fiber.join().unwrap());
            assert_eq!(elsewhere.sum::<usize>(), 0, "turns on inactive workers");
        });
    });
}

#[test]
fn fibers_that_cannot_move_go_on_where_they_are() {
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, WORKERS, SharePolicy::Never);
        simulation.run(move || {
            let moved = Arc::new(AtomicUsize::new(0));
            let spawn_dawdling = |index| {
                let moved = Arc::clone(&moved);
                spawn(move || {
                    let home = worker_index();
                    let mut choices = Choices(seed * FIBERS + index);
                    for _ in 0..20 {
                        sleep(Duration::from_micros(choices.below(2000)));
                        // One that starts while there is one worker starts there.
                        spawn(yield_now).join().unwrap();
                        moved.fetch_add(usize::from(worker_index() != home), Ordering::Relaxed);
                    }
                })
            };
            let fibers: Vec<_> = (0..FIBERS).map(spawn_dawdling).collect();
            sleep(SETTLED);
            set_active(1);
            sleep(SETTLED);
            for _ in 0..20 {
                assert_eq!(spawn(worker_index).join().unwrap(), 0);
                sleep(SETTLED / 2);
            }
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            assert_eq!(moved.load(Ordering::Relaxed), 0);
        });
    });
}

#[test]
fn a_worker_that_becomes_active_takes_what_waits() {
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, 2, SharePolicy::Never);
        simulation.run(|| {
            set_active(1);
            sleep(SETTLED);
            assert_eq!(spawn(worker_index).join().unwrap(), 0);
            set_active(2);
            // More than a batch, so that the other worker comes in between.
            let start = || {
                let fibers: Vec<_> = (0..200).map(|_| spawn(worker_index)).collect();
                let started_on = fibers.into_iter().map(|fiber| fiber.join().unwrap());
                started_on.collect::<Vec<_>>()
            };
            for index in 0..2 {
                let starts_there = (0..100).any(|_| start().contains(&index));
                assert!(starts_there, "none on {index}");
            }
        });
    });
}

//! Properties of the scheduler that hold under every seed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Simulation, under_seeds};
use crate::sched::caller;
use crate::sched::shared::SharePolicy;
use crate::sched::worker::current;
use crate::thread::{self, park, park_timeout, sleep, spawn, yield_now};
use crate::time::interval;

/// A generator of a fiber's own, so that its choices do not depend on other fibers.
pub(super) struct Choices(pub(super) u64);

impl Choices {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let mut random = fastrand::Rng::with_seed(self.0);
        let chosen = random.u64(..bound);
        self.0 = random.get_seed();
        chosen
    }
}

pub(super) fn worker_index() -> usize {
    current::with_worker(|worker| worker.index()).expect("on a worker")
}

/// Yields, sleeps or neither, as the choices go.
pub(super) fn dawdle(choices: &mut Choices) {
    match choices.below(4) {
        0 => sleep(Duration::from_micros(choices.below(3000))),
        1 | 2 => yield_now(),
        _ => {}
    }
}

#[test]
fn a_seed_replays() {
    under_seeds(|seed| {
        let run = || {
            let mut simulation = Simulation::new(seed, 2);
            let fibers: Vec<_> = (0..6)
                .map(|index| simulation.spawn(move || dawdle(&mut Choices(seed + index))))
                .collect();
            simulation.step_until(|_| fibers.iter().all(thread::JoinHandle::is_finished));
            simulation.shut_down();
            (simulation.world().borrow().clock(), simulation.metrics())
        };
        assert_eq!(run(), run());
    });
}

#[test]
fn every_fiber_runs_once_and_stays_where_it_shall() {
    fn tree(depth: u64, seed: u64, runs: &Arc<AtomicUsize>) {
        let mut choices = Choices(seed);
        let home = worker_index();
        runs.fetch_add(1, Ordering::Relaxed);
        let children: Vec<_> = (0..if depth == 0 { 0 } else { 3 })
            .map(|child| {
                let runs = Arc::clone(runs);
                spawn(move || tree(depth - 1, seed * 3 + child, &runs))
            })
            .collect();
        let check = || assert_eq!(worker_index(), home);
        dawdle(&mut choices);
        check();
        for child in children {
            child.join().unwrap();
            check();
        }
    }
    under_seeds(|seed| {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let simulation = Simulation::with_sharing(seed, 3, SharePolicy::Never);
        simulation.run(move || tree(3, seed, &counted));
        assert_eq!(runs.load(Ordering::Relaxed), 1 + 3 + 9 + 27);
    });
}

#[test]
fn no_unpark_is_lost() {
    const FIBERS: usize = 5;
    const ROUNDS: usize = 20;
    under_seeds(|seed| {
        let total = Simulation::new(seed, 2).run(move || {
            let turn = Arc::new(AtomicUsize::new(0));
            let ring = Arc::new(Mutex::new(vec![None::<thread::Thread>; FIBERS]));
            let fibers: Vec<_> = (0..FIBERS)
                .map(|index| {
                    let (turn, ring) = (Arc::clone(&turn), Arc::clone(&ring));
                    spawn(move || {
                        let mut choices = Choices(seed + index as u64);
                        ring.lock().unwrap()[index] = Some(thread::current());
                        for round in 0..ROUNDS {
                            while turn.load(Ordering::Acquire) != round * FIBERS + index {
                                if choices.below(2) == 0 {
                                    // A wait of another kind, which must not take the unpark.
                                    spawn(yield_now).join().unwrap();
                                }
                                park();
                            }
                            dawdle(&mut choices);
                            turn.fetch_add(1, Ordering::Release);
                            // One that has not started looks before it parks.
                            let next = ring.lock().unwrap()[(index + 1) % FIBERS].clone();
                            next.inspect(thread::Thread::unpark);
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            turn.load(Ordering::Relaxed)
        });
        assert_eq!(total, FIBERS * ROUNDS);
    });
}

#[test]
fn each_piece_of_a_fork_runs_once() {
    fn sum(range: std::ops::Range<u64>, choices: &mut Choices) -> u64 {
        dawdle(choices);
        if range.end - range.start == 1 {
            return range.start;
        }
        let middle = range.start.midpoint(range.end);
        let (mut left, mut right) = (
            Choices(choices.below(1 << 30)),
            Choices(choices.below(1 << 30)),
        );
        let (left, right) = crate::join(
            || sum(range.start..middle, &mut left),
            || sum(middle..range.end, &mut right),
        );
        left + right
    }
    under_seeds(|seed| {
        let total = Simulation::new(seed, 3).run(move || sum(0..40, &mut Choices(seed)));
        assert_eq!(total, 39 * 40 / 2);
    });
}

#[test]
fn a_sleep_is_never_short_and_at_most_two_ticks_late() {
    const LATE_MAX: Duration = Duration::from_micros(263);
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
            let sleepers: Vec<_> = (0..20)
                .map(|index| {
                    spawn(move || {
                        let mut choices = Choices(seed * 31 + index);
                        let nap = Duration::from_nanos(choices.below(1 << (10 + index)));
                        let begin = caller::now();
                        sleep(nap);
                        let slept = caller::now() - begin;
                        assert!(slept >= nap, "{slept:?} of {nap:?}");
                        assert!(slept <= nap + LATE_MAX, "{slept:?} for {nap:?}");
                    })
                })
                .collect();
            sleepers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

#[test]
fn an_interval_keeps_its_pace_however_late_it_is_asked() {
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
            let mut choices = Choices(seed);
            let period = Duration::from_nanos(1 + choices.below(2_000_000));
            let begin = caller::now();
            let mut asked = begin;
            let mut ticks = interval(period);
            for _ in 0..20 {
                let due = ticks.next().expect("the interval is endless");
                let since = (due - begin).as_nanos();
                assert_eq!(since % period.as_nanos(), 0, "not a multiple of the period");
                assert!(
                    due > asked && due <= asked + period,
                    "a tick missed or left over"
                );
                assert!(caller::now() >= due, "early");
                dawdle(&mut choices);
                asked = caller::now();
            }
        });
    });
}

#[test]
fn a_park_ends_at_its_timeout_or_by_an_unpark() {
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
            let parkers: Vec<_> = (0..8)
                .map(|index| {
                    spawn(move || {
                        let mut choices = Choices(seed * 29 + index);
                        for _ in 0..10 {
                            let unparked = Arc::new(AtomicUsize::new(0));
                            let time = Duration::from_micros(choices.below(2000));
                            let waker = {
                                let (parked, unparked) = (thread::current(), Arc::clone(&unparked));
                                let mut choices = Choices(choices.below(1 << 30));
                                spawn(move || {
                                    dawdle(&mut choices);
                                    unparked.store(1, Ordering::Relaxed);
                                    parked.unpark();
                                })
                            };
                            let begin = caller::now();
                            park_timeout(time);
                            let over = caller::now() - begin >= time;
                            assert!(
                                over || unparked.load(Ordering::Relaxed) == 1,
                                "for no reason"
                            );
                            waker.join().unwrap();
                            park_timeout(Duration::ZERO); // An unpark that came too late.
                        }
                    })
                })
                .collect();
            parkers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

#[test]
fn work_from_outside_begins_whether_workers_sleep_or_are_busy() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 2);
        let asleep = simulation.spawn(|| ());
        simulation.step_until(|_| asleep.is_finished());
        while simulation.is_busy() {
            simulation.step();
        }
        let woken = simulation.spawn(|| ());
        simulation.step_until(|_| woken.is_finished());

        let begun = Arc::new(AtomicUsize::new(0));
        let busy: Vec<_> = (0..4)
            .map(|_| {
                let begun = Arc::clone(&begun);
                simulation.spawn(move || {
                    while begun.load(Ordering::Relaxed) == 0 {
                        yield_now();
                    }
                })
            })
            .collect();
        let turns = simulation.world().borrow_mut().below(40);
        (0..turns).for_each(|_| simulation.step());
        let late = simulation.spawn(move || begun.store(1, Ordering::Relaxed));
        simulation.step_until(|_| busy.iter().all(thread::JoinHandle::is_finished));
        late.join().unwrap();
        simulation.shut_down();
    });
}

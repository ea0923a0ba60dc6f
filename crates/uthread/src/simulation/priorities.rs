//! Properties of fibers of several priorities: the order of their turns, and the bounds of the
//! README of `sched`.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::operations::receive_and_check;
use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::driver::sim::Submitted;
use crate::priorities::Priority;
use crate::priorities::arbiter::{NORMAL_IN_A_ROW_MAX, URGENT_AHEAD_MAX};
use crate::priority;
use crate::sched::worker::{Worker, current};
use crate::thread::{Builder, JoinHandle, yield_now};

/// A run of a fiber until its next switch: the worker, the number of the fiber, its priority.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    worker: usize,
    fiber: usize,
    priority: Priority,
}

type Log = Arc<Mutex<Vec<Run>>>;

fn spawn<T: Send + 'static>(
    priority: Priority,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let spawned = Builder::new().priority(priority).spawn(f);
    spawned.expect("there is memory")
}

fn record(log: &Log, fiber: usize) -> usize {
    let worker = current::with_worker(Worker::index).expect("on a worker");
    let priority = priority::current();
    let mut log = log.lock().unwrap();
    log.push(Run {
        worker,
        fiber,
        priority,
    });
    log.len()
}

/// Runs so many fibers of each priority, which yield until there were `turns` turns.
fn flood(seed: u64, workers: usize, counts: [usize; 3], turns: usize) -> Vec<Run> {
    let log = Log::default();
    let theirs = Arc::clone(&log);
    let mut simulation = Simulation::new(seed, workers);
    // The claims are about the fibers that wait for one worker.
    simulation.resizes = false;
    simulation.run(move || {
        let counts = Priority::ALL.into_iter().zip(counts);
        let priorities = counts.flat_map(|(priority, count)| vec![priority; count]);
        let fibers: Vec<_> = priorities
            .enumerate()
            .map(|(fiber, priority)| {
                let log = Arc::clone(&theirs);
                spawn(priority, move || {
                    while record(&log, fiber) < turns {
                        yield_now();
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    let mut log = log.lock().unwrap();
    // From the moment at which all have started, until the first of them stops.
    log.truncate(turns);
    let all: usize = counts.iter().sum();
    let begun = (0..all).map(|fiber| log.iter().position(|turn| turn.fiber == fiber));
    let begun = begun
        .map(|begun| begun.expect("each fiber has a turn"))
        .max();
    log.split_off(begun.expect("there are fibers"))
}

/// Checks the claims of the README for the turns of one worker, on which fibers of all these
/// priorities wait.
fn check(turns: impl Iterator<Item = Run>, has_others: bool, has_background: bool) {
    let (mut ahead, mut urgent, mut normal) = (0, 0, 0);
    for turn in turns {
        match turn.priority {
            Priority::Urgent => {
                (ahead, urgent) = (ahead + 1, urgent + 1);
            }
            Priority::Normal => {
                (ahead, normal) = (u32::saturating_sub(ahead, 1), normal + 1);
            }
            Priority::Background => {
                ahead = u32::saturating_sub(ahead, 1);
                (urgent, normal) = (0, 0);
            }
        }
        assert!(!has_others || ahead <= URGENT_AHEAD_MAX, "a flood: {ahead}");
        if has_background {
            let urgent_max = URGENT_AHEAD_MAX + NORMAL_IN_A_ROW_MAX;
            assert!(urgent <= urgent_max, "urgent turns: {urgent}");
            assert!(normal <= NORMAL_IN_A_ROW_MAX, "normal turns: {normal}");
        }
    }
}

#[test]
fn a_flood_of_urgent_fibers_leaves_turns_to_all_others() {
    under_seeds(|seed| {
        let mut choices = Choices(seed);
        let counts = [(); 3].map(|()| 1 + choices.below(5) as usize);
        let turns = flood(seed, 1, counts, 1000);
        check(turns.iter().copied(), true, true);
        // The turns are shared fairly within each priority, too.
        for (fiber, next) in (0..counts.iter().sum::<usize>()).zip(1..) {
            let of = |fiber| turns.iter().filter(move |turn| turn.fiber == fiber);
            let (own, others) = (of(fiber).count(), of(next).count());
            let same = of(fiber).next().map(|turn| turn.priority)
                == of(next).next().map(|turn| turn.priority);
            assert!(!same || own.abs_diff(others) <= 1, "{own} and {others}");
        }
    });
}

#[test]
fn each_of_several_workers_leaves_turns_to_all_others() {
    const WORKERS: usize = 3;
    under_seeds(|seed| {
        let mut choices = Choices(seed);
        let counts = [(); 3].map(|()| WORKERS + choices.below(9) as usize);
        let turns = flood(seed, WORKERS, counts, 2000);
        for worker in 0..WORKERS {
            let own = turns.iter().copied().filter(|turn| turn.worker == worker);
            let has = |priority| own.clone().any(|turn| turn.priority == priority);
            let background = has(Priority::Background);
            check(own.clone(), has(Priority::Normal) || background, background);
        }
    });
}

#[test]
fn fibers_start_in_the_order_of_their_priorities() {
    under_seeds(|seed| {
        let log = Log::default();
        let theirs = Arc::clone(&log);
        Simulation::new(seed, 1).run(move || {
            let mut choices = Choices(seed);
            let fibers: Vec<_> = (0..20)
                .map(|fiber| {
                    let priority = Priority::ALL[choices.below(3) as usize];
                    let log = Arc::clone(&theirs);
                    spawn(priority, move || record(&log, fiber))
                })
                .collect();
            // So that the turns of the joiner are none of normal fibers.
            priority::with(Priority::Urgent, || {
                fibers.into_iter().for_each(|fiber| drop(fiber.join()));
            });
        });
        let log = log.lock().unwrap();
        // One background fiber may have its turn after eight normal ones.
        let others = log.iter().map(|turn| turn.priority as usize);
        let others: Vec<_> = others.collect();
        let urgent = others.iter().filter(|priority| **priority == 0).count();
        assert!(
            others[..urgent].iter().all(|priority| *priority == 0),
            "{others:?}"
        );
        let first: Vec<_> = others[urgent..].iter().take(8).collect();
        assert!(first.is_sorted(), "{others:?}");
    });
}

/// Catches a worker that always finds urgent fibers and never looks into the injector.
#[test]
fn a_stream_of_urgent_new_fibers_delays_no_fiber_from_outside_for_long() {
    const LINKS_MAX: usize = 10_000;
    /// Starts the next fiber of the stream, so that there is always a new one.
    fn stream(stop: &Arc<AtomicBool>, links: &Arc<AtomicUsize>) {
        let (stop, links) = (Arc::clone(stop), Arc::clone(links));
        let link = links.fetch_add(1, Ordering::Relaxed);
        if link < LINKS_MAX && !stop.load(Ordering::Relaxed) {
            spawn(Priority::Urgent, move || stream(&stop, &links));
        }
    }
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 1);
        let (stop, links) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (theirs, counted) = (Arc::clone(&stop), Arc::clone(&links));
        simulation.spawn(move || stream(&theirs, &counted));
        simulation.step_some(10);
        let before = links.load(Ordering::Relaxed);
        let last = simulation.spawn(move || stop.store(true, Ordering::Relaxed));
        simulation.step_until(|_| last.is_finished());
        let waited = links.load(Ordering::Relaxed) - before;
        // A batch until the worker looks into the injector, and one more in which the fiber has its
        // turn.
        assert!(waited <= 2 * 64, "{waited} urgent ones went first");
        simulation.shut_down();
    });
}

#[test]
fn a_fiber_of_any_priority_runs_once_and_wakes_its_joiner() {
    fn tree(depth: u64, seed: u64, own: Priority, runs: &Arc<AtomicUsize>) {
        let mut choices = Choices(seed);
        assert_eq!(
            priority::current(),
            own,
            "not what it was given, or inherits"
        );
        runs.fetch_add(1, Ordering::Relaxed);
        let children: Vec<_> = (0..if depth == 0 { 0 } else { 3 })
            .map(|child| {
                let priority = Priority::ALL[choices.below(3) as usize];
                let runs = Arc::clone(runs);
                let tree = move || tree(depth - 1, seed * 3 + child, priority, &runs);
                match choices.below(2) {
                    0 => spawn(priority, tree),
                    _ => priority::with(priority, || crate::spawn(tree)),
                }
            })
            .collect();
        let priority = Priority::ALL[choices.below(3) as usize];
        priority::with(priority, || dawdle(&mut choices));
        children.into_iter().for_each(|child| child.join().unwrap());
    }
    under_seeds(|seed| {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        Simulation::new(seed, 3).run(move || tree(3, seed, Priority::Normal, &counted));
        assert_eq!(runs.load(Ordering::Relaxed), 1 + 3 + 9 + 27);
    });
}

#[test]
fn a_runtime_with_priorities_may_end_at_any_moment() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let alive = Arc::new(());
        let fibers: Vec<_> = (0..8)
            .map(|index| {
                let alive = Arc::clone(&alive);
                simulation.spawn(move || {
                    let mut choices = Choices(seed * 23 + index);
                    let priority = Priority::ALL[choices.below(3) as usize];
                    let child = spawn(priority, || (0..3).for_each(|_| yield_now()));
                    priority::with(priority, || dawdle(&mut choices));
                    drop(child.join());
                    drop(alive);
                })
            })
            .collect();
        simulation.step_some(60);
        simulation.shut_down();
        assert!(fibers.iter().all(JoinHandle::is_finished));
        drop(simulation);
        drop(fibers);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn a_flush_submits_in_the_order_of_the_priorities() {
    under_seeds(|seed| {
        let simulation = Simulation::new(seed, 2);
        let world = Rc::clone(simulation.world());
        simulation.run(move || {
            let fibers: Vec<_> = (0..12)
                .map(|index| {
                    let mut choices = Choices(seed * 29 + index);
                    let priority = Priority::ALL[choices.below(3) as usize];
                    spawn(priority, move || {
                        for _ in 0..10 {
                            let _ = receive_and_check(&mut choices);
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        let world = world.borrow();
        let key = |submitted: &Submitted| {
            let Submitted {
                flush,
                priority,
                number,
            } = *submitted;
            (flush, priority as usize, number)
        };
        assert!(world.submitted().is_sorted_by_key(key), "out of order");
        // A flush leaves nothing behind: what is submitted later was started later, on the same
        // worker or another.
        assert!(world.gathered_max() <= Duration::from_millis(1));
    });
}

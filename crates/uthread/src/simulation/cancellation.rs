//! Properties of cancelled fibers and passed deadlines that hold under every seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::operations::receive_and_check;
use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sched::caller;
use crate::sync::mpsc;
use crate::thread::{self, Cancelled, is_cancelled, park, scope, shield, sleep, spawn, try_scope};
use crate::time::{Elapsed, timeout};

const HOUR: Duration = Duration::from_secs(3600);

/// Waits in all ways, until a call says that this shall end.
fn wait_around(choices: &mut Choices) {
    let (_sender, receiver) = mpsc::channel::<()>();
    loop {
        match choices.below(8) {
            0 => park(),
            1 => sleep(HOUR),
            2 => drop(spawn(thread::yield_now).join()),
            3 => drop(receiver.recv_timeout(Duration::from_micros(choices.below(3000)))),
            4 => shield(|| dawdle(choices)),
            5 => dawdle(choices),
            _ => match receive_and_check(choices) {
                Err(errno)
                    if [Errno::CANCELED, Errno::TIMEDOUT]
                        .contains(&Errno::from_raw_os_error(errno)) =>
                {
                    return;
                }
                _ => {}
            },
        }
    }
}

#[test]
fn a_fiber_cancelled_at_any_moment_ends_and_no_other() {
    const FIBERS: u64 = 8;
    under_seeds(|seed| {
        Simulation::new(seed, 3).run(move || {
            let kept = spawn(move || {
                let mut choices = Choices(seed + 1000);
                for _ in 0..20 {
                    // The only other errors are those of the simulated kernel.
                    if let Err(errno) = receive_and_check(&mut choices) {
                        assert_ne!(errno, Errno::CANCELED.raw_os_error());
                    }
                    assert!(!is_cancelled());
                }
            });
            let fibers: Vec<_> = (0..FIBERS)
                .map(|index| spawn(move || wait_around(&mut Choices(seed * 13 + index))))
                .collect();
            let mut choices = Choices(seed * 7);
            for fiber in &fibers {
                dawdle(&mut choices);
                fiber.cancel();
            }
            for fiber in fibers {
                let result = fiber.join();
                assert!(result.is_ok() || result.is_err_and(|payload| payload.is::<Cancelled>()));
            }
            kept.join().unwrap();
        });
    });
}

#[test]
fn a_deadline_ends_all_waits_neither_early_nor_late() {
    /// Maximum delay: two ticks of the timers, and an operation's cancellation.
    const LATE_MAX: Duration = Duration::from_millis(8);
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
            let fibers: Vec<_> = (0..8)
                .map(|index| {
                    spawn(move || {
                        let mut choices = Choices(seed * 19 + index);
                        for _ in 0..5 {
                            let time = Duration::from_micros(choices.below(4000));
                            let begin = caller::now();
                            let result = timeout(time, || wait_around(&mut choices));
                            let taken = caller::now() - begin;
                            assert!(matches!(result, Ok(()) | Err(Elapsed)));
                            assert!(taken >= time, "{taken:?} of {time:?}");
                            assert!(taken <= time + LATE_MAX, "{taken:?} for {time:?}");
                            assert!(!is_cancelled(), "the deadline is left behind");
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

#[test]
fn a_scope_that_fails_ends_whole_and_with_the_first_error() {
    under_seeds(|seed| {
        Simulation::new(seed, 3).run(move || {
            let mut choices = Choices(seed);
            for round in 0..5 {
                let (failing, alive) = (choices.below(6), AtomicUsize::new(0));
                let (below, nested) = (choices.below(1 << 30), choices.below(2) == 0);
                let failed = try_scope(|outer| {
                    for index in 0..6 {
                        let alive = &alive;
                        outer.spawn(move || {
                            let mut choices = Choices(below + index);
                            let _alive = Alive::new(alive);
                            dawdle(&mut choices);
                            if index == failing {
                                return Err(round);
                            }
                            scope(|inner| {
                                inner.spawn(|| {
                                    let _alive = Alive::new(alive);
                                    wait_around(&mut choices);
                                });
                            });
                            Ok(())
                        });
                    }
                    if nested {
                        let _ = try_scope(|_| {
                            wait_around(&mut Choices(below));
                            Ok::<(), ()>(())
                        });
                    } else {
                        wait_around(&mut Choices(below));
                    }
                    Ok(())
                });
                assert_eq!(failed, Err(round));
                assert_eq!(alive.load(Ordering::Relaxed), 0, "a fiber is left");
                assert!(!is_cancelled(), "the failure is left behind");
            }
        });
    });
}

/// Counts the fibers that have not ended.
struct Alive<'a>(&'a AtomicUsize);

impl Alive<'_> {
    fn new(count: &AtomicUsize) -> Alive<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Alive(count)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn the_end_of_the_runtime_waits_for_shields() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 2);
        let (begun, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let fibers: Vec<_> = (0..6)
            .map(|index| {
                let (begun, done) = (Arc::clone(&begun), Arc::clone(&done));
                simulation.spawn(move || {
                    let mut choices = Choices(seed * 11 + index);
                    begun.fetch_add(1, Ordering::Relaxed);
                    shield(|| {
                        for _ in 0..5 {
                            if let Err(errno) = receive_and_check(&mut choices) {
                                assert_ne!(errno, Errno::CANCELED.raw_os_error());
                            }
                            sleep(Duration::from_micros(choices.below(500)));
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                    wait_around(&mut choices);
                })
            })
            .collect();
        simulation.step_some(200);
        simulation.shut_down();
        assert!(fibers.iter().all(thread::JoinHandle::is_finished));
        let done = done.load(Ordering::Relaxed);
        assert_eq!(done, begun.load(Ordering::Relaxed), "a shield was cut off");
    });
}

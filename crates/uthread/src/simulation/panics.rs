//! Properties that hold under every seed while fibers wait in destructors during their panics.
//! There is one worker: `std` counts panics per thread, and all workers of a simulation share one.

use std::panic::resume_unwind;
use std::time::Duration;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sched::caller::panics;
use crate::sync::mpsc;
use crate::thread::{Cancelled, panicking, park, sleep, spawn};
use crate::time::{Elapsed, timeout};

const HOUR: Duration = Duration::from_secs(3600);

/// Waits for a while in its destructor.
struct Dawdles(Choices);

impl Drop for Dawdles {
    fn drop(&mut self) {
        for _ in 0..3 {
            assert!(panicking(), "the fiber's own panic is not seen");
            dawdle(&mut self.0);
        }
    }
}

/// Panics as with a panic hook, and waits meanwhile.
fn panic_slowly(seed: u64) {
    let _dawdles = Dawdles(Choices(seed));
    panics::record_panic();
    resume_unwind(Box::new(seed));
}

/// Waits of every kind end by a deadline or cancellation as they do without panics.
fn wait_beside(choices: &mut Choices) {
    let soon = Duration::from_micros(choices.below(3000));
    assert!(!panicking());
    match choices.below(5) {
        0 => assert_eq!(timeout(soon, || sleep(HOUR)), Err(Elapsed)),
        1 => assert_eq!(timeout(soon, park), Err(Elapsed)),
        2 => {
            let (_sender, receiver) = mpsc::channel::<()>();
            assert_eq!(timeout(soon, || receiver.recv()), Err(Elapsed));
        }
        3 => {
            let sleeping = spawn(|| sleep(HOUR));
            dawdle(choices);
            sleeping.cancel();
            assert!(sleeping.join().unwrap_err().is::<Cancelled>());
        }
        _ => {
            let seed = choices.below(1000);
            let caught = panics::catch_unwind(|| panic_slowly(seed));
            assert_eq!(*caught.unwrap_err().downcast::<u64>().unwrap(), seed);
        }
    }
    assert!(!panicking());
}

#[test]
fn fibers_beside_one_that_waits_in_its_panic_notice_nothing() {
    const FIBERS: u64 = 4;
    under_seeds(|seed| {
        Simulation::new(seed, 1).run(move || {
            let beside: Vec<_> = (0..FIBERS)
                .map(|index| {
                    spawn(move || {
                        let mut choices = Choices(seed * 13 + index);
                        (0..6).for_each(|_| wait_beside(&mut choices));
                    })
                })
                .collect();
            let panicking: Vec<_> = (0..FIBERS)
                .map(|index| spawn(move || panic_slowly(seed * 7 + index)))
                .collect();
            for fiber in panicking {
                assert!(fiber.join().unwrap_err().is::<u64>());
            }
            for fiber in beside {
                fiber.join().unwrap();
            }
        });
    });
}

//! Stacks are trimmed while their fibers wait, whatever the seed chooses: no fiber loses what it has there.

use std::hint::black_box;
use std::time::Duration;

use super::operations::receive_and_check;
use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::thread::{park_timeout, spawn};

/// Waits somewhere below frames of several sizes, each of which holds what it held before.
fn wait_below_frames(depth: u64, choices: &mut Choices) {
    let mark = choices.below(256) as u8;
    // Larger than a page, so that one of them lies below the address that the fiber leaves for prefetching.
    let frame = black_box([mark; 5000]);
    match choices.below(3) {
        0 if depth > 0 => {
            wait_below_frames(depth - 1, choices);
            wait_below_frames(depth - 1, choices);
        }
        1 => drop(receive_and_check(choices)),
        2 => park_timeout(Duration::from_micros(choices.below(3000))),
        _ => dawdle(choices),
    }
    assert!(black_box(frame).iter().all(|byte| *byte == mark));
}

#[test]
fn a_fiber_finds_its_stack_as_it_was() {
    under_seeds(|seed, mode| {
        let mut simulation = Simulation::new(seed, 2, mode);
        let main = simulation.spawn(move || {
            let fibers = (0..10).map(|index| {
                let mut choices = Choices(seed * 100 + index);
                spawn(move || (0..5).for_each(|_| wait_below_frames(2, &mut choices)))
            });
            let fibers: Vec<_> = fibers.collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        while !main.is_finished() {
            if simulation.world().borrow_mut().below(8) == 0 {
                simulation.trim_some();
            }
            simulation.step();
        }
        simulation.shut_down();
        main.join().unwrap();
    });
}

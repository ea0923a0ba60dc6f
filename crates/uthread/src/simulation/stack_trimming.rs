//! Stacks are trimmed while their fibers wait, whatever the seed chooses: no fiber loses what it
//! has there.

use std::hint::black_box;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::operations::receive_and_check;
use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::fiber::{Fiber, Identity, Pause};
use crate::sched::monitor::{Config, Monitor};
use crate::sched::worker::current;
use crate::thread::{JoinHandle, park, park_timeout, spawn};

/// Waits somewhere below frames of several sizes, each of which holds what it held before.
fn wait_below_frames(depth: u64, choices: &mut Choices) {
    let mark = choices.below(256) as u8;
    // Larger than a page, so that one of them lies below the address that the fiber leaves for
    // prefetching.
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
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 2);
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

#[test]
fn the_monitor_misses_no_fiber_that_ran_between_two_turns() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 2);
        let config = Config {
            threshold: Some(Duration::from_secs(1)),
            report: None,
            delay_interval: None,
        };
        let monitor = Monitor::new(Arc::clone(&simulation.shared), config);
        let mut monitor = monitor.expect("there is a threshold");
        let sleep = |simulation: &mut Simulation| {
            while simulation.next_at().is_some() {
                simulation.step();
            }
        };
        sleep(&mut simulation);
        let now = Instant::now();
        assert_eq!(monitor.take_turn(now), (false, None));
        // Between two turns of the monitor, a worker wakes up and sleeps again.
        let fiber = simulation.spawn(park);
        sleep(&mut simulation);
        let (is_awake, next_trim) = monitor.take_turn(now);
        assert!(!is_awake && next_trim.is_some(), "a request follows");
        fiber.thread().unpark();
        sleep(&mut simulation);
        simulation.shut_down();
        fiber.join().unwrap();
    });
}

/// Number of bytes of a fiber's frame, several pages.
const FRAME_BYTES: usize = 10_000;

/// Maximum number of bytes that trimming leaves below the frame from which a fiber suspends, beside
/// the rest of a page.
const LEFT_BYTES_MAX: usize = 2048;

#[test]
#[allow(unsafe_code, reason = "suspending a fiber, and reading it")]
fn trimming_leaves_the_frame_that_a_fiber_suspends_from_and_little_else() {
    let mut simulation = Simulation::new(1, 1);
    let address = Arc::new(AtomicUsize::new(0));
    let waiting = Arc::clone(&address);
    let (fiber, joinable) = Fiber::owning(Identity::anonymous(Location::caller()), move || {
        let frame = [7_u8; FRAME_BYTES];
        waiting.store(black_box(&frame).as_ptr().addr(), Ordering::Relaxed);
        let running = current::running().expect("a fiber runs");
        // The function is inlined, so `frame` is in the frame that suspends.
        // SAFETY: the caller is the running fiber.
        unsafe { running.control().suspend(Pause::Parked) };
        black_box(&frame).iter().all(|byte| *byte == 7)
    });
    simulation.shared.inject(fiber);
    simulation.step_until(|_| address.load(Ordering::Relaxed) != 0);
    let control = joinable.fiber().control();
    // SAFETY: the fiber has parked, and its worker, which is on this thread, does not run.
    let early = unsafe { control.unused_stack() };
    assert_eq!(early, None, "no call has found it suspended before");
    // SAFETY: as before.
    let pages = unsafe { control.unused_stack() }.expect("the previous call found it suspended");
    // SAFETY: as before.
    let late = unsafe { control.unused_stack() };
    assert_eq!(late, None, "the pages are returned once");
    let left = address.load(Ordering::Relaxed).checked_sub(pages.end);
    let left = left.expect("the frame is in use");
    assert!(
        left < LEFT_BYTES_MAX + rustix::param::page_size(),
        "{left} bytes"
    );
    let handle = JoinHandle::new(joinable);
    handle.thread().unpark();
    simulation.step_until(|_| handle.is_finished());
    simulation.shut_down();
    assert!(handle.join().unwrap());
}

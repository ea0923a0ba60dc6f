//! Properties of requests that are waited for later, which hold under every seed: each ends once, is
//! told once, and writes to its buffer only until then.

use std::cell::Cell;
use std::io;
use std::mem;

use rustix::io::Errno;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::ring::{self, Request};
use crate::thread::spawn;

/// Bytes of a buffer.
const BYTES: usize = 64;

/// Checks that a result and the buffer belong together.
fn check(result: &io::Result<usize>, buffer: &[u8]) {
    let mut expected = [0xff; BYTES];
    match result {
        Ok(count) => expected[..*count].fill(*count as u8),
        Err(error) => {
            let known = [Errno::CONNRESET, Errno::CANCELED];
            assert!(
                known.contains(&Errno::from_io_error(error).unwrap()),
                "{error}"
            );
        }
    }
    assert_eq!(buffer, expected, "{result:?}");
}

/// Starts requests and does one thing or another with each.
fn start_and_wait(seed: u64) {
    let mut choices = Choices(seed);
    let input = io::stdin();
    let (started, called) = (Cell::new(0), Cell::new(0));
    let mut lent = [0xff; BYTES];
    ring::requests(|requests| {
        let mut left = Vec::new();
        mem::forget(requests.receive(&input, &mut lent[..]));
        for _ in 0..1 + choices.below(12) {
            let request: Request<'_, Vec<u8>> = requests.receive(&input, vec![0xff; BYTES]);
            dawdle(&mut choices);
            match choices.below(6) {
                0 => {
                    let (result, buffer) = request.wait();
                    check(&result, &buffer);
                }
                1 => drop(request),
                2 => {
                    request.cancel();
                    left.push(request);
                }
                3 => left.push(request),
                _ => {
                    started.set(started.get() + 1);
                    let called = &called;
                    request.then(move |result, buffer| {
                        check(&result, &buffer);
                        called.set(called.get() + 1);
                    });
                }
            }
            if choices.below(8) == 0 {
                requests.run();
                assert_eq!(called.get(), started.get());
            }
        }
        for request in left.into_iter().rev() {
            let (result, buffer) = request.wait();
            check(&result, &buffer);
            dawdle(&mut choices);
        }
    });
    assert_eq!(called.get(), started.get(), "each callback is called once");
    let before = lent;
    dawdle(&mut choices);
    assert_eq!(lent, before, "written to after the end");
}

#[test]
fn each_request_ends_once() {
    under_seeds(|seed| {
        // The simulation checks at its end that nothing is left.
        Simulation::new(seed, 3).run(move || {
            let fibers = (0..6).map(|index| spawn(move || start_and_wait(seed * 31 + index)));
            let fibers = Vec::from_iter(fibers);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

#[test]
fn requests_may_be_ended_at_any_moment() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let fibers =
            (0..6).map(|index| simulation.spawn(move || start_and_wait(seed * 43 + index)));
        let fibers = Vec::from_iter(fibers);
        simulation.end_at_any_moment(&fibers);
    });
}

//! A fiber that waits gives back the part of its stack that it does not use, and nothing else.

use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uthread::net::UnixStream;
use uthread::thread::park;
use uthread::{JoinHandle, Runtime};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_WORKERS, OUTSIDE, THREADS, behaviours};
use crate::support::eventually;
use crate::support::memory::{resident, use_stack};

behaviours![
    (
        ON_WORKERS,
        [unused_stack_of_a_fiber_in_a_call_is_given_back]
    ),
    (
        &[OUTSIDE, THREADS],
        [unused_stack_of_a_parked_fiber_is_given_back]
    ),
];

const FIBERS: usize = 200;

/// Bytes of stack that each of them touches before it waits.
const DEEP: usize = 64 * 1024;

/// Bytes that each of them may keep: some pages, as frames are large without optimization, and its
/// share of the runtime.
const KEPT: usize = 32 * 1024;

/// Starts fibers that touch much of their stacks, and then wait. Each returns `true` if the values
/// on its stack have survived the wait.
fn wait_deeply(
    runtime: &Runtime,
    wait: impl Fn(usize) + Clone + Send + 'static,
) -> Vec<JoinHandle<bool>> {
    let begun = Arc::new(AtomicUsize::new(0));
    let fibers = (0..FIBERS).map(|index| {
        let (begun, wait) = (Arc::clone(&begun), wait.clone());
        runtime.spawn(move || {
            let on_the_stack = black_box([index; 64]);
            use_stack(DEEP);
            begun.fetch_add(1, Ordering::Relaxed);
            wait(index);
            use_stack(DEEP);
            black_box(on_the_stack) == [index; 64]
        })
    });
    let fibers = fibers.collect();
    eventually("all have begun", || begun.load(Ordering::Relaxed) == FIBERS);
    fibers
}

/// Checks that the fibers have touched their stacks, waits until the unused parts are given back,
/// and ends the waits.
fn check(
    before: usize,
    fibers: Vec<JoinHandle<bool>>,
    end_wait: impl Fn(&JoinHandle<bool>, usize),
) {
    assert!(resident() > before + FIBERS * (DEEP - 8192), "touched");
    eventually("the stacks are given back", || {
        resident() < before + FIBERS * KEPT
    });
    for (index, fiber) in fibers.iter().enumerate() {
        end_wait(fiber, index);
    }
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap()));
}

fn unused_stack_of_a_fiber_in_a_call_is_given_back(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let pairs = (0..FIBERS).map(|_| UnixStream::pair().unwrap());
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.unzip();
        let theirs = Arc::new(theirs);
        let before = resident();
        let fibers = wait_deeply(&runtime, move |index| {
            let mut message = [0; 64];
            (&theirs[index]).read_exact(&mut message).unwrap();
            assert_eq!(message, [index as u8; 64]);
        });
        check(before, fibers, |_, index| {
            // In two pieces: the buffer is on the stack, and what the kernel has written stays
            // there.
            (&ours[index]).write_all(&[index as u8; 32]).unwrap();
            (&ours[index]).write_all(&[index as u8; 32]).unwrap();
        });
    });
}

fn unused_stack_of_a_parked_fiber_is_given_back(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let before = resident();
        let fibers = wait_deeply(&runtime, |_| park());
        check(before, fibers, |fiber, _| fiber.thread().unpark());
    });
}

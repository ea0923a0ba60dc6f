//! Properties of multishot operations that hold under every seed: nothing is lost, and nothing is
//! left behind.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::op::Operation;
use crate::op::multishot::MultishotOperation;
use crate::resource::descriptor::Descriptor;
use crate::sched::caller::wait;
use crate::sched::features::multishot_queue::{Decode, MultishotQueue, Taken};
use crate::sched::reactor::operations::OperationId;
use crate::thread::{self, sleep, spawn};

/// Takes the simulated results, which count up from zero.
struct Numbers;

impl Decode for Numbers {
    type Item = u32;
    const BACKLOG_MAX: usize = 3;

    fn decode(&self, result: u32, _: Option<u16>, _: Option<&mut u32>) -> Option<u32> {
        Some(result)
    }
}

fn begin(queue: &Arc<MultishotQueue<Numbers>>) -> Option<OperationId> {
    let standard_input = io::stdin();
    queue.begin(&mut Operation::Multishot(MultishotOperation::Poll {
        descriptor: Descriptor::unwatched(standard_input.as_fd()),
        events: PollFlags::IN,
    }))
}

/// Takes numbers until the end, or at most `max` of them. Returns the result that has ended the
/// operation, if it has ended.
fn take(queue: &MultishotQueue<Numbers>, expected: &mut u32, max: u64) -> Option<i32> {
    for _ in 0..max {
        loop {
            match queue.take_or_wait() {
                Taken::Item(number) => {
                    assert_eq!(number, *expected, "lost, or out of order");
                    *expected += 1;
                    break;
                }
                Taken::End(result) => return Some(result),
                Taken::Nothing => wait::park(),
            }
        }
    }
    None
}

#[test]
fn every_result_is_taken_in_order_until_the_end() {
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
            let taking = |index| {
                move || {
                    let mut choices = Choices(seed * 29 + index);
                    for _ in 0..5 {
                        let queue = MultishotQueue::new(Numbers);
                        let id = begin(&queue).expect("the simulation can");
                        let mut expected = 0;
                        let mut end = None;
                        while end.is_none() && choices.below(6) > 0 {
                            end = take(&queue, &mut expected, choices.below(8));
                            dawdle(&mut choices);
                        }
                        if end.is_none() {
                            queue.end(id);
                            end = take(&queue, &mut expected, u64::MAX);
                        }
                        let known = [Errno::CONNRESET, Errno::CANCELED];
                        let known = known.map(|errno| -errno.raw_os_error());
                        // Or the last result, which was counted too.
                        let end = end.unwrap();
                        assert!(
                            known.contains(&end) || end.cast_unsigned() + 1 == expected,
                            "{end}"
                        );
                    }
                }
            };
            let fibers: Vec<_> = (0..6).map(|index| spawn(taking(index))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

/// Catches a peer that sends without end and so fills the memory of a receiver that does not read.
#[test]
fn an_operation_is_ended_when_its_backlog_is_full() {
    const BURST: u32 = 64;
    under_seeds(|seed| {
        Simulation::new(seed, 1).run(move || {
            let queue = MultishotQueue::new(Numbers);
            begin(&queue).expect("the simulation can");
            sleep(Duration::from_secs(1));
            let mut expected = 0;
            let end = take(&queue, &mut expected, u64::from(BURST));
            assert!(
                end.is_some(),
                "a thousand times as long as one takes, and it goes on"
            );
        });
    });
}

#[test]
fn the_end_of_the_runtime_ends_what_was_leaked() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 2);
        let leak = |index| {
            move || {
                let mut choices = Choices(seed * 31 + index);
                let queue = MultishotQueue::new(Numbers);
                begin(&queue).expect("the simulation can");
                take(&queue, &mut 0, choices.below(3));
                mem::forget(queue);
            }
        };
        let fibers: Vec<_> = (0..4).map(|index| simulation.spawn(leak(index))).collect();
        simulation.step_until(|_| fibers.iter().all(thread::JoinHandle::is_finished));
        simulation.shut_down();
        for simulated in &simulation.workers {
            simulated.assert_nothing_waits();
        }
    });
}

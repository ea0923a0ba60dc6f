//! What holds of operations under every seed: their results, buffers, timeouts, and when they leave.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::programs::{Choices, dawdle};
use super::{Simulation, compute, under_seeds};
use crate::op::net::SocketOperation;
use crate::op::{self, Operation};
use crate::sched::wait;
use crate::thread::{self, spawn};

/// Receives into a buffer on the stack, as a socket would.
fn receive(buffer: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
    let standard_input = io::stdin();
    let mut operation = Operation::Socket(SocketOperation::Receive {
        socket: standard_input.as_fd(),
        buffer,
        peek: false,
    });
    wait::perform(&mut operation, timeout).map(|count| count as usize)
}

/// Receives once, and checks that the result and the buffer belong together, then and later.
pub(super) fn receive_and_check(choices: &mut Choices) -> Result<(), i32> {
    let mut buffer = [0xff; 64];
    let timeout = match choices.below(2) {
        0 => None,
        _ => Some(Duration::from_micros(1 + choices.below(2000))),
    };
    let result = receive(&mut buffer, timeout);
    let mut expected = [0xff; 64];
    if let Ok(count) = result {
        expected[..count].fill(count as u8);
    }
    assert_eq!(buffer, expected, "{result:?}");
    dawdle(choices);
    assert_eq!(buffer, expected, "written to after the call");
    match result {
        Err(error) => Err(error.raw_os_error().expect("of the kernel")),
        Ok(_) => Ok(()),
    }
}

#[test]
fn an_operation_ends_once_and_touches_its_buffer_only_until_then() {
    under_seeds(|seed, mode| {
        Simulation::new(seed, 2, mode).run(move || {
            let fibers: Vec<_> = (0..10)
                .map(|index| {
                    spawn(move || {
                        let mut choices = Choices(seed * 17 + index);
                        for _ in 0..10 {
                            if let Err(errno) = receive_and_check(&mut choices) {
                                let known = [Errno::CONNRESET, Errno::AGAIN];
                                let known = known.map(Errno::raw_os_error);
                                assert!(known.contains(&errno), "errno {errno}");
                            }
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

/// Otherwise an answer would wait in the ring until a whole batch of fibers has computed.
#[test]
fn what_was_submitted_leaves_while_others_compute() {
    const COMPUTED: Duration = Duration::from_micros(200);
    under_seeds(|seed, mode| {
        let mut simulation = Simulation::new(seed, 1, mode);
        let fibers: Vec<_> = (0..100)
            .map(|index| {
                simulation.spawn(move || {
                    let mut choices = Choices(seed * 23 + index);
                    for _ in 0..3 {
                        compute(COMPUTED);
                        let _ = receive_and_check(&mut choices);
                    }
                })
            })
            .collect();
        simulation.step_until(|_| fibers.iter().all(thread::JoinHandle::is_finished));
        let waited = simulation.world().borrow().gathered_max();
        assert!(
            waited <= COMPUTED,
            "{waited:?}, and one fiber computes meanwhile"
        );
        simulation.shut_down();
    });
}

#[test]
fn a_timeout_ends_what_would_never_end() {
    under_seeds(|seed, mode| {
        Simulation::new(seed, 2, mode).run(move || {
            let fibers: Vec<_> = (0..8)
                .map(|index| {
                    spawn(move || {
                        let standard_input = io::stdin();
                        let mut operation = Operation::Socket(SocketOperation::Poll {
                            fd: standard_input.as_fd(),
                            events: PollFlags::IN,
                        });
                        let timeout = Duration::from_micros(seed + index * 700);
                        let begin = wait::now();
                        let error = wait::perform(&mut operation, Some(timeout)).unwrap_err();
                        assert_eq!(error.raw_os_error(), Some(op::TIMED_OUT));
                        assert!(wait::now() - begin >= timeout);
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

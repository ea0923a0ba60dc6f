//! Properties of operations that hold under every seed: results, buffers, timeouts, and the time of
//! submission.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::programs::{Choices, dawdle};
use super::{Simulation, compute, under_seeds};
use crate::driver::{FLUSH_TIME_MAX, sim};
use crate::op::net::{self, SocketOperation};
use crate::op::peer_address::PeerAddress;
use crate::op::{self, Operation};
use crate::priorities::Priority;
use crate::priority;
use crate::resource::descriptor::Descriptor;
use crate::sched::caller::{self, cancellation, wait};
use crate::thread::{self, Cancelled, spawn, yield_now};

/// Receives into a buffer on the stack, as a socket would.
fn receive(buffer: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
    let standard_input = io::stdin();
    let mut operation = Operation::Socket(SocketOperation::Receive(net::Receive {
        socket: Descriptor::unwatched(standard_input.as_fd()),
        buffer,
        peek: false,
        drains: true,
    }));
    wait::perform(&mut operation, timeout).map(|count| count as usize)
}

/// Sends a few bytes, as to a socket.
fn send() -> io::Result<usize> {
    let standard_input = io::stdin();
    let mut operation = Operation::Socket(SocketOperation::Send(net::Send {
        socket: Descriptor::unwatched(standard_input.as_fd()),
        buffer: &[7; 8],
    }));
    wait::perform(&mut operation, None).map(|count| count as usize)
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
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
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

/// Catches a request that waits in the ring until a whole batch of fibers has computed.
#[test]
fn submitted_operations_start_while_others_compute() {
    const COMPUTED: Duration = Duration::from_micros(200);
    let call = |choices: &mut Choices| {
        let _ = receive_and_check(choices);
    };
    under_seeds(|seed| {
        let (waited, _) = gathering_times(seed, COMPUTED, call);
        assert!(
            waited <= COMPUTED,
            "{waited:?}, and one fiber computes meanwhile"
        );
    });
}

/// Sends may wait for others, and nothing else waits with them.
#[test]
fn sends_gather_longer_than_other_operations() {
    const COMPUTED: Duration = Duration::from_micros(10);
    let call = |choices: &mut Choices| {
        if choices.below(32) == 0 {
            let _ = receive_and_check(choices);
        } else {
            let _ = send();
        }
    };
    let sends_waited = Cell::new(Duration::ZERO);
    under_seeds(|seed| {
        let (waited, sends) = gathering_times(seed, COMPUTED, call);
        assert!(waited <= FLUSH_TIME_MAX + COMPUTED, "{waited:?}");
        assert!(sends <= sim::GATHER_TIME + COMPUTED, "{sends:?}");
        sends_waited.set(sends.max(sends_waited.get()));
    });
    let sends_waited = sends_waited.get();
    assert!(sends_waited >= sim::GATHER_TIME, "{sends_waited:?}");
}

/// Catches an event that makes a more urgent fiber ready and is seen later than without sends.
#[test]
fn sends_of_ordered_fibers_gather_only_for_a_short_batch() {
    const COMPUTED: Duration = Duration::from_micros(10);
    let call = |_: &mut Choices| {
        let _ = priority::with(Priority::Background, send);
    };
    under_seeds(|seed| {
        let (_, sends) = gathering_times(seed, COMPUTED, call);
        assert!(sends <= FLUSH_TIME_MAX + COMPUTED, "{sends:?}");
    });
}

/// Lets 100 fibers of one worker compute for this time before each call. Returns the maximum time
/// that an operation has waited to be submitted, and that of a send.
fn gathering_times(seed: u64, computed: Duration, call: fn(&mut Choices)) -> (Duration, Duration) {
    let mut simulation = Simulation::new(seed, 1);
    // A queue that is full is flushed.
    simulation.world().borrow_mut().set_entries(128);
    let fibers: Vec<_> = (0..100)
        .map(|index| {
            simulation.spawn(move || {
                let mut choices = Choices(seed * 23 + index);
                for _ in 0..3 {
                    compute(computed);
                    call(&mut choices);
                }
            })
        })
        .collect();
    simulation.step_until(|_| fibers.iter().all(thread::JoinHandle::is_finished));
    let times = {
        let world = simulation.world().borrow();
        (world.gathered_max(), world.sends_gathered_max())
    };
    simulation.shut_down();
    times
}

/// Catches a fiber that computes between calls and waits for all others twice or more for each of
/// its messages.
#[test]
fn a_call_that_need_not_wait_leaves_the_turn_to_its_fiber() {
    // Fewer than those after which it gives way.
    const CALLS: usize = 7;
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 1);
        let at_once = Arc::new(AtomicUsize::new(0));
        let fibers: Vec<_> = (0..30)
            .map(|_| {
                let at_once = Arc::clone(&at_once);
                simulation.spawn(move || {
                    for _ in 0..CALLS {
                        compute(Duration::from_micros(200));
                        let begin = caller::now();
                        let _ = send();
                        let is_at_once = caller::now() == begin;
                        at_once.fetch_add(usize::from(is_at_once), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        simulation.step_until(|_| fibers.iter().all(thread::JoinHandle::is_finished));
        let attempted = simulation.world().borrow().attempted();
        assert_eq!(at_once.load(Ordering::Relaxed), attempted);
        simulation.shut_down();
    });
}

/// Fibers that receive and compute until they are stopped.
struct Computing {
    fibers: Vec<thread::JoinHandle<()>>,
    runs: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Computing {
    /// Starts so many, and returns when all have started.
    fn start(count: usize, seed: u64) -> Computing {
        let (runs, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let begun = Arc::new(AtomicUsize::new(0));
        let fiber = |index| {
            let (runs, over, begun) = (Arc::clone(&runs), Arc::clone(&over), Arc::clone(&begun));
            spawn(move || {
                let mut choices = Choices(seed * 41 + index as u64);
                begun.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) && runs.load(Ordering::Relaxed) < 10_000 {
                    compute(Duration::from_micros(200));
                    let _ = receive_and_check(&mut choices);
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let fibers = (0..count).map(fiber).collect();
        while begun.load(Ordering::Relaxed) < count {
            yield_now();
        }
        Computing { fibers, runs, over }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.fibers
            .into_iter()
            .for_each(|fiber| fiber.join().unwrap());
    }
}

/// Catches computing connections that keep out those that have just been accepted: each of their
/// batches ends with the first fiber.
#[test]
fn a_new_fiber_begins_beside_others_that_compute() {
    under_seeds(|seed| {
        Simulation::new(seed, 1).run(move || {
            let computing = Computing::start(30, seed);
            for _ in 0..20 {
                yield_now();
                let before = computing.runs();
                let runs = Arc::clone(&computing.runs);
                let begun = spawn(move || runs.load(Ordering::Relaxed));
                let between = begun.join().unwrap() - before;
                assert!(between <= 20, "{between} others ran first");
            }
            computing.end();
        });
    });
}

/// Catches a new connection that waits for its turn behind all those that there are.
#[test]
fn an_accepting_fiber_does_not_queue_behind_computing_ones() {
    const ACCEPTED: usize = 20;
    under_seeds(|seed| {
        Simulation::new(seed, 1).run(move || {
            let computing = Computing::start(50, seed);
            let before = computing.runs();
            for _ in 0..ACCEPTED {
                let standard_input = io::stdin();
                let mut peer = PeerAddress::new();
                let mut accept = Operation::Socket(SocketOperation::Accept(net::Accept {
                    listener: Descriptor::unwatched(standard_input.as_fd()),
                    peer: &mut peer,
                    raised_nonblock: &AtomicBool::new(false),
                }));
                wait::perform(&mut accept, None).unwrap();
            }
            let between = (computing.runs() - before) / ACCEPTED;
            // An accept takes as long as five runs of the others in the mean, and at most ten.
            assert!(between <= 15, "{between} others ran first");
            computing.end();
        });
    });
}

/// Waits for an event that does not occur.
pub(super) fn await_nothing(timeout: Option<Duration>) -> io::Result<u32> {
    let standard_input = io::stdin();
    let mut operation = Operation::Socket(SocketOperation::Poll(net::Poll {
        descriptor: Descriptor::unwatched(standard_input.as_fd()),
        events: PollFlags::IN,
    }));
    wait::perform(&mut operation, timeout)
}

#[test]
fn operations_that_begin_while_the_runtime_ends_are_cancelled() {
    const FIBERS: u64 = 12;
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let fibers: Vec<_> = (0..FIBERS)
            .map(|index| {
                simulation.spawn(move || {
                    let mut choices = Choices(seed * 13 + index);
                    (0..choices.below(20)).for_each(|_| dawdle(&mut choices));
                    let result = await_nothing(None);
                    assert!(
                        cancellation::is_cancelled(),
                        "its next call would not be refused"
                    );
                    result
                })
            })
            .collect();
        simulation.step_some(100);
        simulation.shut_down();
        for fiber in fibers {
            match fiber.join() {
                Ok(result) => assert_eq!(result.unwrap_err().raw_os_error(), Some(op::CANCELLED)),
                Err(payload) => assert!(payload.is::<Cancelled>()),
            }
        }
    });
}

#[test]
fn a_timeout_ends_what_would_never_end() {
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(move || {
            let fibers: Vec<_> = (0..8)
                .map(|index| {
                    spawn(move || {
                        let timeout = Duration::from_micros(seed + index * 700);
                        let begin = caller::now();
                        let error = await_nothing(Some(timeout)).unwrap_err();
                        assert_eq!(error.raw_os_error(), Some(op::TIMED_OUT));
                        assert!(caller::now() - begin >= timeout);
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

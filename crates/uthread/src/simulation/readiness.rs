//! Properties of selections with descriptors that hold under every seed: nothing is lost, and no
//! poll is left behind.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::op::net;
use crate::resource::descriptor::Descriptor;
use crate::sched::features::readiness::PollOperation;
use crate::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::sync::select;
use crate::sync::selection::{Arm, ArmHandle, Event};
use crate::thread::spawn;
use crate::timeout;

const VALUES: usize = 12;

/// A descriptor.
struct Ready<'a> {
    input: &'a io::Stdin,
    /// Chooses whether the descriptor is ready when it is checked; if `None`, it never is.
    choices: Option<Choices>,
    /// In the simulation there is room after a while, nothing to read ever, and nothing can wait
    /// for what is exceptional.
    events: PollFlags,
    failure: Option<io::Error>,
}

impl Event for Ready<'_> {
    type Output = io::Result<()>;

    fn try_complete(&mut self) -> Option<io::Result<()>> {
        if let Some(error) = self.failure.take() {
            return Some(Err(error));
        }
        let choices = self.choices.as_mut()?;
        (choices.below(3) == 0).then_some(Ok(()))
    }

    fn enlist(&mut self, _: ArmHandle) -> bool {
        true
    }

    fn withdraw(&mut self) {}

    fn poll(&self) -> Option<PollOperation<'_>> {
        Some(PollOperation(net::Poll {
            descriptor: Descriptor::unwatched(self.input.as_fd()),
            events: self.events,
        }))
    }

    fn fail(&mut self, error: io::Error) {
        self.failure = Some(error);
    }

    fn cut_off(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn arm(input: &io::Stdin, choices: Option<Choices>, events: PollFlags) -> Arm<Ready<'_>> {
    Arm::new(Ready {
        input,
        choices,
        events,
        failure: None,
    })
}

/// Receives all numbers in their order, beside descriptors, and gives up now and then.
fn receive(receiver: &Receiver<usize>, seed: u64) {
    let mut choices = Choices(seed);
    let input = io::stdin();
    let mut expected = 0;
    while expected < VALUES {
        let mut silent = arm(&input, None, PollFlags::IN);
        let looks = Choices(choices.below(u64::MAX));
        let mut ready = arm(&input, Some(looks), PollFlags::OUT);
        let mut value = select::recv(receiver);
        let pause = Duration::from_micros(choices.below(3000));
        let mut choose = || match pause.as_micros() % 3 {
            0 => select::select(&mut [&mut silent, &mut value]),
            _ => 1 + select::select(&mut [&mut value, &mut ready, &mut silent]),
        };
        let chosen = match choices.below(2) {
            // With nothing but wake-ups to end it.
            0 => Ok(choose()),
            _ => timeout(pause, choose),
        };
        match chosen {
            Ok(1) => {
                assert_eq!(value.take(), Some(Ok(expected)), "lost, or out of order");
                expected += 1;
            }
            Ok(2) => assert!(ready.take().unwrap().is_ok()),
            Ok(_) => panic!("the operation is never ready"),
            Err(_) => assert_eq!(value.take(), None, "the value was taken and is lost"),
        }
        dawdle(&mut choices);
    }
}

fn send(sender: &SyncSender<usize>, seed: u64) {
    let mut choices = Choices(seed);
    for value in 0..VALUES {
        dawdle(&mut choices);
        // The receiver may have been cut off.
        if sender.send(value).is_err() {
            return;
        }
    }
}

/// Creates a sender and a receiver, which run beside others of their kind.
fn pair(seed: u64) -> [Box<dyn FnOnce() + Send>; 2] {
    let (sender, receiver) = sync_channel(seed as usize % 3);
    [
        Box::new(move || send(&sender, seed)),
        Box::new(move || receive(&receiver, seed + 1)),
    ]
}

#[test]
fn every_value_is_taken_beside_descriptors() {
    under_seeds(|seed| {
        // The simulation checks at its end that nothing is left.
        Simulation::new(seed, 3).run(move || {
            let pairs = (0..3).flat_map(|index| pair(seed * 37 + index));
            let fibers: Vec<_> = pairs.map(spawn).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
}

/// Catches a selection that begins the refused poll again and again.
#[test]
fn a_refused_poll_is_reported() {
    under_seeds(|seed| {
        Simulation::new(seed, 1).run(|| {
            let input = io::stdin();
            let mut silent = arm(&input, None, PollFlags::IN);
            let mut refused = arm(&input, None, PollFlags::PRI);
            assert_eq!(select::select(&mut [&mut silent, &mut refused]), 1);
            let error = refused.take().unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        });
    });
}

#[test]
fn such_a_choice_may_be_ended_at_any_moment() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, 3);
        let pairs = (0..3).flat_map(|index| pair(seed * 41 + index));
        let fibers: Vec<_> = pairs.map(|body| simulation.spawn(body)).collect();
        simulation.end_at_any_moment(&fibers);
    });
}

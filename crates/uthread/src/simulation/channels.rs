//! Properties of channels that hold under every seed.

use std::sync::Arc;
use std::time::Duration;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sched::caller;
use crate::select;
use crate::sync::{mpmc, mpsc, watch};
use crate::thread::{self, Cancelled, sleep, spawn};

/// Receives as the choices go: at once, in some time, or however long it takes.
fn receive(
    receiver: &mpsc::Receiver<(u64, u64)>,
    choices: &mut Choices,
) -> Result<(u64, u64), mpsc::RecvTimeoutError> {
    match choices.below(4) {
        0 => receiver.recv_timeout(Duration::ZERO),
        1 => {
            let timeout = Duration::from_micros(choices.below(3000));
            let deadline = caller::now() + timeout;
            let received = receiver.recv_timeout(timeout);
            if received == Err(mpsc::RecvTimeoutError::Timeout) {
                assert!(caller::now() >= deadline);
            }
            received
        }
        _ => receiver.recv().map_err(mpsc::RecvTimeoutError::from),
    }
}

/// Sends as the choices go; each value says how much of the sender's it is.
fn send_all(sender: &mpsc::SyncSender<(u64, u64)>, from: u64, count: u64, choices: &mut Choices) {
    for number in 0..count {
        match choices.below(3) {
            0 => {
                while let Err(error) = sender.try_send((from, number)) {
                    assert!(matches!(error, mpsc::TrySendError::Full(_)));
                    // A yield would stop the clock, by which others sleep.
                    sleep(Duration::from_micros(50));
                }
            }
            _ => sender.send((from, number)).unwrap(),
        }
        dawdle(choices);
    }
}

#[test]
fn a_channel_loses_nothing_and_keeps_each_senders_order() {
    const SENDERS: u64 = 3;
    const VALUES: u64 = 6;
    under_seeds(|seed| {
        for bound in [0, 1, 3] {
            Simulation::new(seed, 3).run(move || {
                let (sender, receiver) = mpsc::sync_channel(bound);
                let fibers: Vec<_> = (0..SENDERS)
                    .map(|from| {
                        let (sender, mut choices) = (sender.clone(), Choices(seed * 7 + from));
                        spawn(move || send_all(&sender, from, VALUES, &mut choices))
                    })
                    .collect();
                drop(sender);
                let mut choices = Choices(seed);
                let mut next = [0; SENDERS as usize];
                loop {
                    match receive(&receiver, &mut choices) {
                        Ok((from, number)) => {
                            let next = &mut next[from as usize];
                            assert_eq!(number, *next, "of sender {from}");
                            *next += 1;
                        }
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        Err(mpsc::RecvTimeoutError::Disconnected) => break,
                    }
                    dawdle(&mut choices);
                }
                assert_eq!(next, [VALUES; SENDERS as usize]);
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            });
        }
    });
}

/// Drops the receiver or ends the runtime at some time: each value is received, comes back, or is
/// dropped with the channel, and nobody waits on.
#[test]
fn a_channel_may_end_at_any_moment() {
    const SENDERS: u64 = 4;
    under_seeds(|seed| {
        for bound in [0, 1, 3] {
            let mut simulation = Simulation::new(seed, 3);
            let values = Arc::new(());
            let (sender, receiver) = mpsc::sync_channel(bound);
            let mut fibers: Vec<_> = (0..SENDERS)
                .map(|from| {
                    let (sender, values) = (sender.clone(), Arc::clone(&values));
                    simulation.spawn(move || {
                        let mut choices = Choices(seed * 11 + from);
                        while sender.send(Arc::clone(&values)).is_ok() {
                            dawdle(&mut choices);
                        }
                    })
                })
                .collect();
            drop(sender);
            fibers.push(simulation.spawn(move || {
                let mut choices = Choices(seed);
                let count = choices.below(30) as usize;
                for value in receiver.iter().take(count) {
                    drop(value);
                    dawdle(&mut choices);
                }
            }));
            match seed % 2 {
                0 => simulation.step_until(|_| fibers.iter().all(thread::JoinHandle::is_finished)),
                _ => {
                    simulation.step_some(100);
                }
            }
            simulation.shut_down();
            assert!(fibers.iter().all(thread::JoinHandle::is_finished));
            drop(simulation);
            drop(fibers);
            assert_eq!(Arc::strong_count(&values), 1);
        }
    });
}

/// Receives to the end by each kind of wait, or gives up earlier.
fn share(receiver: &mpmc::Receiver<(u64, u64)>, choices: &mut Choices) -> Vec<(u64, u64)> {
    let (_never, silent) = mpmc::channel::<()>();
    let mut values = Vec::new();
    loop {
        let timeout = Duration::from_micros(choices.below(3000));
        let received = match choices.below(4) {
            0 => receiver.recv_timeout(timeout),
            1 => select! {
                recv(receiver) -> received => received.map_err(From::from),
                recv(&silent) => unreachable!("nothing is sent there"),
                default(timeout) => Err(mpsc::RecvTimeoutError::Timeout),
            },
            2 => select! { recv(receiver) -> received => received.map_err(From::from) },
            _ => receiver.recv().map_err(From::from),
        };
        match received {
            Ok(value) => values.push(value),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return values,
        }
        dawdle(choices);
    }
}

/// Sends as the choices go, to whichever receiver is there.
fn deal(sender: &mpmc::Sender<(u64, u64)>, from: u64, count: u64, choices: &mut Choices) {
    for number in 0..count {
        let mut value = Some((from, number));
        while let Some((from, number)) = value.take() {
            let timeout = Duration::from_micros(choices.below(3000));
            match choices.below(3) {
                0 => match sender.send_timeout((from, number), timeout) {
                    Ok(()) => {}
                    Err(mpmc::SendTimeoutError::Timeout(refused)) => value = Some(refused),
                    Err(error) => panic!("{error}"),
                },
                1 => {
                    value = Some((from, number));
                    select! {
                        send(sender, &mut value) -> sent => sent.unwrap(),
                        default(timeout) => {}
                    }
                }
                _ => sender.send((from, number)).unwrap(),
            }
        }
        dawdle(choices);
    }
}

#[test]
fn a_shared_channel_loses_nothing_and_keeps_each_senders_order() {
    const SENDERS: u64 = 3;
    const VALUES: u64 = 6;
    const RECEIVERS: u64 = 3;
    under_seeds(|seed| {
        for bound in [0, 1, 3] {
            Simulation::new(seed, 3).run(move || {
                let (sender, receiver) = mpmc::sync_channel(bound);
                let receivers: Vec<_> = (0..RECEIVERS)
                    .map(|index| {
                        let receiver = receiver.clone();
                        spawn(move || share(&receiver, &mut Choices(seed * 5 + index)))
                    })
                    .collect();
                let senders: Vec<_> = (0..SENDERS)
                    .map(|from| {
                        let sender = sender.clone();
                        spawn(move || deal(&sender, from, VALUES, &mut Choices(seed * 7 + from)))
                    })
                    .collect();
                drop((sender, receiver));
                senders.into_iter().for_each(|fiber| fiber.join().unwrap());
                let mut all = Vec::new();
                for receiver in receivers {
                    let values = receiver.join().unwrap();
                    for from in 0..SENDERS {
                        let own = values.iter().filter(|value| value.0 == from);
                        assert!(own.is_sorted(), "of sender {from}");
                    }
                    all.extend(values);
                }
                all.sort_unstable();
                let sent = (0..SENDERS).flat_map(|from| (0..VALUES).map(move |n| (from, n)));
                assert!(all.into_iter().eq(sent));
            });
        }
    });
}

/// Catches a receiver that has waited before and overtakes one that waits for longer, and a second
/// wait of it that is lost.
#[test]
fn waiting_receivers_get_values_in_the_order_in_which_they_came() {
    const STEP: Duration = Duration::from_millis(1);
    under_seeds(|seed| {
        Simulation::new(seed, 2).run(|| {
            let (sender, receiver) = mpmc::channel();
            let other = receiver.clone();
            let comes_back = spawn(move || {
                let first = receiver.recv();
                sleep(4 * STEP);
                (first, receiver.recv())
            });
            // Time passes only when all fibers wait.
            sleep(STEP);
            let waits = spawn(move || other.recv());
            sleep(STEP);
            sender.send(0).unwrap();
            sleep(8 * STEP);
            sender.send(1).unwrap();
            sleep(STEP);
            sender.send(2).unwrap();
            assert_eq!(waits.join().unwrap(), Ok(1));
            assert_eq!(comes_back.join().unwrap(), (Ok(0), Ok(2)));
        });
    });
}

/// Raises the number, and may wait meanwhile.
fn raise(sender: &watch::Sender<u64>, count: u64, choices: &mut Choices) {
    for _ in 0..count {
        sender.send_modify(|number| {
            *number += 1;
            dawdle(choices);
        });
        dawdle(choices);
    }
}

/// Follows the number to the end, by each kind of wait.
fn follow(receiver: &mut watch::Receiver<u64>, choices: &mut Choices) -> u64 {
    let mut last = 0;
    loop {
        let changed = match choices.below(3) {
            0 => receiver.changed_timeout(Duration::from_micros(choices.below(3000))),
            1 => select! { changed(&mut *receiver) -> changed => changed.map_err(From::from) },
            _ => receiver.changed().map_err(From::from),
        };
        match changed {
            Ok(number) => {
                assert!(*number > last, "{number} after {last}");
                last = *number;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return last,
        }
        dawdle(choices);
    }
}

/// Checks that receivers see the last number though they may skip others, and that no wake-up is
/// lost. Some receivers are cancelled.
#[test]
fn every_receiver_sees_the_last_value_that_was_sent() {
    const SENDERS: u64 = 3;
    const VALUES: u64 = 6;
    const RECEIVERS: u64 = 5;
    under_seeds(|seed| {
        Simulation::new(seed, 3).run(move || {
            let (sender, receiver) = watch::channel(0);
            let followers: Vec<_> = (0..RECEIVERS)
                .map(|index| {
                    let (mut receiver, mut choices) = (receiver.clone(), Choices(seed * 5 + index));
                    spawn(move || follow(&mut receiver, &mut choices))
                })
                .collect();
            let senders: Vec<_> = (0..SENDERS)
                .map(|from| {
                    let (sender, mut choices) = (sender.clone(), Choices(seed * 7 + from));
                    spawn(move || raise(&sender, VALUES, &mut choices))
                })
                .collect();
            drop(sender);
            dawdle(&mut Choices(seed));
            followers[0].cancel();
            senders.into_iter().for_each(|fiber| fiber.join().unwrap());
            for (index, follower) in followers.into_iter().enumerate() {
                match follower.join() {
                    Ok(last) => assert_eq!(last, SENDERS * VALUES),
                    Err(payload) => assert!(index == 0 && payload.is::<Cancelled>()),
                }
            }
            assert_eq!(*receiver.borrow(), SENDERS * VALUES);
        });
    });
}

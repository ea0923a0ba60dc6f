//! Choices against the other sides of their channels, and against each other. A lost wake-up is a
//! deadlock here, which loom reports.

use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};
use std::time::Duration;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use crate::check;
use crate::fiber::keep_wakes;
use crate::sched::caller::Ending;
use crate::sync::channel::Channel;
use crate::sync::channel::selecting::{Received, Sent};
use crate::sync::selection::{Arm, select, select_timeout};

/// Bound for two threads: some seconds at most.
const PREEMPTIONS_MAX_OF_TWO: usize = 8;
/// Three threads: the same.
const PREEMPTIONS_MAX_OF_THREE: usize = 5;

type Channels = [Arc<Channel<u32>>; 2];

fn two_channels(bound: usize) -> Channels {
    [0, 1].map(|_| Arc::new(Channel::new(bound)))
}

/// Receives from whichever of the two has a value; which, and what.
fn receive_either(channels: &Channels) -> (usize, Result<u32, RecvError>) {
    keep_wakes();
    let [mut first, mut second] = channels
        .each_ref()
        .map(|channel| Arm::new(Received::new(channel)));
    match select(&mut [&mut first, &mut second]) {
        0 => (0, first.take().unwrap()),
        _ => (1, second.take().unwrap()),
    }
}

/// Sends 1 to the first or 2 to the second channel; to which it did, and what it has left.
fn send_either(channels: &Channels) -> (usize, [Option<u32>; 2]) {
    keep_wakes();
    let mut values = [Some(1), Some(2)];
    let [one, two] = &mut values;
    let mut first = Arm::new(Sent::new(&channels[0], one));
    let mut second = Arm::new(Sent::new(&channels[1], two));
    let chosen = select(&mut [&mut first, &mut second]);
    let outcomes = [first.take(), second.take()];
    assert_eq!(outcomes[chosen], Some(Ok(())));
    assert_eq!(outcomes[1 - chosen], None);
    (chosen, values)
}

fn send(channel: &Arc<Channel<u32>>, value: u32) -> JoinHandle<()> {
    let channel = Arc::clone(channel);
    thread::spawn(move || channel.send(value).unwrap())
}

/// Catches a choosing receiver that sleeps beside a value, or takes two at once and keeps one.
#[test]
fn a_choice_receives_from_both() {
    for bound in [0, 1] {
        check(PREEMPTIONS_MAX_OF_THREE, move || {
            let channels = two_channels(bound);
            let sending = [send(&channels[0], 0), send(&channels[1], 1)];
            let mut received = [receive_either(&channels), receive_either(&channels)];
            received.sort_by_key(|(from, _)| *from);
            assert_eq!(received, [(0, Ok(0)), (1, Ok(1))]);
            sending
                .into_iter()
                .for_each(|sending| sending.join().unwrap());
        });
    }
}

/// Catches a choosing sender that sends both values, loses one, or waits beside a receiver.
#[test]
fn a_choice_sends_to_one() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        let channels = two_channels(0);
        let receiving = channels.clone().map(|channel| {
            thread::spawn(move || {
                let received = channel.recv();
                channel.remove_receiver();
                received
            })
        });
        let (chosen, left) = send_either(&channels);
        let expected = if chosen == 0 {
            [None, Some(2)]
        } else {
            [Some(1), None]
        };
        assert_eq!(left, expected);
        channels.iter().for_each(|channel| channel.remove_sender());
        let received = receiving.map(|receiving| receiving.join().unwrap());
        assert_eq!(received[chosen], Ok(chosen as u32 + 1));
        assert_eq!(received[1 - chosen], Err(RecvError));
    });
}

/// Catches two choices that each wait for the other to move, and one that goes on alone.
#[test]
fn two_choices_meet() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let channels = two_channels(0);
        let sending = {
            let channels = channels.clone();
            thread::spawn(move || send_either(&channels).0)
        };
        let (from, value) = receive_either(&channels);
        assert_eq!(value, Ok(from as u32 + 1));
        assert_eq!(sending.join().unwrap(), from);
    });
}

#[test]
fn crossed_choices_meet() {
    // Each sends where the other receives, and both may find each other at once.
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let channels = two_channels(0);
        let exchange = |to: &Channel<u32>, from: &Channel<u32>| {
            keep_wakes();
            let mut value = Some(1);
            let mut sent = Arm::new(Sent::new(to, &mut value));
            let mut received = Arm::new(Received::new(from));
            select(&mut [&mut sent, &mut received])
        };
        let other = {
            let [first, second] = channels.clone();
            thread::spawn(move || exchange(&first, &second))
        };
        let chosen = exchange(&channels[1], &channels[0]);
        assert_eq!(chosen + other.join().unwrap(), 1, "one sends, one receives");
    });
}

/// Catches two receivers that each take a value of a choice that sends one.
#[test]
fn a_choice_is_claimed_once() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        let channels = two_channels(0);
        let choosing = {
            let channels = channels.clone();
            thread::spawn(move || send_either(&channels))
        };
        let other = {
            let channel = Arc::clone(&channels[1]);
            thread::spawn(move || channel.try_recv().ok())
        };
        let first = channels[0].try_recv().ok();
        let mut received = [first, other.join().unwrap()];
        if received == [None, None] {
            received[0] = channels[0].recv().ok();
        }
        let (chosen, left) = choosing.join().unwrap();
        let expected = if chosen == 0 {
            [Some(1), None]
        } else {
            [None, Some(2)]
        };
        assert_eq!(received, expected);
        assert_eq!(left, [expected[0].xor(Some(1)), expected[1].xor(Some(2))]);
    });
}

/// Catches a rendezvous that takes place for the sender alone, with a receiver that takes another
/// value.
#[test]
fn a_choice_takes_one_value() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        let channels = two_channels(0);
        let choosing = {
            let channels = channels.clone();
            thread::spawn(move || receive_either(&channels))
        };
        let other = {
            let channel = Arc::clone(&channels[1]);
            thread::spawn(move || channel.try_send(1).is_ok())
        };
        let first = channels[0].try_send(0).is_ok();
        let mut sent = [first, other.join().unwrap()];
        if sent == [false, false] {
            sent[0] = channels[0].send(0).is_ok();
        }
        let (from, value) = choosing.join().unwrap();
        assert_eq!(value, Ok(from as u32));
        assert_eq!(sent, [from == 0, from == 1]);
    });
}

/// Lets a choosing receiver give up just when a value is handed to it.
#[test]
fn a_choice_keeps_what_it_was_handed_at_its_deadline() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        let channel = Arc::new(Channel::new(0));
        let ending = Ending::default();
        let choosing = {
            let (channel, ending) = (Arc::clone(&channel), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                let mut arm = Arm::new(Received::new(&channel));
                select_timeout(&mut [&mut arm], Duration::ZERO);
                arm.take()
            })
        };
        let late = {
            let handle = choosing.thread().clone();
            thread::spawn(move || ending.pass_deadline(&handle))
        };
        let sent = channel.try_send(1);
        late.join().unwrap();
        match choosing.join().unwrap() {
            Some(received) => assert_eq!((sent, received), (Ok(()), Ok(1))),
            None => assert_eq!(sent, Err(TrySendError::Full(1))),
        }
    });
}

/// Ends a choice by its runtime just when its value is taken.
#[test]
fn a_choice_that_is_cut_off_has_sent_or_has_its_value() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        let channel = Arc::new(Channel::new(0));
        let ending = Ending::default();
        let choosing = {
            let (channel, ending) = (Arc::clone(&channel), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                let mut value = Some(1);
                let mut arm = Arm::new(Sent::new(&channel, &mut value));
                select(&mut [&mut arm]);
                arm.take().unwrap()
            })
        };
        let ended = {
            let handle = choosing.thread().clone();
            thread::spawn(move || ending.shut_down(&handle))
        };
        let received = channel.try_recv();
        ended.join().unwrap();
        match choosing.join().unwrap() {
            Ok(()) => assert_eq!(received, Ok(1)),
            Err(SendError(value)) => {
                assert_eq!((value, received), (1, Err(TryRecvError::Empty)));
            }
        }
    });
}

/// Removes the last sender while the receiver chooses, and the receiver while a sender does.
#[test]
fn the_end_of_a_channel_ends_a_choice() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let channels = two_channels(0);
        let first = Arc::clone(&channels[0]);
        let going = thread::spawn(move || first.remove_sender());
        assert_eq!(receive_either(&channels), (0, Err(RecvError)));
        going.join().unwrap();
    });
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let channel = Arc::new(Channel::new(0));
        let going = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || channel.remove_receiver())
        };
        let mut value = Some(1);
        let mut arm = Arm::new(Sent::new(&channel, &mut value));
        select(&mut [&mut arm]);
        assert_eq!(arm.take(), Some(Err(SendError(1))));
        going.join().unwrap();
    });
}

//! Senders and the receiver of a channel against each other. A lost wake-up is a deadlock here,
//! which loom reports.

use std::sync::Arc as Count;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use loom::sync::Arc;
use loom::thread::{self, JoinHandle, Thread};

use crate::check;
use crate::sched::caller::{self, Ending};
use crate::sync::channel::Channel;

/// Bound for two threads, which are explored in full.
const PREEMPTIONS_MAX_OF_TWO: Option<usize> = None;
/// Three threads: two seconds at most.
const PREEMPTIONS_MAX_OF_THREE: usize = 5;

/// Counts itself out on drop, like the public sender.
struct Sender(Arc<Channel<u32>>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.remove_sender();
    }
}

/// Creates a channel with the one sender that it begins with.
fn channel(bound: usize) -> (Sender, Arc<Channel<u32>>) {
    let channel = Arc::new(Channel::new(bound));
    (Sender(Arc::clone(&channel)), channel)
}

fn send_all(sender: Sender, values: std::ops::Range<u32>) -> JoinHandle<()> {
    thread::spawn(move || {
        for value in values {
            sender.0.send(value).unwrap();
        }
    })
}

/// Catches a receiver that sleeps beside a value, a sender that sleeps beside room, and two that
/// each sleep until the other moves.
#[test]
fn values_arrive_in_order_and_then_the_end() {
    for bound in [0, 1, 2] {
        check(PREEMPTIONS_MAX_OF_TWO, move || {
            let (sender, receiver) = channel(bound);
            let sending = send_all(sender, 0..3);
            for value in 0..3 {
                assert_eq!(receiver.recv(), Ok(value));
            }
            assert_eq!(receiver.recv(), Err(RecvError));
            sending.join().unwrap();
        });
    }
}

/// Catches a wake-up that one sender does not send because it relies on the other's.
#[test]
fn two_senders_lose_nothing() {
    for bound in [0, 1] {
        check(PREEMPTIONS_MAX_OF_THREE, move || {
            let (sender, receiver) = channel(bound);
            receiver.add_sender();
            let other = Sender(Arc::clone(&receiver));
            let sending = [send_all(sender, 1..2), send_all(other, 2..3)];
            let received = [receiver.recv().unwrap(), receiver.recv().unwrap()];
            assert!(matches!(received, [1, 2] | [2, 1]), "{received:?}");
            assert_eq!(receiver.recv(), Err(RecvError));
            for sending in sending {
                sending.join().unwrap();
            }
        });
    }
}

/// Catches a value that stays in the queue beside a receiver that waits, because the receiver that
/// was woken found another.
#[test]
fn two_receivers_share_the_values() {
    for bound in [0, 1] {
        check(PREEMPTIONS_MAX_OF_THREE, move || {
            let channel = Arc::new(Channel::new(bound));
            channel.add_receiver();
            let receiving = [(); 2].map(|()| {
                let channel = Arc::clone(&channel);
                thread::spawn(move || channel.recv().unwrap())
            });
            channel.send(1).unwrap();
            channel.send(2).unwrap();
            let received = receiving.map(|receiving| receiving.join().unwrap());
            assert!(matches!(received, [1, 2] | [2, 1]), "{received:?}");
        });
    }
}

/// Catches one of two senders that waits on for a receiver that is gone, and a value that is
/// delivered and also comes back.
#[test]
fn a_receiver_that_goes_ends_every_wait() {
    for bound in [0, 1] {
        check(PREEMPTIONS_MAX_OF_THREE, move || {
            let (sender, receiver) = channel(bound);
            let sender = Arc::new(sender);
            let sending = [1, 2].map(|value| {
                let sender = Arc::clone(&sender);
                thread::spawn(move || sender.0.send(value))
            });
            let received = receiver.recv().unwrap();
            receiver.remove_receiver();
            for (sending, value) in sending.into_iter().zip([1, 2]) {
                let sent = sending.join().unwrap();
                assert!(sent == Ok(()) || sent == Err(SendError(value)));
                assert!(received != value || sent == Ok(()), "received and refused");
                assert!(bound > 0 || sent.is_err() || received == value, "lost");
            }
        });
    }
}

/// Lets a receiver give up, because of `end`, just when a value is handed to it. Catches a
/// rendezvous that takes place for the sender alone.
fn check_receiver_that_gives_up(end: fn(&Ending, &Thread), error: RecvTimeoutError) {
    check(PREEMPTIONS_MAX_OF_THREE, move || {
        let (sender, receiver) = channel(0);
        let ending = Ending::default();
        let receiving = {
            let ending = ending.clone();
            thread::spawn(move || {
                ending.apply_here();
                receiver.recv_deadline(caller::deadline())
            })
        };
        let ended = {
            let receiver = receiving.thread().clone();
            thread::spawn(move || end(&ending, &receiver))
        };
        let sent = sender.0.try_send(1);
        ended.join().unwrap();
        let received = receiving.join().unwrap();
        match sent {
            Ok(()) => assert_eq!(received, Ok(1)),
            Err(full) => {
                assert_eq!(full, TrySendError::Full(1));
                assert_eq!(received, Err(error));
            }
        }
    });
}

#[test]
fn a_receiver_keeps_what_it_was_handed_at_the_end_of_its_runtime() {
    check_receiver_that_gives_up(Ending::shut_down, RecvTimeoutError::Timeout);
}

#[test]
fn a_receiver_keeps_what_it_was_handed_at_its_deadline() {
    check_receiver_that_gives_up(Ending::pass_deadline, RecvTimeoutError::Timeout);
}

/// Lets a sender whose runtime ends leave the line just when its value is taken. Catches a value
/// that is there twice, and a sender behind it that waits for a turn that has passed.
#[test]
fn a_sender_that_gives_up_has_sent_or_has_its_value() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        let (sender, receiver) = channel(0);
        let ending = Ending::default();
        let sending = {
            let ending = ending.clone();
            thread::spawn(move || {
                ending.apply_here();
                sender.0.send(1)
            })
        };
        let ended = {
            let sender = sending.thread().clone();
            thread::spawn(move || ending.shut_down(&sender))
        };
        let received = receiver.try_recv();
        ended.join().unwrap();
        match sending.join().unwrap() {
            Ok(()) => assert_eq!(received, Ok(1)),
            Err(SendError(value)) => {
                assert_eq!(value, 1);
                let nothing = [Err(TryRecvError::Empty), Err(TryRecvError::Disconnected)];
                assert!(nothing.contains(&received), "{received:?}");
            }
        }
    });
}

/// Catches a value that is dropped twice or never.
#[test]
fn values_not_received_are_dropped_with_the_receiver() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let witness = Count::new(());
        let channel = Arc::new(Channel::new(1));
        let sending = {
            let (channel, witness) = (Arc::clone(&channel), Count::clone(&witness));
            thread::spawn(move || {
                drop(channel.send(Count::clone(&witness)));
                drop(channel.send(witness));
                channel.remove_sender();
            })
        };
        channel.remove_receiver();
        sending.join().unwrap();
        assert_eq!(Count::strong_count(&witness), 1);
    });
}

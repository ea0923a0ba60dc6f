//! Channels of other crates: a fiber receives what another fiber sends later.

use std::sync::mpsc;

use super::{Use, WAIT, both};

pub(super) const USES: &[Use] = &[
    Use::new("crossbeam-channel", "a fiber in `recv`", crossbeam),
    Use::new("flume", "a fiber in `recv`", flume),
    Use::new(
        "kanal",
        "a fiber in `recv` of a channel without room",
        kanal,
    ),
    Use::new(
        "std-mpsc",
        "a fiber in `recv`, then one in `send` to a full channel",
        std_mpsc,
    ),
];

/// Number of messages, each sent after a wait.
const MESSAGES: [u32; 2] = [3, 4];

/// Sends all messages, and receives them in another fiber.
fn exchange(send: impl Fn(u32) + Sync, receive: impl Fn() -> u32 + Sync) {
    both(
        || {
            for message in MESSAGES {
                uthread::sleep(WAIT);
                send(message);
            }
        },
        || assert_eq!(MESSAGES.map(|_| receive()), MESSAGES),
    );
}

fn crossbeam() {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    exchange(
        |message| sender.send(message).expect("a receiver"),
        || receiver.recv().expect("a sender"),
    );
}

fn flume() {
    let (sender, receiver) = flume::unbounded();
    exchange(
        |message| sender.send(message).expect("a receiver"),
        || receiver.recv().expect("a sender"),
    );
}

fn kanal() {
    let (sender, receiver) = kanal::bounded(0);
    exchange(
        |message| sender.send(message).expect("a receiver"),
        || receiver.recv().expect("a sender"),
    );
}

fn std_mpsc() {
    let (sender, receiver) = mpsc::sync_channel(1);
    both(
        || {
            uthread::sleep(WAIT);
            for message in 0..3 {
                sender.send(message).expect("a receiver");
            }
        },
        move || {
            assert_eq!(receiver.recv(), Ok(0));
            uthread::sleep(WAIT);
            assert_eq!(receiver.recv(), Ok(1));
            assert_eq!(receiver.recv(), Ok(2));
        },
    );
}

//! Channels in a runtime: the order in which fibers are served, fairness beside a fiber that never
//! waits, and the end of the runtime.

use std::sync::{Arc, mpsc as native};

use crate::fixtures::fiber_or_thread::{InDrop, assert_ends_with_runtime, is_cancelled};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{IN_FIBERS, MORE_WORKERS, ON_ONE_WORKER, OUTSIDE, behaviours};
use crate::support::HANG;
use uthread::sync::mpsc::{
    Receiver, RecvError, RecvTimeoutError, SendError, SyncSender, TryRecvError, TrySendError,
    channel, sync_channel,
};
use uthread::thread::park;
use uthread::{spawn, yield_now};

behaviours![
    (
        ON_ONE_WORKER,
        [
            a_fiber_that_never_waits_does_not_starve_its_neighbours,
            a_rendezvous_takes_one_value_per_receipt
        ]
    ),
    (
        &[OUTSIDE, MORE_WORKERS],
        [
            a_rendezvous_ends_with_its_receipt,
            waiting_senders_are_served_in_the_order_of_their_calls
        ]
    ),
    (
        IN_FIBERS,
        [
            the_end_of_the_runtime_unwinds_waiters,
            the_end_of_the_runtime_ends_loops_of_calls,
            at_the_end_of_the_runtime_a_destructor_finds_the_other_side_gone,
            a_thread_that_waits_learns_of_the_end_of_a_runtime
        ]
    ),
];

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (sender, receiver) = channel();
    one_worker_lets_others_run(place, move || {
        sender.send(1).unwrap();
        receiver.recv().unwrap();
    });
    let (sender, receiver) = sync_channel(1);
    one_worker_lets_others_run(place, move || {
        sender.send(1).unwrap();
        receiver.recv().unwrap();
    });
    let (sender, receiver) = channel();
    one_worker_lets_others_run(place, move || sender.send(1).unwrap());
    drop(receiver);
    let (_sender, receiver) = channel::<()>();
    one_worker_lets_others_run(place, move || {
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty))
    });
    let (sender, _receiver) = sync_channel(0);
    one_worker_lets_others_run(place, move || {
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)))
    });
    // A fiber that makes a channel for each value starves no neighbour either.
    one_worker_lets_others_run(place, || {
        let (sender, receiver) = channel();
        sender.send(1).unwrap();
        receiver.recv().unwrap();
    });
}

fn a_rendezvous_ends_with_its_receipt(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = sync_channel(0);
    // Nobody receives, so there is nobody to hand it to.
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));

    let sent = place.spawn_waiting(&runtime, {
        let sender = sender.clone();
        move || sender.send(2).unwrap()
    });
    assert!(!sent.is_finished(), "sent, but not received");
    assert_eq!(receiver.try_recv(), Ok(2));
    sent.join().unwrap();

    let received = place.spawn_waiting(&runtime, move || (receiver.recv(), receiver));
    assert_eq!(sender.try_send(3), Ok(()), "to the receiver that waits");
    let (value, receiver) = received.join().unwrap();
    assert_eq!(value, Ok(3));
    assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
    drop(receiver);
    assert_eq!(sender.try_send(5), Err(TrySendError::Disconnected(5)));
}

/// Catches a second value that is accepted after the first was handed to a receiver that has not
/// run yet: the test occupies the only worker.
fn a_rendezvous_takes_one_value_per_receipt(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(0);
        let received = spawn(move || (receiver.recv(), receiver));
        (0..20).for_each(|_| yield_now());
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(received.join().unwrap().0, Ok(1));
    });
}

fn waiting_senders_are_served_in_the_order_of_their_calls(place: Place) {
    for bound in [0, 1, 3] {
        let runtime = place.runtime();
        let (sender, receiver) = sync_channel(bound);
        (0..bound).for_each(|n| sender.send(n).unwrap());
        let senders: Vec<_> = (bound..bound + 6)
            .map(|value| {
                let sender = sender.clone();
                place.spawn_waiting(&runtime, move || sender.send(value).unwrap())
            })
            .collect();
        // One that comes later does not overtake them, whatever it tries.
        assert_eq!(sender.try_send(99), Err(TrySendError::Full(99)));
        drop(sender);
        assert_eq!(
            receiver.iter().collect::<Vec<_>>(),
            (0..bound + 6).collect::<Vec<_>>()
        );
        senders.into_iter().for_each(|fiber| fiber.join().unwrap());
    }
}

fn the_end_of_the_runtime_unwinds_waiters(place: Place) {
    let runtime = place.runtime();
    let witness = Arc::new(());
    let (full, unread) = sync_channel(0);
    let (unsent, empty) = channel::<()>();
    let value = Arc::clone(&witness);
    let sending = place.spawn_waiting(&runtime, move || full.send(value).map_err(drop));
    let receiving = place.spawn_waiting(&runtime, move || empty.recv());
    drop(runtime);
    assert!(is_cancelled(sending));
    assert!(is_cancelled(receiving));
    // Both ends outside learn of it, and the value is not delivered any more.
    assert_eq!(unread.recv().err(), Some(RecvError));
    assert_eq!(unsent.send(()), Err(SendError(())));
    assert_eq!(Arc::strong_count(&witness), 1);
}

fn the_end_of_the_runtime_ends_loops_of_calls(place: Place) {
    let loops: [fn(SyncSender<u8>, Receiver<u8>); 6] = [
        |sender, _receiver| {
            loop {
                let _ = sender.send(1);
            }
        },
        |_sender, receiver| {
            loop {
                let _ = receiver.recv();
            }
        },
        |_sender, receiver| {
            loop {
                let _ = receiver.recv_timeout(HANG);
            }
        },
        |_sender, receiver| {
            loop {
                let _ = receiver.try_recv();
            }
        },
        |sender, _receiver| {
            loop {
                let _ = sender.try_send(1);
            }
        },
        |sender, receiver| {
            loop {
                sender.send(1).unwrap();
                receiver.recv().unwrap();
            }
        },
    ];
    for endless in loops {
        assert_ends_with_runtime(place, move || {
            let (sender, receiver) = sync_channel(1);
            endless(sender, receiver);
        });
    }
}

fn at_the_end_of_the_runtime_a_destructor_finds_the_other_side_gone(place: Place) {
    let runtime = place.runtime();
    let (outcome, outcomes) = native::channel();
    let (sender, receiver) = sync_channel(1);
    let fiber = place.spawn_waiting(&runtime, {
        let sender = sender.clone();
        move || {
            let _in_drop = InDrop(|| {
                // There is room for one: it is received below.
                let sent = [sender.send(1), sender.send(2)];
                let (_unused, empty) = channel::<()>();
                let late = empty.recv_timeout(HANG);
                outcome.send((sent, empty.recv(), late)).unwrap();
            });
            park();
        }
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    let (sent, received, late) = outcomes.recv().unwrap();
    assert_eq!(sent, [Ok(()), Err(SendError(2))]);
    assert_eq!(received, Err(RecvError));
    assert_eq!(late, Err(RecvTimeoutError::Timeout));
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
}

fn a_thread_that_waits_learns_of_the_end_of_a_runtime(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = sync_channel::<u8>(0);
    let fiber = place.spawn_waiting(&runtime, move || {
        let _sender = sender;
        park();
    });
    let waiting = std::thread::spawn(move || receiver.recv());
    drop(runtime);
    assert!(is_cancelled(fiber));
    assert_eq!(waiting.join().unwrap(), Err(RecvError));
}

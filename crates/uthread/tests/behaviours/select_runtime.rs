//! `select!` in a runtime: the order in which fibers are served, fairness beside a fiber that never waits,
//! and the end of the runtime.

use std::sync::{Arc, mpsc as native};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, MORE_WORKERS, ON_ONE_WORKER, OUTSIDE, behaviours};
use crate::support::sides::{InDrop, assert_neighbour_runs, is_cancelled};
use crate::support::{HANG, spawn_begun};
use uthread::select;
use uthread::sync::mpsc::{
    Receiver, RecvError, SendError, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use uthread::thread::park;

behaviours![
    (
        ON_ONE_WORKER,
        [a_fiber_that_never_waits_does_not_starve_its_neighbours]
    ),
    (
        &[OUTSIDE, MORE_WORKERS],
        [
            a_choice_meets_calls_that_do_not_wait,
            a_sender_that_chooses_keeps_its_place_in_the_line,
            a_choice_that_is_over_holds_nobody_up
        ]
    ),
    (
        IN_FIBERS,
        [
            the_end_of_the_runtime_unwinds_those_who_choose,
            the_end_of_the_runtime_ends_loops_of_choices,
            at_the_end_of_the_runtime_a_destructor_is_told
        ]
    ),
];

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (sender, receiver) = channel();
    assert_neighbour_runs(place, move || {
        sender.send(1).unwrap();
        select! { recv(&receiver) -> value => assert_eq!(value, Ok(1)) }
    });
    let (_sender, receiver) = channel::<()>();
    assert_neighbour_runs(place, move || {
        select! {
            recv(&receiver) => panic!("nobody sends"),
            default => {}
        }
    });
}

fn a_choice_meets_calls_that_do_not_wait(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = sync_channel(0);
    let chosen = place.spawn_waiting(&runtime, {
        let sender = sender.clone();
        move || {
            let mut value = Some(1);
            select! {
                send(&sender, &mut value) -> sent => sent,
                after(HANG) => panic!("nobody received"),
            }
        }
    });
    assert!(!chosen.is_finished(), "sent, but not received");
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(chosen.join().unwrap(), Ok(()));

    let (_other, silent) = channel::<()>();
    let chosen = place.spawn_waiting(&runtime, move || {
        select! {
            recv(&receiver) -> value => (value, receiver),
            recv(&silent) => panic!("nobody sends there"),
        }
    });
    assert_eq!(sender.try_send(2), Ok(()), "to the receiver that chooses");
    assert!(sender.try_send(3).is_err(), "it takes one");
    let (value, receiver) = chosen.join().unwrap();
    assert_eq!(value, Ok(2));
    assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
    drop(receiver);
}

fn a_sender_that_chooses_keeps_its_place_in_the_line(place: Place) {
    for bound in [0, 1] {
        let runtime = place.runtime();
        let (sender, receiver) = sync_channel(bound);
        (0..bound).for_each(|n| sender.send(n).unwrap());
        let senders: Vec<_> = (bound..bound + 6)
            .map(|number| {
                let sender = sender.clone();
                place.spawn_waiting(&runtime, move || match number % 2 {
                    0 => sender.send(number).unwrap(),
                    _ => {
                        let mut value = Some(number);
                        select! {
                            send(&sender, &mut value) -> sent => sent.unwrap(),
                            after(HANG) => panic!("it waits for ever"),
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        assert!(receiver.iter().eq(0..bound + 6));
        senders.into_iter().for_each(|fiber| fiber.join().unwrap());
    }
}

/// Two cases of one choice come before it can run: the second is left as it was, and those behind it go on.
fn a_choice_that_is_over_holds_nobody_up(place: Place) {
    let runtime = place.runtime();
    let (first, firsts) = sync_channel(0);
    let (second, seconds) = sync_channel(0);
    let chosen = place.spawn_waiting(&runtime, {
        let second = second.clone();
        move || {
            let (mut one, mut two) = (Some(1), Some(2));
            select! {
                send(&first, &mut one) -> sent => sent.unwrap(),
                send(&second, &mut two) -> sent => sent.unwrap(),
            }
            (one, two)
        }
    });
    let behind = place.spawn_waiting(&runtime, move || second.send(3).unwrap());
    // On one worker the fiber that chooses cannot run in between; as a thread it may.
    let received = runtime.run(move || (firsts.try_recv(), seconds.try_recv(), seconds));
    assert_eq!((received.0, received.1), (Ok(1), Ok(3)));
    assert_eq!(chosen.join().unwrap(), (None, Some(2)));
    behind.join().unwrap();
    assert_eq!(received.2.try_recv(), Err(TryRecvError::Disconnected));
}

fn the_end_of_the_runtime_unwinds_those_who_choose(place: Place) {
    let runtime = place.runtime();
    let witness = Arc::new(());
    let (full, unread) = sync_channel(0);
    let (unsent, empty) = channel::<()>();
    let mut value = Some(Arc::clone(&witness));
    let choosing = place.spawn_waiting(&runtime, move || {
        select! {
            send(&full, &mut value) => {}
            recv(&empty) => {}
            after(HANG) => {}
        }
    });
    drop(runtime);
    assert!(is_cancelled(choosing));
    assert_eq!(unread.recv().err(), Some(RecvError));
    assert_eq!(unsent.send(()), Err(SendError(())));
    assert_eq!(Arc::strong_count(&witness), 1);
}

fn the_end_of_the_runtime_ends_loops_of_choices(place: Place) {
    let loops: [fn(SyncSender<u8>, Receiver<u8>); 3] = [
        |_sender, receiver| {
            loop {
                select! { recv(&receiver) => {} }
            }
        },
        |sender, receiver| {
            loop {
                select! {
                    recv(&receiver) => {}
                    default => {}
                }
                let _ = &sender;
            }
        },
        |sender, receiver| {
            loop {
                let mut value = Some(1);
                select! {
                    send(&sender, &mut value) => {}
                    recv(&receiver) => {}
                }
            }
        },
    ];
    for endless in loops {
        let runtime = place.runtime();
        let (fiber, _) = spawn_begun(&runtime, move || {
            let (sender, receiver) = sync_channel(1);
            endless(sender, receiver);
        });
        drop(runtime);
        assert!(is_cancelled(fiber));
    }
}

fn at_the_end_of_the_runtime_a_destructor_is_told(place: Place) {
    let runtime = place.runtime();
    let (outcome, outcomes) = native::channel();
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let (sender, receiver) = sync_channel(0);
            let mut value = Some(1);
            let sent = select! {
                send(&sender, &mut value) -> sent => sent.err(),
                recv(&receiver) => None,
            };
            let received = select! {
                recv(&receiver) -> received => received.err(),
                after(HANG) => None,
            };
            let waited = select! {
                recv(&receiver) => true,
                default(HANG) => false,
            };
            outcome.send((sent, received, waited)).unwrap();
        });
        park();
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    let told = (Some(SendError(1)), Some(RecvError), false);
    assert_eq!(outcomes.recv().unwrap(), told);
}

//! `select!` beside other fibers: the order in which events and fibers are served, and how a wait
//! ends: by another event, by cancellation, with the runtime. It leaves nothing behind.

use std::io::{Read, Write};
use std::sync::{Arc, mpsc as native};
use std::time::Duration;

use rustix::io::Errno;
use uthread::net::TcpStream;
use uthread::sync::mpsc::{
    Receiver, RecvError, SendError, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use uthread::thread::park;
use uthread::{select, shield};

use crate::fixtures::fiber_or_thread::{InDrop, assert_ends_with_runtime, is_cancelled};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{EVERYWHERE, IN_FIBERS, MORE_WORKERS, ON_ONE_WORKER, OUTSIDE, behaviours};
use crate::support::{HANG, SHORT, errno, pair};

behaviours![
    (
        EVERYWHERE,
        [
            all_that_have_come_get_their_turn,
            a_selection_leaves_nothing_behind
        ]
    ),
    (
        ON_ONE_WORKER,
        [a_fiber_that_never_waits_does_not_starve_its_neighbours]
    ),
    (
        &[OUTSIDE, MORE_WORKERS],
        [
            a_selection_meets_calls_that_do_not_wait,
            a_sender_that_chooses_keeps_its_place_in_the_line,
            a_selection_that_is_over_holds_up_no_other
        ]
    ),
    (
        IN_FIBERS,
        [
            cancelled_fibers_are_unwound_and_the_socket_stays_usable,
            the_end_of_the_runtime_unwinds_waiting_selects,
            the_end_of_the_runtime_ends_loops_of_selections,
            at_the_end_of_the_runtime_a_destructor_gets_an_error,
            a_selection_may_wait_in_a_destructor,
            a_shield_holds_off_cancellation_and_the_end_of_the_runtime
        ]
    ),
];

fn wait_for_either(socket: &TcpStream, silent: &Receiver<()>) {
    select! {
        readable(socket) -> ready => ready.unwrap(),
        recv(silent) => panic!("a message was received, but none was sent"),
    }
}

fn all_that_have_come_get_their_turn(place: Place) {
    place.run(|| {
        const ROUNDS: usize = 1000;
        let channels: Vec<_> = (0..3).map(|_| channel()).collect();
        for (sender, _) in &channels {
            (0..ROUNDS).for_each(|n| sender.send(n).unwrap());
        }
        let mut counts = [0; 3];
        for _ in 0..ROUNDS {
            select! {
                recv(&channels[0].1) => counts[0] += 1,
                recv(&channels[1].1) => counts[1] += 1,
                recv(&channels[2].1) => counts[2] += 1,
            }
        }
        assert!(counts.iter().all(|&count| count > ROUNDS / 5), "{counts:?}");
    });
}

fn a_selection_leaves_nothing_behind(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(0);
        select! {
            recv(&receiver) => panic!("a message was received, but none was sent"),
            default(SHORT) => {}
        }
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        let mut value = Some(2);
        select! {
            send(&sender, &mut value) => panic!("a message was sent, but there is no receiver"),
            after(SHORT) => {}
        }
        assert_eq!(value, Some(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        // A selection that has chosen another arm takes no value either.
        let (other, others) = channel();
        let (sending, unsent) = (&sender, &mut value);
        let select = move || {
            select! {
                send(sending, unsent) => panic!("a message was sent, but there is no receiver"),
                recv(&others) -> value => value,
            }
        };
        assert_eq!(place.meanwhile(select, || other.send(3).unwrap()), Ok(3));
        assert_eq!(value, Some(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        drop(sender);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    });
}

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (sender, receiver) = channel();
    one_worker_lets_others_run(place, move || {
        sender.send(1).unwrap();
        select! { recv(&receiver) -> value => assert_eq!(value, Ok(1)) }
    });
    let (_sender, receiver) = channel::<()>();
    one_worker_lets_others_run(place, move || {
        select! {
            recv(&receiver) => panic!("a message was received, but none was sent"),
            default => {}
        }
    });

    let (ours, mut peer) = pair();
    peer.write_all(b"x").unwrap();
    one_worker_lets_others_run(place, move || {
        select! { readable(&ours) -> ready => ready.unwrap() }
    });
    let (ours, _peer) = pair();
    one_worker_lets_others_run(place, move || {
        select! {
            readable(&ours) => panic!("the socket is readable, but nothing was written"),
            default => {}
        }
    });
}

fn a_selection_meets_calls_that_do_not_wait(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = sync_channel(0);
    let chosen = place.spawn_waiting(&runtime, {
        let sender = sender.clone();
        move || {
            let mut value = Some(1);
            select! {
                send(&sender, &mut value) -> sent => sent,
                after(HANG) => panic!("the message was not received"),
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
            recv(&silent) => panic!("a message was received, but none was sent"),
        }
    });
    assert_eq!(sender.try_send(2), Ok(()), "to the receiver that chooses");
    assert!(
        sender.try_send(3).is_err(),
        "the channel takes more than one"
    );
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
                            after(HANG) => panic!("the message was not received"),
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

/// Receives from both channels of a selection before it can run: the second arm is unchanged, and
/// the waiters after it go on.
fn a_selection_that_is_over_holds_up_no_other(place: Place) {
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

fn cancelled_fibers_are_unwound_and_the_socket_stays_usable(place: Place) {
    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let ours = Arc::new(ours);
    for round in 0..5_u8 {
        let theirs = Arc::clone(&ours);
        let (_sender, silent) = channel();
        let choosing = place.spawn_waiting(&runtime, move || wait_for_either(&theirs, &silent));
        choosing.cancel();
        assert!(is_cancelled(choosing));
        assert_eq!(Arc::strong_count(&ours), 1, "the fiber was not unwound");
        peer.write_all(&[round]).unwrap();
        let theirs = Arc::clone(&ours);
        let read = runtime.run(move || {
            let (_sender, silent) = channel();
            wait_for_either(&theirs, &silent);
            let mut byte = [0xff];
            (&*theirs).read_exact(&mut byte).map(|()| byte[0])
        });
        assert_eq!(read.unwrap(), round);
    }
}

fn the_end_of_the_runtime_unwinds_waiting_selects(place: Place) {
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

    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let (_sender, silent) = channel();
    let choosing = place.spawn_waiting(&runtime, move || wait_for_either(&ours, &silent));
    drop(runtime);
    assert!(is_cancelled(choosing));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the socket is not closed");
}

fn the_end_of_the_runtime_ends_loops_of_selections(place: Place) {
    type Ends = (SyncSender<u8>, Receiver<u8>, TcpStream);
    let loops: [fn(&Ends); 6] = [
        |(_, receiver, _)| select! { recv(receiver) => {} },
        |(_, receiver, _)| {
            select! {
                recv(receiver) => {}
                default => {}
            }
        },
        |(sender, receiver, _)| {
            let mut value = Some(1);
            select! {
                send(sender, &mut value) => {}
                recv(receiver) => {}
            }
        },
        |(.., ready)| select! { writable(ready) => {} },
        |(.., silent)| {
            select! {
                readable(silent) => {}
                default => {}
            }
        },
        |(.., silent)| {
            select! {
                readable(silent) => {}
                default(Duration::from_micros(1)) => {}
            }
        },
    ];
    for choose in loops {
        let (ours, _peer) = pair();
        assert_ends_with_runtime(place, move || {
            let (sender, receiver) = sync_channel(1);
            let ends = (sender, receiver, ours);
            loop {
                choose(&ends);
            }
        });
    }
}

fn at_the_end_of_the_runtime_a_destructor_gets_an_error(place: Place) {
    let runtime = place.runtime();
    let (outcome, outcomes) = native::channel();
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let (sender, receiver) = sync_channel(0);
            let (ours, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut value = Some(1);
            let sent = select! {
                send(&sender, &mut value) -> sent => sent.err(),
                recv(&receiver) => None,
            };
            let received = select! {
                recv(&receiver) -> received => received.err(),
                after(HANG) => None,
            };
            let refused = select! {
                readable(&ours) -> ready => ready,
                recv(&receiver) => Ok(()),
            };
            let waited = select! {
                recv(&receiver) => true,
                readable(&ours) => true,
                default(HANG) => false,
            };
            peer.write_all(b"x").unwrap();
            // The byte that has arrived is selected all the same.
            let ready = select! {
                readable(&ours) -> ready => ready.is_ok(),
                recv(&receiver) => false,
            };
            let refused = errno(refused);
            outcome
                .send((sent, received, refused, waited, ready))
                .unwrap();
        });
        park();
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    let expected = (
        Some(SendError(1)),
        Some(RecvError),
        Errno::CANCELED,
        false,
        true,
    );
    assert_eq!(outcomes.recv().unwrap(), expected);
}

fn a_selection_may_wait_in_a_destructor(place: Place) {
    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let (sender, receiver) = channel::<()>();
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            select! {
                readable(&ours) -> ready => ready.unwrap(),
                recv(&receiver) => panic!("a message was received, but none was sent"),
            }
        });
        panic!("the fiber waits as it unwinds");
    });
    peer.write_all(b"x").unwrap();
    let payload = fiber.join().unwrap_err();
    assert!(payload.is::<&str>());
    drop(sender);
}

fn a_shield_holds_off_cancellation_and_the_end_of_the_runtime(place: Place) {
    for ends in [false, true] {
        let runtime = place.runtime();
        let (ours, mut peer) = pair();
        let (sender, receiver) = channel();
        let shielded = place.spawn_waiting(&runtime, move || {
            shield(|| {
                let (_sender, silent) = channel();
                wait_for_either(&ours, &silent);
                (&ours).read_exact(&mut [0]).unwrap();
                // Begun after the end of the runtime has begun.
                select! {
                    readable(&ours) => panic!("the socket is readable, but nothing was written"),
                    recv(&receiver) -> value => value.unwrap(),
                }
            })
        });
        shielded.cancel();
        let dropping = std::thread::spawn(move || drop(ends.then_some(runtime)));
        std::thread::sleep(Duration::from_millis(5)); // Either order is right.
        peer.write_all(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(5)); // Here too.
        sender.send("kept").unwrap();
        assert_eq!(shielded.join().unwrap(), "kept");
        dropping.join().unwrap();
    }
}

//! Channels with several receivers, each value being received by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{Counted, Running, is_cancelled, mixed};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::{HANG, SHORT};
use uthread::select;
use uthread::sync::mpmc::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, channel, sync_channel,
};

behaviours![
    (
        EVERYWHERE,
        [
            every_value_is_received_once,
            each_receiver_keeps_each_senders_order,
            waiting_receivers_learn_that_the_last_sender_is_gone,
            waiting_senders_get_their_values_back_when_the_last_receiver_goes,
            a_receiver_that_gives_up_leaves_values_to_others,
            a_bound_is_kept,
            a_wait_ends_at_its_timeout,
            every_value_is_dropped_once,
            selections_meet_at_a_rendezvous,
            an_ended_selection_leaves_values_to_others,
            both_sides_see_what_the_channel_holds
        ]
    ),
    (
        ON_ONE_WORKER,
        [a_fiber_that_never_waits_does_not_starve_its_neighbours]
    ),
    (IN_FIBERS, [the_end_of_the_runtime_unwinds_waiters]),
];

fn both_sides_see_what_the_channel_holds(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(2);
        let held = || (sender.len(), receiver.is_empty(), sender.is_full());
        assert_eq!(held(), (0, true, false));
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        assert_eq!(held(), (2, false, true));
        assert_eq!(
            sender.send_deadline(3, Instant::now()),
            Err(SendTimeoutError::Timeout(3))
        );
        assert_eq!(receiver.recv_deadline(Instant::now()), Ok(1));
        assert_eq!(held(), (1, false, false));
        assert_eq!(receiver.capacity(), Some(2));

        // A sender that waits for a receiver has not sent its value.
        let (sender, receiver) = sync_channel(0);
        let other = sender.clone();
        let sent = place.meanwhile(
            move || other.send(1),
            || {
                assert!(sender.is_empty() && receiver.is_full());
                assert_eq!(receiver.recv(), Ok(1));
            },
        );
        assert_eq!(sent, Ok(()));
        let (endless, _) = channel::<u8>();
        assert!(endless.capacity().is_none() && endless.same_channel(&endless.clone()));
        assert!(!endless.same_channel(&channel().0));
    });
}

const BOUNDS: [usize; 4] = [0, 1, 3, usize::MAX];
const SENDERS: usize = 4;
const VALUES: usize = 100;

/// Receives to the end: alone, by iterators, or as an arm of a selection.
fn receive_all<T>(receiver: &Receiver<T>, how: usize) -> Vec<T> {
    let (_never, silent) = channel::<()>();
    let mut values = Vec::new();
    loop {
        let received = match how % 3 {
            0 => receiver.recv(),
            1 => match receiver.recv_timeout(HANG) {
                Err(RecvTimeoutError::Timeout) => panic!("a wake-up is lost"),
                received => received.map_err(|_| RecvError),
            },
            _ => select! {
                recv(&silent) => panic!("nothing was sent there"),
                recv(receiver) -> received => received,
            },
        };
        match received {
            Ok(value) => values.push(value),
            Err(RecvError) => return values,
        }
    }
}

/// Sends values with the number of the sender: alone, with a timeout, or as an arm of a selection.
fn send_all(sender: &Sender<(usize, usize)>, from: usize) {
    for number in 0..VALUES {
        match from % 3 {
            0 => sender.send((from, number)).unwrap(),
            1 => sender.send_timeout((from, number), HANG).unwrap(),
            _ => {
                let mut value = Some((from, number));
                select! { send(sender, &mut value) -> sent => sent.unwrap() }
            }
        }
    }
}

/// Passes `check` the values that each of six receivers gets from four senders.
fn pass(bound: usize, place: Place, check: impl Fn(Vec<Vec<(usize, usize)>>)) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = sync_channel(bound);
        let received: Vec<_> = (0..6)
            .map(|how| {
                let receiver = receiver.clone();
                receiving.start(move || receive_all(&receiver, how))
            })
            .collect();
        let senders: Vec<_> = (0..SENDERS)
            .map(|from| {
                let sender = sender.clone();
                sending.start(move || send_all(&sender, from))
            })
            .collect();
        drop((sender, receiver));
        senders.into_iter().for_each(Running::join);
        check(received.into_iter().map(Running::join).collect());
    });
}

fn every_value_is_received_once(place: Place) {
    for bound in BOUNDS {
        pass(bound, place, |received| {
            let mut values = received.concat();
            values.sort_unstable();
            let sent = (0..SENDERS).flat_map(|from| (0..VALUES).map(move |number| (from, number)));
            assert!(values.into_iter().eq(sent));
        });
    }
}

fn each_receiver_keeps_each_senders_order(place: Place) {
    for bound in BOUNDS {
        pass(bound, place, |received| {
            for values in received {
                for from in 0..SENDERS {
                    let own = values.iter().filter(|value| value.0 == from);
                    assert!(own.map(|value| value.1).is_sorted());
                }
            }
        });
    }
}

fn waiting_receivers_learn_that_the_last_sender_is_gone(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel::<i32>();
        let received = [0, 1, 2].map(|how| {
            let receiver = receiver.clone();
            receiving.start(move || receive_all(&receiver, how))
        });
        let another = sender.clone();
        sending.start(move || drop(sender)).join();
        sending.start(move || drop(another)).join();
        for received in received {
            assert_eq!(received.join(), []);
        }
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    });
}

fn waiting_senders_get_their_values_back_when_the_last_receiver_goes(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = sync_channel(0);
        let other = receiver.clone();
        let timed = sender.clone();
        let sent = sending.start(move || sender.send(1));
        let timed = sending.start(move || timed.send_timeout(2, HANG));
        receiving.start(move || drop(receiver)).join();
        receiving.start(move || drop(other)).join();
        assert_eq!(sent.join(), Err(SendError(1)));
        assert_eq!(timed.join(), Err(SendTimeoutError::Disconnected(2)));
    });
}

fn a_receiver_that_gives_up_leaves_values_to_others(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in BOUNDS {
            let (sender, receiver) = sync_channel(bound);
            let hasty = receiver.clone();
            let hasty = receiving.start(move || {
                let mut values = Vec::new();
                for _ in 0..20 {
                    values.extend(hasty.recv_timeout(Duration::from_micros(50)));
                    values.extend(hasty.try_recv());
                }
                values
            });
            let steady = receiving.start(move || receive_all(&receiver, 0));
            let sent = sending.start(move || (0..VALUES).for_each(|n| sender.send(n).unwrap()));
            sent.join();
            let mut values = [hasty.join(), steady.join()].concat();
            values.sort_unstable();
            assert!(values.into_iter().eq(0..VALUES), "with bound {bound}");
        }
    });
}

fn a_bound_is_kept(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(2);
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Ok(()));
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        let late = Err(SendTimeoutError::Timeout(3));
        assert_eq!(sender.send_timeout(3, Duration::ZERO), late);
        let other = receiver.clone();
        assert_eq!(other.try_recv(), Ok(1));
        assert_eq!(sender.try_send(3), Ok(()));
        drop(other);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 3]);
        drop(receiver);
        assert_eq!(sender.try_send(4), Err(TrySendError::Disconnected(4)));
        let (sender, receiver) = sync_channel(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

fn a_wait_ends_at_its_timeout(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(0);
        let start = Instant::now();
        let late = Err(RecvTimeoutError::Timeout);
        assert_eq!(receiver.recv_timeout(SHORT), late);
        assert!(start.elapsed() >= SHORT);
        let late = Err(SendTimeoutError::Timeout(1));
        assert_eq!(sender.send_timeout(1, SHORT), late);
        assert!(start.elapsed() >= 2 * SHORT);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    });
}

fn every_value_is_dropped_once(place: Place) {
    place.run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel();
        let other = receiver.clone();
        for _ in 0..5 {
            assert!(sender.send(Counted(Arc::clone(&drops))).is_ok());
        }
        drop(receiver.recv());
        drop(receiver);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        drop(other);
        assert_eq!(drops.load(Ordering::Relaxed), 5);
        assert!(sender.send(Counted(Arc::clone(&drops))).is_err());
        assert_eq!(drops.load(Ordering::Relaxed), 6);
    });
}

/// Checks that each side, which sends or receives as it comes, never meets itself.
fn selections_meet_at_a_rendezvous(place: Place) {
    mixed(place, |one, other| {
        let (sender, receiver) = sync_channel(0);
        let has_met = Arc::new(AtomicBool::new(false));
        let sides = [one, other, one, other].map(|side| {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            let has_met = Arc::clone(&has_met);
            side.start(move || {
                let mut sent = 0;
                let mut received = 0;
                let mut rounds = 0;
                // Those that begin late meet too.
                while rounds < 30 || !has_met.load(Ordering::Relaxed) {
                    rounds += 1;
                    let mut value = Some(());
                    select! {
                        recv(&receiver) -> value => {
                            value.unwrap();
                            received += 1;
                        }
                        send(&sender, &mut value) -> done => {
                            done.unwrap();
                            sent += 1;
                            has_met.store(true, Ordering::Relaxed);
                        }
                        default(SHORT) => {}
                    }
                }
                (sent, received)
            })
        });
        let counts = sides.map(Running::join);
        let sent: i32 = counts.iter().map(|count| count.0).sum();
        let received: i32 = counts.iter().map(|count| count.1).sum();
        assert_eq!(sent, received);
    });
}

/// Ends a selection by another arm just as a value is put for which another receiver waits.
fn an_ended_selection_leaves_values_to_others(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 1, usize::MAX] {
            for _ in 0..30 {
                let (sender, receiver) = sync_channel(bound);
                let (stop, stopped) = channel::<()>();
                let choosing = receiver.clone();
                let choosing = receiving.start(move || {
                    select! {
                        recv(&choosing) -> value => value.ok(),
                        recv(&stopped) => None,
                    }
                });
                let waiting = receiving.start(move || receiver.recv());
                let sent = sending.start(move || {
                    drop(stop);
                    sender.send(7)
                });
                assert_eq!(sent.join(), Ok(()));
                match choosing.join() {
                    Some(value) => {
                        assert_eq!(value, 7);
                        assert_eq!(waiting.join(), Err(RecvError));
                    }
                    None => assert_eq!(waiting.join(), Ok(7)),
                }
            }
        }
    });
}

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (sender, receiver) = channel();
    one_worker_lets_others_run(place, || assert_eq!(sender.send(1), Ok(())));
    one_worker_lets_others_run(place, || {
        let _ = receiver.try_recv();
    });
    one_worker_lets_others_run(place, || {
        let _ = receiver.recv_timeout(Duration::ZERO);
    });
    let (sender, _receiver) = sync_channel(0);
    one_worker_lets_others_run(place, || {
        assert!(sender.send_timeout(1, Duration::ZERO).is_err())
    });
}

fn the_end_of_the_runtime_unwinds_waiters(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = sync_channel::<i32>(0);
    let (timed, choosing, kept) = (receiver.clone(), receiver.clone(), receiver.clone());
    let waiting = place.spawn_waiting(&runtime, move || receiver.recv().is_ok());
    let timed = place.spawn_waiting(&runtime, move || timed.recv_timeout(HANG));
    let choosing = place.spawn_waiting(&runtime, move || {
        select! { recv(&choosing) -> value => value.is_ok() }
    });
    drop(runtime);
    assert!(is_cancelled(waiting));
    assert!(is_cancelled(choosing));
    assert_eq!(timed.join().unwrap(), Err(RecvTimeoutError::Timeout));
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    let runtime = place.runtime();
    let other = sender.clone();
    let sending = place.spawn_waiting(&runtime, move || sender.send(1));
    let timed = place.spawn_waiting(&runtime, move || other.send_timeout(2, HANG));
    drop(runtime);
    assert!(is_cancelled(sending));
    let late = Err(SendTimeoutError::Timeout(2));
    assert_eq!(timed.join().unwrap(), late);
    assert_eq!(kept.try_recv(), Err(TryRecvError::Disconnected));
}

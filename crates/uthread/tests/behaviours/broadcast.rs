//! Channels whose receivers each get every value.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::fixtures::fiber_or_thread::{Counted, Running, is_cancelled, mixed};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::{HANG, SHORT};
use uthread::select;
use uthread::sync::broadcast::{
    Receiver, RecvError, RecvTimeoutError, SendError, TryRecvError, channel,
};

behaviours![
    (
        EVERYWHERE,
        [
            every_receiver_gets_every_value,
            many_senders_keep_their_order,
            a_slow_receiver_learns_how_much_it_has_missed,
            a_waiting_receiver_learns_that_the_last_sender_is_gone,
            without_receivers_the_value_comes_back,
            a_subscriber_receives_values_sent_after_it_subscribed,
            a_wait_ends_at_its_timeout,
            a_value_is_dropped_with_its_last_receiver,
            a_clone_may_use_the_channel,
            a_value_can_be_selected,
            a_capacity_of_zero_panics
        ]
    ),
    (
        ON_ONE_WORKER,
        [a_fiber_that_never_waits_does_not_starve_its_neighbours]
    ),
    (IN_FIBERS, [the_end_of_the_runtime_unwinds_waiters]),
];

fn receive_all<T: Clone>(mut receiver: Receiver<T>) -> Vec<T> {
    let mut values = Vec::new();
    loop {
        match receiver.recv() {
            Ok(value) => values.push(value),
            Err(RecvError::Closed) => return values,
            Err(RecvError::Lagged(missed)) => panic!("{missed} values are lost"),
        }
    }
}

fn every_receiver_gets_every_value(place: Place) {
    const VALUES: usize = 200;
    const RECEIVERS: usize = 5;
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel(VALUES);
        let others = (1..RECEIVERS).map(|_| sender.subscribe());
        let receivers: Vec<_> = others.chain([receiver]).collect();
        let received: Vec<_> = receivers
            .into_iter()
            .map(|receiver| receiving.start(move || receive_all(receiver)))
            .collect();
        let sent = sending.start(move || {
            for number in 0..VALUES {
                assert_eq!(sender.send(number), Ok(RECEIVERS));
            }
        });
        sent.join();
        for received in received {
            assert!(received.join().into_iter().eq(0..VALUES));
        }
    });
}

fn many_senders_keep_their_order(place: Place) {
    const SENDERS: usize = 4;
    const VALUES_EACH: usize = 50;
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel(SENDERS * VALUES_EACH);
        let other = sender.subscribe();
        let received =
            [receiver, other].map(|receiver| receiving.start(move || receive_all(receiver)));
        let senders: Vec<_> = (0..SENDERS)
            .map(|from| {
                let sender = sender.clone();
                sending.start(move || (0..VALUES_EACH).all(|n| sender.send((from, n)).is_ok()))
            })
            .collect();
        drop(sender);
        assert!(senders.into_iter().all(Running::join));
        let [first, second] = received.map(Running::join);
        assert_eq!(first, second, "the receivers see different orders");
        for from in 0..SENDERS {
            let own = first.iter().filter(|value| value.0 == from);
            assert!(own.map(|value| value.1).eq(0..VALUES_EACH));
        }
    });
}

fn a_slow_receiver_learns_how_much_it_has_missed(place: Place) {
    place.run(|| {
        let (sender, mut slow) = channel(3);
        let mut quick = sender.subscribe();
        for number in 0..10 {
            sender.send(number).unwrap();
            assert_eq!(quick.try_recv(), Ok(number));
        }
        assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(7)));
        assert_eq!(slow.recv(), Ok(7));
        assert!((10..15).all(|n| sender.send(n).is_ok()));
        assert_eq!(slow.recv(), Err(RecvError::Lagged(4)));
        assert_eq!(quick.recv_timeout(SHORT), Err(RecvTimeoutError::Lagged(2)));
        drop(sender);
        assert_eq!(receive_all(slow), [12, 13, 14]);
        assert_eq!(receive_all(quick), [12, 13, 14]);
    });
}

fn a_waiting_receiver_learns_that_the_last_sender_is_gone(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel::<i32>(1);
        let mut other = sender.subscribe();
        let received = [
            receiving.start(move || receiver.recv()),
            receiving.start(move || other.recv_timeout(HANG).map_err(|_| RecvError::Closed)),
        ];
        let another = sender.clone();
        sending.start(move || drop(sender)).join();
        sending.start(move || drop(another)).join();
        for received in received {
            assert_eq!(received.join(), Err(RecvError::Closed));
        }
    });
}

fn without_receivers_the_value_comes_back(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel(1);
        sender.send(1).unwrap();
        drop(receiver);
        assert_eq!(sender.receiver_count(), 0);
        assert_eq!(sender.send(2), Err(SendError(2)));
        let mut late = sender.subscribe();
        assert_eq!(sender.send(3), Ok(1));
        assert_eq!(late.recv(), Ok(3));
    });
}

fn a_subscriber_receives_values_sent_after_it_subscribed(place: Place) {
    place.run(|| {
        let (sender, mut first) = channel(10);
        sender.send(1).unwrap();
        let mut second = sender.subscribe();
        assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
        sender.send(2).unwrap();
        assert_eq!(second.try_recv(), Ok(2));
        drop(second);
        sender.send(3).unwrap();
        drop(sender);
        assert_eq!(first.try_recv(), Ok(1));
        assert_eq!(receive_all(first), [2, 3]);
    });
}

fn a_wait_ends_at_its_timeout(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel(1);
        let receiver = receiving.start(move || {
            let start = Instant::now();
            assert_eq!(receiver.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            assert!(start.elapsed() >= SHORT);
            receiver
        });
        let mut receiver = receiver.join();
        let received = receiving.start(move || receiver.recv_timeout(HANG));
        sending.start(move || sender.send(1).unwrap()).join();
        assert_eq!(received.join(), Ok(1));
    });
}

/// Covers both reasons why no receiver needs a value any more: all have received it or have been
/// dropped.
fn a_value_is_dropped_with_its_last_receiver(place: Place) {
    place.run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let dropped = || drops.load(Ordering::Relaxed);
        let (sender, mut first) = channel(3);
        let second = sender.subscribe();
        for _ in 0..3 {
            let value = Arc::new(Counted(Arc::clone(&drops)));
            assert!(sender.send(value).is_ok());
        }
        drop(first.recv());
        assert_eq!(dropped(), 0);
        drop(second);
        assert_eq!(dropped(), 1);
        drop(first.recv());
        assert_eq!(dropped(), 2);
        let value = Arc::new(Counted(Arc::clone(&drops)));
        assert!(sender.send(value).is_ok());
        assert_eq!(
            dropped(),
            2,
            "a value was dropped, though the channel has room for both"
        );
        drop(first);
        assert_eq!(dropped(), 4);
    });
}

/// Catches a lock that is held while a value is cloned or dropped.
fn a_clone_may_use_the_channel(place: Place) {
    struct Sends(uthread::sync::broadcast::Sender<Option<Sends>>);
    impl Clone for Sends {
        fn clone(&self) -> Sends {
            assert!(self.0.send(None).is_ok());
            Sends(self.0.clone())
        }
    }
    impl Drop for Sends {
        fn drop(&mut self) {
            drop(self.0.send(None));
        }
    }
    place.run(|| {
        let (sender, mut receiver) = channel(1);
        let _other = sender.subscribe();
        assert!(sender.send(Some(Sends(sender.clone()))).is_ok());
        assert!(matches!(receiver.recv(), Ok(Some(_))));
        assert!(receiver.recv().is_err());
        assert!(matches!(receiver.recv(), Ok(None)));
    });
}

fn a_value_can_be_selected(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel(8);
        let (other, mut silent) = channel::<i32>(8);
        select! {
            recv(&mut receiver) => panic!("nothing was sent"),
            recv(&mut silent) => panic!("nothing was sent"),
            default(SHORT) => {}
        }
        let received = receiving.start(move || {
            let mut sum = 0;
            loop {
                select! {
                    recv(&mut silent) => panic!("nothing was sent there"),
                    recv(&mut receiver) -> value => match value {
                        Ok(value) => sum += value,
                        Err(end) => return (sum, end),
                    }
                }
            }
        });
        sending
            .start(move || assert!((1..=8).all(|n| sender.send(n).is_ok())))
            .join();
        assert_eq!(received.join(), ((1..=8).sum(), RecvError::Closed));
        drop(other);
    });
}

fn a_capacity_of_zero_panics(place: Place) {
    place.run(|| {
        assert!(std::panic::catch_unwind(|| drop(channel::<i32>(0))).is_err());
    });
}

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (sender, _receiver) = channel(1);
    one_worker_lets_others_run(place, move || assert_eq!(sender.send(1), Ok(1)));
    let (_sender, receiver) = channel::<i32>(1);
    let receiver = std::sync::Mutex::new(receiver);
    one_worker_lets_others_run(place, move || {
        assert_eq!(
            receiver.lock().unwrap().try_recv(),
            Err(TryRecvError::Empty)
        )
    });
}

fn the_end_of_the_runtime_unwinds_waiters(place: Place) {
    let runtime = place.runtime();
    let (sender, mut receiver) = channel::<()>(1);
    let mut other = sender.subscribe();
    let waiting = place.spawn_waiting(&runtime, move || receiver.recv().is_ok());
    let timed = place.spawn_waiting(&runtime, move || other.recv_timeout(HANG));
    drop(runtime);
    assert!(is_cancelled(waiting));
    // A wait with a timeout returns its own error early, and is not unwound.
    assert_eq!(timed.join().unwrap(), Err(RecvTimeoutError::Timeout));
    assert_eq!(sender.send(()), Err(SendError(())));
}

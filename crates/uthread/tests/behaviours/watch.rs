//! Channels that keep only the latest value.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use crate::fixtures::fiber_or_thread::{Counted, InDrop, Running, is_cancelled, mixed};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::{HANG, SHORT};
use uthread::sync::watch::{RecvError, SendError, Sender, channel};
use uthread::thread::park;
use uthread::{select, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            every_receiver_sees_the_last_value,
            values_never_go_back,
            a_change_is_seen_once_by_each_receiver,
            the_end_comes_after_the_last_value,
            a_waiting_receiver_learns_that_the_last_sender_is_gone,
            without_receivers_the_value_comes_back,
            no_modification_is_lost,
            a_panic_in_a_modification_changes_nothing,
            a_snapshot_stays_as_it_was,
            a_wait_ends_at_its_timeout,
            a_destructor_of_an_old_value_may_send,
            a_change_can_be_selected
        ]
    ),
    (
        ON_ONE_WORKER,
        [a_fiber_that_never_waits_does_not_starve_its_neighbours]
    ),
    (
        IN_FIBERS,
        [
            the_end_of_the_runtime_unwinds_waiters,
            at_the_end_of_the_runtime_a_destructor_finds_it_closed
        ]
    ),
];

fn every_receiver_sees_the_last_value(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, first) = channel(0);
        let mut receivers = vec![first.clone(), first, sender.subscribe()];
        receivers.push(receivers[0].clone());
        let seen: Vec<_> = receivers
            .into_iter()
            .map(|mut receiver| {
                receiving.start(move || {
                    while *receiver.changed().unwrap() < 200 {}
                    receiver.changed()
                })
            })
            .collect();
        let sent = sending.start(move || (1..=200).for_each(|n| sender.send(n).unwrap()));
        sent.join();
        for seen in seen {
            assert_eq!(seen.join(), Err(RecvError));
        }
    });
}

fn values_never_go_back(place: Place) {
    const SENDERS: usize = 3;
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel([0; SENDERS]);
        let seen = [(); 3].map(|()| {
            let mut receiver = receiver.clone();
            receiving.start(move || {
                let mut last = [0; SENDERS];
                while let Ok(counts) = receiver.changed() {
                    assert!(last.iter().zip(&*counts).all(|(last, count)| last <= count));
                    assert_ne!(last, *counts, "a change is seen once");
                    last = *counts;
                }
                last
            })
        });
        let senders: Vec<_> = (0..SENDERS)
            .map(|from| {
                let sender = sender.clone();
                sending.start(move || {
                    (0..50).for_each(|_| sender.send_modify(|counts| counts[from] += 1))
                })
            })
            .collect();
        drop(sender);
        senders.into_iter().for_each(Running::join);
        for seen in seen {
            assert_eq!(seen.join(), [50; SENDERS]);
        }
    });
}

fn a_change_is_seen_once_by_each_receiver(place: Place) {
    place.run(|| {
        let (sender, mut first) = channel(0);
        let mut second = first.clone();
        assert_eq!(first.has_changed(), Ok(false));
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        let mut third = second.clone();
        let fourth = sender.subscribe();
        assert_eq!(
            fourth.has_changed(),
            Ok(false),
            "a new receiver has not seen the value"
        );
        assert_eq!(*first.borrow(), 2);
        assert_eq!(
            first.has_changed(),
            Ok(true),
            "a look has marked the value as seen"
        );
        assert_eq!(first.changed().as_deref(), Ok(&2));
        assert_eq!(first.has_changed(), Ok(false));
        assert_eq!(*second.borrow_and_update(), 2);
        assert_eq!(second.has_changed(), Ok(false));
        assert_eq!(
            third.changed().as_deref(),
            Ok(&2),
            "the value was seen before"
        );
        sender.send(2).unwrap();
        assert_eq!(first.has_changed(), Ok(true), "also if it is equal");
    });
}

fn the_end_comes_after_the_last_value(place: Place) {
    place.run(|| {
        let (sender, mut receiver) = channel(0);
        sender.send(1).unwrap();
        drop(sender);
        assert_eq!(receiver.has_changed(), Ok(true));
        assert_eq!(receiver.changed().as_deref(), Ok(&1));
        assert_eq!(receiver.has_changed(), Err(RecvError));
        assert_eq!(receiver.changed(), Err(RecvError));
        let end = Err(RecvTimeoutError::Disconnected);
        assert_eq!(receiver.changed_timeout(HANG), end);
        assert_eq!(*receiver.borrow(), 1);
        assert_eq!(*receiver.borrow_and_update(), 1);
    });
}

fn a_waiting_receiver_learns_that_the_last_sender_is_gone(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel(0);
        let mut timed = receiver.clone();
        let waiting = receiving.start(move || receiver.changed());
        let timed = receiving.start(move || timed.changed_timeout(HANG));
        let another = sender.clone();
        sending.start(move || drop(sender)).join();
        sending.start(move || drop(another)).join();
        assert_eq!(waiting.join(), Err(RecvError));
        assert_eq!(timed.join(), Err(RecvTimeoutError::Disconnected));
    });
}

fn without_receivers_the_value_comes_back(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel(0);
        let other = receiver.clone();
        drop(receiver);
        assert_eq!(sender.receiver_count(), 1);
        assert_eq!(sender.send(1), Ok(()));
        drop(other);
        assert_eq!(sender.receiver_count(), 0);
        assert_eq!(sender.send(2), Err(SendError(2)));
        assert_eq!(*sender.borrow(), 1);
        assert_eq!(*sender.send_replace(3), 1);
        sender.send_modify(|value| *value += 1);
        assert_eq!(*sender.subscribe().borrow(), 4);
    });
}

/// Makes modifications that wait, beside values that are sent.
fn no_modification_is_lost(place: Place) {
    mixed(place, |sending, other| {
        let (sender, receiver) = channel((0, 0));
        let started = [sending, other, sending].map(|side| {
            let sender = sender.clone();
            side.start(move || {
                for _ in 0..30 {
                    sender.send_modify(|value| {
                        value.0 += 1;
                        yield_now();
                        value.1 += 1;
                    });
                }
            })
        });
        started.into_iter().for_each(Running::join);
        assert_eq!(*receiver.borrow(), (90, 90));
        let modifier = sender.clone();
        let (begun, begin) = std::sync::mpsc::channel();
        let modified = sending.start(move || {
            modifier.send_modify(|value| {
                begun.send(()).unwrap();
                yield_now();
                value.0 = 1;
            });
        });
        let replaced = other.start(move || sender.send((7, 7)));
        begin.recv().unwrap();
        modified.join();
        assert_eq!(replaced.join(), Ok(()));
        assert!([(7, 7), (1, 7)].contains(&*receiver.borrow()));
    });
}

fn a_panic_in_a_modification_changes_nothing(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel(1);
        let failed = panic::catch_unwind(AssertUnwindSafe(|| {
            sender.send_modify(|value| {
                *value = 2;
                panic!("in a modification");
            });
        }));
        assert!(failed.is_err());
        assert_eq!(receiver.has_changed(), Ok(false));
        assert_eq!(*receiver.borrow(), 1);
        sender.send_modify(|value| *value += 2);
        sender.send(*receiver.borrow() + 1).unwrap();
        assert_eq!(*receiver.borrow(), 4);
    });
}

fn a_snapshot_stays_as_it_was(place: Place) {
    place.run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let dropped = || drops.load(Ordering::Relaxed);
        let value = || Arc::new(Counted(Arc::clone(&drops)));
        let (sender, receiver) = channel(value());
        let first = receiver.borrow();
        assert!(sender.send(value()).is_ok());
        assert_eq!(dropped(), 0, "the first is held");
        drop(first);
        assert_eq!(dropped(), 1);
        assert!(sender.send(value()).is_ok());
        assert_eq!(dropped(), 2, "the second value is held");
        drop(sender);
        drop(receiver);
        assert_eq!(dropped(), 3);
    });
}

fn a_wait_ends_at_its_timeout(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel(0);
        let receiver = receiving.start(move || {
            let start = Instant::now();
            let late = Err(RecvTimeoutError::Timeout);
            assert_eq!(receiver.changed_timeout(SHORT), late);
            assert!(start.elapsed() >= SHORT);
            receiver
        });
        let mut receiver = receiver.join();
        let seen = receiving.start(move || receiver.changed_timeout(HANG));
        sending.start(move || sender.send(1).unwrap()).join();
        assert_eq!(seen.join().as_deref(), Ok(&1));
    });
}

fn a_destructor_of_an_old_value_may_send(place: Place) {
    struct Sends(Option<Sender<Sends>>);
    impl Clone for Sends {
        fn clone(&self) -> Sends {
            Sends(self.0.clone())
        }
    }
    impl Drop for Sends {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                sender.send_replace(Sends(None));
            }
        }
    }
    place.run(|| {
        let (sender, receiver) = channel(Sends(None));
        let sends = || Sends(Some(sender.clone()));
        assert!(sender.send(sends()).is_ok());
        assert!(sender.send(Sends(None)).is_ok());
        assert!(sender.send(sends()).is_ok());
        drop(sender.send_replace(Sends(None)));
        assert!(sender.send(sends()).is_ok());
        sender.send_modify(|value| value.0 = None);
        assert!(receiver.borrow().0.is_none());
    });
}

fn a_change_can_be_selected(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel(0);
        let (other, mut silent) = channel(0);
        select! {
            changed(&mut receiver) => panic!("nothing was sent"),
            changed(&mut silent) => panic!("nothing was sent"),
            default(SHORT) => {}
        }
        let seen = receiving.start(move || {
            let mut last = 0;
            loop {
                select! {
                    changed(&mut silent) => panic!("nothing was sent there"),
                    changed(&mut receiver) -> value => match value {
                        Ok(value) => last = *value,
                        Err(end) => return (last, end),
                    }
                }
            }
        });
        let sent = sending.start(move || (1..=50).for_each(|n| sender.send(n).unwrap()));
        sent.join();
        assert_eq!(seen.join(), (50, RecvError));
        drop(other);
    });
}

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (sender, receiver) = channel(0);
    one_worker_lets_others_run(place, || assert_eq!(sender.send(1), Ok(())));
    one_worker_lets_others_run(place, || drop(sender.borrow()));
    one_worker_lets_others_run(place, || drop(receiver.borrow()));
    one_worker_lets_others_run(place, || assert_eq!(receiver.has_changed(), Ok(true)));
}

fn the_end_of_the_runtime_unwinds_waiters(place: Place) {
    let runtime = place.runtime();
    let (sender, mut receiver) = channel(0);
    let (mut timed, mut choosing) = (receiver.clone(), receiver.clone());
    let waiting = place.spawn_waiting(&runtime, move || receiver.changed().is_ok());
    let timed = place.spawn_waiting(&runtime, move || timed.changed_timeout(HANG));
    let choosing = place.spawn_waiting(&runtime, move || {
        select! { changed(&mut choosing) -> value => value.is_ok() }
    });
    drop(runtime);
    assert!(is_cancelled(waiting));
    assert!(is_cancelled(choosing));
    assert_eq!(timed.join().unwrap(), Err(RecvTimeoutError::Timeout));
    assert_eq!(sender.receiver_count(), 0);
}

fn at_the_end_of_the_runtime_a_destructor_finds_it_closed(place: Place) {
    let runtime = place.runtime();
    let outcome = Arc::new(AtomicUsize::new(0));
    let ended = Arc::clone(&outcome);
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let (sender, mut receiver) = channel(0);
            assert_eq!(receiver.changed(), Err(RecvError));
            sender.send(1).unwrap();
            assert_eq!(receiver.changed().as_deref(), Ok(&1));
            ended.store(1, Ordering::Relaxed);
        });
        park();
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    assert_eq!(outcome.load(Ordering::Relaxed), 1);
}

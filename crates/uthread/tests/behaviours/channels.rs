//! Channels, with a fiber or a thread at either end.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as native};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{Counted, Running, mixed};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{HANG, eventually};
use uthread::sync::mpsc::{
    RecvError, RecvTimeoutError, SendError, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
use uthread::yield_now;

behaviours![(
    EVERYWHERE,
    [
        values_arrive_in_order_and_then_the_end,
        many_senders_lose_nothing_and_keep_their_order,
        a_round_trip_goes_on_between_all_sides,
        a_waiting_receiver_learns_that_the_last_sender_is_gone,
        waiting_senders_get_their_values_back_when_the_receiver_goes,
        messages_left_are_received_before_the_end,
        a_bound_is_kept,
        a_receiver_may_move_between_fibers_and_threads,
        every_value_is_dropped_once,
        a_receiver_that_panics_disconnects,
        a_destructor_may_use_the_channel_that_drops_it,
        a_large_bound_takes_no_memory_by_itself,
        the_ends_have_the_traits_of_the_standard_library,
        an_unpark_ends_no_wait_for_a_value,
        a_wait_with_a_timeout_ends_with_the_value_the_end_or_the_time,
        a_timeout_of_nothing_takes_what_is_there
    ]
)];

fn values_arrive_in_order_and_then_the_end(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 1, 3, 1000, usize::MAX] {
            let (sender, receiver) = sync_channel(bound);
            let received = receiving.start(move || receiver.iter().collect::<Vec<_>>());
            let sent = sending.start(move || (0..500).for_each(|n| sender.send(n).unwrap()));
            sent.join();
            assert_eq!(received.join(), (0..500).collect::<Vec<_>>());
        }
        let (sender, receiver) = channel();
        let received = receiving.start(move || receiver.into_iter().collect::<Vec<_>>());
        let sent = sending.start(move || (0..500).for_each(|n| sender.send(n).unwrap()));
        sent.join();
        assert_eq!(received.join(), (0..500).collect::<Vec<_>>());
    });
}

fn many_senders_lose_nothing_and_keep_their_order(place: Place) {
    const SENDERS: usize = 8;
    const VALUES: usize = 300;
    mixed(place, |sending, receiving| {
        for bound in [0, 1, 3, usize::MAX] {
            let (sender, receiver) = sync_channel(bound);
            let received = receiving.start(move || {
                let mut next = [0; SENDERS];
                for (from, value) in &receiver {
                    assert_eq!(value, next[from], "of sender {from}");
                    next[from] += 1;
                }
                next
            });
            let senders: Vec<_> = (0..SENDERS)
                .map(|from| {
                    let sender = sender.clone();
                    sending.start(move || (0..VALUES).for_each(|n| sender.send((from, n)).unwrap()))
                })
                .collect();
            drop(sender);
            senders.into_iter().for_each(Running::join);
            assert_eq!(received.join(), [VALUES; SENDERS]);
        }
    });
}

fn a_round_trip_goes_on_between_all_sides(place: Place) {
    mixed(place, |here, there| {
        for bound in [0, 1] {
            let (there_sender, there_receiver) = sync_channel::<u32>(bound);
            let (back_sender, back_receiver) = sync_channel(bound);
            let echo = there.start(move || {
                for value in there_receiver {
                    back_sender.send(value + 1).unwrap();
                }
            });
            let calls = here.start(move || {
                (0..300).fold(0, |value, _| {
                    there_sender.send(value).unwrap();
                    back_receiver.recv().unwrap()
                })
            });
            assert_eq!(calls.join(), 300);
            echo.join();
        }
    });
}

fn a_waiting_receiver_learns_that_the_last_sender_is_gone(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 1, usize::MAX] {
            let (sender, receiver) = sync_channel::<()>(bound);
            let received = receiving.start(move || receiver.recv());
            let other = sender.clone();
            sending.start(move || drop(sender)).join();
            sending.start(move || drop(other)).join();
            assert_eq!(received.join(), Err(RecvError));
        }
    });
}

fn waiting_senders_get_their_values_back_when_the_receiver_goes(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 2] {
            let (sender, receiver) = sync_channel(bound);
            (0..bound).for_each(|n| sender.send(n).unwrap());
            let senders: Vec<_> = (10..14)
                .map(|value| {
                    let sender = sender.clone();
                    sending.start(move || sender.send(value))
                })
                .collect();
            receiving.start(move || drop(receiver)).join();
            for (sent, value) in senders.into_iter().zip(10..) {
                assert_eq!(sent.join(), Err(SendError(value)));
            }
            assert_eq!(sender.send(20), Err(SendError(20)));
            assert_eq!(sender.try_send(21), Err(TrySendError::Disconnected(21)));
        }
    });
}

fn messages_left_are_received_before_the_end(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(2);
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        drop(sender);
        assert_eq!(receiver.recv(), Ok(1));
        assert_eq!(receiver.try_recv(), Ok(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.try_iter().next(), None);
        assert_eq!(receiver.iter().next(), None);
    });
}

fn a_bound_is_kept(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(3);
        let filled = (0..10).take_while(|&n| sender.try_send(n).is_ok()).count();
        assert_eq!(filled, 3);
        assert_eq!(receiver.recv(), Ok(0));
        assert_eq!(sender.try_send(3), Ok(()));
        assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    });
}

/// Catches a channel that still wakes the first waiter.
fn a_receiver_may_move_between_fibers_and_threads(place: Place) {
    mixed(place, |here, there| {
        let (sender, mut receiver) = sync_channel(0);
        for round in 0..20 {
            let sender = sender.clone();
            let (from, to) = match round % 2 {
                0 => (here, there),
                _ => (there, here),
            };
            let sent = from.start(move || sender.send(round).unwrap());
            let received = to.start(move || (receiver.recv(), receiver));
            sent.join();
            let (value, back) = received.join();
            assert_eq!(value, Ok(round));
            receiver = back;
        }
    });
}

fn every_value_is_dropped_once(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 1, 4, usize::MAX] {
            let drops = Arc::new(AtomicUsize::new(0));
            let (sender, receiver) = sync_channel(bound);
            let senders: Vec<_> = (0..4)
                .map(|_| {
                    let (sender, drops) = (sender.clone(), Arc::clone(&drops));
                    // Senders that come too late get their values back.
                    sending.start(move || {
                        (0..25).for_each(|_| drop(sender.send(Counted(Arc::clone(&drops)))));
                    })
                })
                .collect();
            let received = receiving.start(move || receiver.iter().take(30).count());
            assert_eq!(received.join(), 30);
            senders.into_iter().for_each(Running::join);
            assert_eq!(drops.load(Ordering::Relaxed), 100);
            drop(sender);
            assert_eq!(Arc::strong_count(&drops), 1);
        }
    });
}

fn a_receiver_that_panics_disconnects(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = sync_channel(0);
        let received = receiving.start(move || {
            let unwound = panic::catch_unwind(AssertUnwindSafe(move || {
                receiver.recv().unwrap();
                panic::resume_unwind(Box::new("on purpose"));
            }));
            unwound.is_err()
        });
        let sent = sending.start(move || (0..).take_while(|&n| sender.send(n).is_ok()).count());
        assert!(received.join());
        assert_eq!(sent.join(), 1);
    });
}

/// Catches a lock that is held while the destructor of a value waits or uses the channel.
fn a_destructor_may_use_the_channel_that_drops_it(place: Place) {
    struct Sends(SyncSender<Option<Sends>>);
    impl Drop for Sends {
        fn drop(&mut self) {
            yield_now();
            assert!(self.0.send(None).is_err());
        }
    }
    place.run(|| {
        let (sender, receiver) = sync_channel(4);
        for _ in 0..3 {
            let value = Some(Sends(sender.clone()));
            assert!(sender.send(value).is_ok());
        }
        drop(receiver);
    });
}

fn a_large_bound_takes_no_memory_by_itself(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(usize::MAX);
        sender.send([7_u8; 4096]).unwrap();
        assert_eq!(receiver.recv(), Ok([7; 4096]));
        // Bursts beyond what an empty channel keeps room for.
        for _ in 0..3 {
            (0..5_000_usize).for_each(|n| sender.send([n as u8; 4096]).unwrap());
            let received = receiver.try_iter().map(|value| value[0]);
            assert!(received.eq((0..5_000_usize).map(|n| n as u8)));
        }
    });
}

/// Checks the traits that programs rely on: they send the ends across threads, use them across
/// unwinding, and print them.
fn the_ends_have_the_traits_of_the_standard_library(place: Place) {
    place.run(|| {
        fn sender<T: Send + Sync + panic::UnwindSafe + panic::RefUnwindSafe + std::fmt::Debug>(
            _: &T,
        ) {
        }
        fn receiver<T: Send + panic::UnwindSafe + panic::RefUnwindSafe + std::fmt::Debug>(_: &T) {}
        let (unbounded, all) = channel::<Box<dyn FnOnce() + Send>>();
        let (bounded, some) = sync_channel::<Box<dyn FnOnce() + Send>>(1);
        sender(&unbounded);
        sender(&bounded);
        receiver(&all);
        receiver(&some);
        assert_eq!(format!("{unbounded:?}"), "Sender { .. }");
        assert_eq!(format!("{bounded:?}"), "SyncSender { .. }");
        assert_eq!(format!("{all:?}"), "Receiver { .. }");
        // The errors are the same types.
        let error: native::TryRecvError = all.try_recv().map(drop).unwrap_err();
        assert_eq!(error, native::TryRecvError::Empty);
    });
}

/// Catches a receiver that takes an `unpark`, which is for the caller's own `park`, for a message.
fn an_unpark_ends_no_wait_for_a_value(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(0);
        let (names, named) = channel();
        let received = std::thread::spawn(move || {
            names.send(uthread::current()).unwrap();
            receiver.recv()
        });
        let waiting = named.recv().unwrap();
        (0..100).for_each(|_| waiting.unpark());
        sender.send(7).unwrap();
        eventually("received", || received.is_finished());
        assert_eq!(received.join().unwrap(), Ok(7));
    });
}

fn a_wait_with_a_timeout_ends_with_the_value_the_end_or_the_time(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 1] {
            let (sender, receiver) = sync_channel(bound);
            let received = receiving.start(move || {
                let start = Instant::now();
                let soon = Duration::from_millis(3);
                assert_eq!(receiver.recv_timeout(soon), Err(RecvTimeoutError::Timeout));
                assert!(start.elapsed() >= soon);
                receiver
            });
            let receiver = received.join();
            // Nobody waits any more, so a rendezvous has nobody to hand it to.
            assert_eq!(sender.try_send(1).is_ok(), bound > 0);

            let sent = sending.start(move || (2..5).for_each(|n| sender.send(n).unwrap()));
            let first = 2 - bound;
            let received = receiving.start(move || {
                let values = (first..5).map(|_| receiver.recv_timeout(HANG).unwrap());
                assert!(values.eq(first..5));
                let end = receiver.recv_timeout(Duration::MAX);
                assert_eq!(end, Err(RecvTimeoutError::Disconnected));
            });
            sent.join();
            received.join();
        }
    });
}

fn a_timeout_of_nothing_takes_what_is_there(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(1);
        let now = Duration::ZERO;
        assert_eq!(receiver.recv_timeout(now), Err(RecvTimeoutError::Timeout));
        sender.send(1).unwrap();
        assert_eq!(receiver.recv_timeout(now), Ok(1));
        drop(sender);
        let end = receiver.recv_timeout(now);
        assert_eq!(end, Err(RecvTimeoutError::Disconnected));
    });
}

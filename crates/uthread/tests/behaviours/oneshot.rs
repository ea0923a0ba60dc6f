//! Channels for one value, with a fiber or a thread at either end.

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{Counted, InDrop, is_cancelled, mixed};
use crate::harness::child::child;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{HANG, SHORT};
use uthread::select;
use uthread::sync::mpsc;
use uthread::sync::oneshot::{
    Receiver, RecvError, RecvTimeoutError, SendError, Sender, TryRecvError, channel,
};
use uthread::thread::park;

behaviours![
    (
        EVERYWHERE,
        [
            the_value_arrives,
            a_waiting_receiver_learns_that_the_sender_is_gone,
            a_sender_learns_that_the_receiver_is_gone,
            values_sent_in_time_are_received,
            timeouts_give_the_receiver_back,
            a_receiver_may_give_up_and_wait_elsewhere,
            every_value_is_dropped_once,
            a_panic_of_a_dropped_value_passes_through_as_with_mpsc,
            a_second_panic_ends_the_process,
            the_value_can_be_selected,
            the_ends_have_the_traits_of_the_standard_library
        ]
    ),
    (
        IN_FIBERS,
        [
            the_end_of_the_runtime_unwinds_waiters,
            at_the_end_of_the_runtime_a_destructor_finds_the_sender_gone
        ]
    ),
];

fn the_value_arrives(place: Place) {
    mixed(place, |sending, receiving| {
        for number in 0..50 {
            let (sender, receiver) = channel();
            let received = receiving.start(move || receiver.recv());
            sending.start(move || sender.send(number).unwrap()).join();
            assert_eq!(received.join(), Ok(number));
            // Before anybody waits.
            let (sender, receiver) = channel();
            sending.start(move || sender.send(number).unwrap()).join();
            assert_eq!(receiving.start(move || receiver.recv()).join(), Ok(number));
        }
    });
}

fn a_waiting_receiver_learns_that_the_sender_is_gone(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel::<i32>();
        let received = receiving.start(move || receiver.recv());
        sending.start(move || drop(sender)).join();
        assert_eq!(received.join(), Err(RecvError));
        let (sender, receiver) = channel::<i32>();
        let received = receiving.start(move || receiver.recv_timeout(HANG));
        sending.start(move || drop(sender)).join();
        assert!(matches!(
            received.join(),
            Err(RecvTimeoutError::Disconnected)
        ));
    });
}

fn a_sender_learns_that_the_receiver_is_gone(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel();
        receiving.start(move || drop(receiver)).join();
        let sent = sending.start(move || sender.send(Box::new(1)));
        assert_eq!(sent.join(), Err(SendError(Box::new(1))));
    });
}

fn values_sent_in_time_are_received(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, receiver) = channel();
        let received = receiving.start(move || receiver.recv_timeout(HANG).unwrap());
        sending.start(move || sender.send(1).unwrap()).join();
        assert_eq!(received.join(), 1);
        let (sender, receiver) = channel();
        sender.send(2).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::ZERO).unwrap(), 2);
    });
}

/// Receives by trying, and by waiting for too short a time.
fn give_up(receiver: Receiver<i32>) -> Receiver<i32> {
    let Err(TryRecvError::Empty(receiver)) = receiver.try_recv() else {
        panic!("nothing was sent")
    };
    let start = Instant::now();
    let Err(RecvTimeoutError::Timeout(receiver)) = receiver.recv_timeout(SHORT) else {
        panic!("nothing was sent")
    };
    assert!(start.elapsed() >= SHORT);
    receiver
}

fn timeouts_give_the_receiver_back(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel();
        let receiver = give_up(receiver);
        sender.send(1).unwrap();
        assert_eq!(receiver.try_recv().unwrap(), 1);
        let (sender, receiver) = channel();
        let receiver = give_up(receiver);
        drop(sender);
        assert!(matches!(
            receiver.try_recv(),
            Err(TryRecvError::Disconnected)
        ));
    });
}

/// Catches a sender that still wakes the first waiter.
fn a_receiver_may_give_up_and_wait_elsewhere(place: Place) {
    mixed(place, |here, there| {
        let (sender, receiver) = channel();
        let receiver = here.start(move || give_up(receiver)).join();
        let received = there.start(move || receiver.recv());
        here.start(move || sender.send(7).unwrap()).join();
        assert_eq!(received.join(), Ok(7));
    });
}

fn every_value_is_dropped_once(place: Place) {
    mixed(place, |sending, receiving| {
        let drops = Arc::new(AtomicUsize::new(0));
        let ends = || {
            let (sender, receiver) = channel();
            (sender, receiver, Counted(Arc::clone(&drops)))
        };
        for round in 1..=20 {
            let (sender, receiver, value) = ends();
            let sent = sending.start(move || drop(sender.send(value)));
            receiving.start(move || drop(receiver)).join();
            sent.join();
            assert_eq!(drops.load(Ordering::Relaxed), 2 * round - 1);
            let (sender, receiver, value) = ends();
            let received = receiving.start(move || drop(receiver.recv()));
            sending.start(move || drop(sender.send(value))).join();
            received.join();
            assert_eq!(drops.load(Ordering::Relaxed), 2 * round);
        }
    });
}

/// Panics when it is dropped, also during another panic, and notes that.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("bomb"));
    }
}

fn sent_by_oneshot(bomb: Bomb) -> impl Send {
    let (sender, receiver) = channel();
    assert!(sender.send(bomb).is_ok());
    receiver
}

fn sent_by_mpsc(bomb: Bomb) -> impl Send {
    let (sender, receiver) = mpsc::channel();
    assert!(sender.send(bomb).is_ok());
    receiver
}

fn a_panic_of_a_dropped_value_passes_through_as_with_mpsc(place: Place) {
    fn check<R>(send: impl Fn(Bomb) -> R) {
        let drops = Arc::new(AtomicUsize::new(0));
        let receiver = send(Bomb(Arc::clone(&drops)));
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(receiver)));
        assert_eq!(dropped.unwrap_err().downcast_ref(), Some(&"bomb"));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert_eq!(Arc::strong_count(&drops), 1);
    }
    place.run(|| {
        check(sent_by_mpsc);
        check(sent_by_oneshot);
    });
}

/// Runs in a process of its own, which aborts.
fn a_second_panic_ends_the_process(place: Place) {
    let Some(output) = child() else {
        place.run(|| {
            let _receiver = sent_by_oneshot(Bomb(Arc::default()));
            resume_unwind(Box::new("first"));
        });
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{errors}");
    assert!(
        errors.contains("in a destructor during cleanup"),
        "{errors}"
    );
}

fn the_value_can_be_selected(place: Place) {
    mixed(place, |sending, receiving| {
        let (sender, mut receiver) = channel();
        let (other, mut silent) = channel::<i32>();
        select! {
            recv(&mut receiver) => panic!("nothing was sent"),
            recv(&mut silent) => panic!("nothing was sent"),
            default(SHORT) => {}
        }
        let received = receiving.start(move || {
            let value = select! {
                recv(&mut receiver) -> value => value,
                recv(&mut silent) => panic!("nothing was sent there"),
            };
            // The value was taken, and no other follows.
            select! { recv(&mut receiver) -> again => assert_eq!(again, Err(RecvError)) }
            (value, silent)
        });
        sending.start(move || sender.send(5).unwrap()).join();
        let (value, mut silent) = received.join();
        assert_eq!(value, Ok(5));
        let received = receiving.start(move || {
            select! {
                recv(&mut silent) -> nothing => nothing,
                after(HANG) => panic!("the receiver does not notice the end of the sender"),
            }
        });
        sending.start(move || drop(other)).join();
        assert_eq!(received.join(), Err(RecvError));
    });
}

fn the_ends_have_the_traits_of_the_standard_library(place: Place) {
    use std::fmt::Debug;
    use std::panic::{RefUnwindSafe, UnwindSafe};
    fn check<T: Send + Sync + UnwindSafe + RefUnwindSafe + Debug>(_: &T) {}
    place.run(|| {
        let (sender, receiver): (Sender<Box<dyn Fn() + Send>>, _) = channel();
        check(&sender);
        check(&receiver);
        assert_eq!(
            format!("{sender:?} {receiver:?}"),
            "Sender { .. } Receiver { .. }"
        );
        let empty = receiver.try_recv().err().unwrap();
        assert_eq!(format!("{empty:?}"), "Empty(..)");
        assert_eq!(empty.to_string(), "receiving on an empty channel");
    });
}

fn the_end_of_the_runtime_unwinds_waiters(place: Place) {
    let runtime = place.runtime();
    let (_sender, receiver) = channel::<()>();
    let (_other, timed) = channel::<()>();
    let waiting = place.spawn_waiting(&runtime, move || receiver.recv().is_ok());
    let timed = place.spawn_waiting(&runtime, move || timed.recv_timeout(HANG));
    drop(runtime);
    assert!(is_cancelled(waiting));
    // A wait with a timeout returns its own error early, and is not unwound.
    let timed = timed.join().unwrap();
    assert!(matches!(timed, Err(RecvTimeoutError::Timeout(_))));
}

fn at_the_end_of_the_runtime_a_destructor_finds_the_sender_gone(place: Place) {
    let runtime = place.runtime();
    let (outcome, outcomes) = channel();
    let mut outcome = Some(outcome);
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let (_sender, receiver) = channel::<()>();
            let (_other, timed) = channel::<()>();
            let received = (receiver.recv(), timed.recv_timeout(HANG).is_err());
            outcome.take().unwrap().send(received).unwrap();
        });
        park();
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    assert_eq!(outcomes.recv(), Ok((Err(RecvError), true)));
}

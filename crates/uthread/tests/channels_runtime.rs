//! Channels in a runtime: what becomes of its other fibers beside one that never waits, and what of those
//! that wait when it ends.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as native};

use common::{Kind, LONG, let_all_wait, runtime};
use uthread::sync::mpsc::{
    Receiver, RecvError, RecvTimeoutError, SendError, SyncSender, TryRecvError, TrySendError,
    channel, sync_channel,
};
use uthread::thread::{Cancelled, park};
use uthread::{JoinHandle, spawn};

/// Calls its function when it is dropped.
struct InDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for InDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs fibers of one worker that never have to wait, until another fiber has run.
fn assert_neighbour_runs(calls: impl Fn() + Send) {
    let neighbour = Arc::new(AtomicBool::new(false));
    let ran = Arc::clone(&neighbour);
    runtime(1).run(move || {
        spawn(move || ran.store(true, Ordering::Relaxed));
        let mut rounds = 0;
        while !neighbour.load(Ordering::Relaxed) {
            calls();
            rounds += 1;
            assert!(rounds < 10_000, "the neighbour starves");
        }
    });
}

#[test]
fn a_fiber_that_never_waits_does_not_starve_its_neighbours() {
    let (sender, receiver) = channel();
    assert_neighbour_runs(move || {
        sender.send(1).unwrap();
        receiver.recv().unwrap();
    });
    let (sender, receiver) = sync_channel(1);
    assert_neighbour_runs(move || {
        sender.send(1).unwrap();
        receiver.recv().unwrap();
    });
    let (sender, receiver) = channel();
    assert_neighbour_runs(move || sender.send(1).unwrap());
    drop(receiver);
    let (_sender, receiver) = channel::<()>();
    assert_neighbour_runs(move || assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty)));
    let (sender, _receiver) = sync_channel(0);
    assert_neighbour_runs(move || assert_eq!(sender.try_send(1), Err(TrySendError::Full(1))));
    // Nor does one that makes a channel for each value.
    assert_neighbour_runs(|| {
        let (sender, receiver) = channel();
        sender.send(1).unwrap();
        receiver.recv().unwrap();
    });
}

fn is_cancelled<T>(fiber: JoinHandle<T>) -> bool {
    fiber.join().is_err_and(|payload| payload.is::<Cancelled>())
}

#[test]
fn the_end_of_the_runtime_unwinds_those_who_wait() {
    for kind in Kind::ALL {
        let runtime = kind.runtime();
        let witness = Arc::new(());
        let (full, unread) = sync_channel(0);
        let (unsent, empty) = channel::<()>();
        let value = Arc::clone(&witness);
        let sending = runtime.spawn(move || full.send(value).map_err(drop));
        let receiving = runtime.spawn(move || empty.recv());
        let_all_wait(&runtime);
        drop(runtime);
        assert!(is_cancelled(sending));
        assert!(is_cancelled(receiving));
        // Both ends outside learn of it, and the value is not delivered any more.
        assert_eq!(unread.recv().err(), Some(RecvError));
        assert_eq!(unsent.send(()), Err(SendError(())));
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}

#[test]
fn the_end_of_the_runtime_ends_loops_of_calls() {
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
                let _ = receiver.recv_timeout(LONG);
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
        let runtime = runtime(1);
        let fiber = runtime.spawn(move || {
            let (sender, receiver) = sync_channel(1);
            endless(sender, receiver);
        });
        let_all_wait(&runtime);
        drop(runtime);
        assert!(is_cancelled(fiber));
    }
}

#[test]
fn at_the_end_of_the_runtime_a_destructor_finds_the_other_side_gone() {
    let runtime = runtime(1);
    let (outcome, outcomes) = native::channel();
    let (sender, receiver) = sync_channel(1);
    let fiber = runtime.spawn({
        let sender = sender.clone();
        move || {
            let _in_drop = InDrop(|| {
                // There is room for one: it is received below.
                let sent = [sender.send(1), sender.send(2)];
                let (_unused, empty) = channel::<()>();
                let late = empty.recv_timeout(LONG);
                outcome.send((sent, empty.recv(), late)).unwrap();
            });
            park();
        }
    });
    let_all_wait(&runtime);
    drop(runtime);
    assert!(is_cancelled(fiber));
    let (sent, received, late) = outcomes.recv().unwrap();
    assert_eq!(sent, [Ok(()), Err(SendError(2))]);
    assert_eq!(received, Err(RecvError));
    assert_eq!(late, Err(RecvTimeoutError::Disconnected));
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_thread_that_waits_learns_of_the_end_of_a_runtime() {
    let runtime = runtime(1);
    let (sender, receiver) = sync_channel::<u8>(0);
    let fiber = runtime.spawn(move || {
        let _sender = sender;
        park();
    });
    let_all_wait(&runtime);
    let waiting = std::thread::spawn(move || receiver.recv());
    drop(runtime);
    assert!(is_cancelled(fiber));
    assert_eq!(waiting.join().unwrap(), Err(RecvError));
}

//! Fibers that their runtime abandons while they wait for another fiber: what they wait for goes to
//! those who still live, also while a fiber that never ends keeps their worker from them.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::fixtures::fiber_or_thread::is_cancelled;
use crate::harness::place::Place;
use crate::harness::{ON_WORKERS, OUTSIDE, OWN_THREAD, THREADS, behaviours};
use crate::support::{HOUR, eventually};
use uthread::runtime::{FiberInfo, FiberState, Shutdown};
use uthread::sync::{Barrier, Condvar, Mutex, Once, RwLock, Semaphore};
use uthread::sync::{mpmc, mpsc, oneshot, watch};
use uthread::{JoinHandle, Runtime, select, shield, yield_now};

behaviours![
    (
        ON_WORKERS,
        [
            a_message_goes_to_a_receiver_that_lives,
            a_message_of_a_selection_goes_to_a_receiver_that_lives,
            a_message_is_not_received_by_the_only_receiver,
            a_message_in_line_is_not_sent,
            permits_go_to_a_waiter_that_lives,
            permits_are_granted_behind_a_waiter_for_many,
            a_lock_goes_to_a_waiter_that_lives,
            a_notification_goes_to_a_waiter_that_lives,
        ]
    ),
    (
        // No fiber keeps the worker where fibers have thread-local storage of their own.
        &[OUTSIDE, THREADS, OWN_THREAD],
        [
            the_others_wait_at_a_barrier_and_for_a_call,
            a_grant_that_was_not_noticed_is_returned,
            a_semaphore_is_closed_beside_its_waiters
        ]
    )
];

/// A runtime whose fibers wait while another one keeps their worker until it is told to end.
struct Busy {
    runtime: Runtime,
    waiting: Vec<JoinHandle<()>>,
    ends: Arc<AtomicBool>,
    resumed: Arc<AtomicUsize>,
}

impl Busy {
    fn new(place: Place) -> Busy {
        Busy {
            runtime: place.runtime_of(1),
            waiting: Vec::new(),
            ends: Arc::default(),
            resumed: Arc::default(),
        }
    }

    /// Starts a fiber that waits in `wait`, from which it is never to return.
    fn wait_in<T>(mut self, wait: impl FnOnce() -> T + Send + 'static) -> Busy {
        let resumed = Arc::clone(&self.resumed);
        let begun = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&begun);
        self.waiting.push(self.runtime.spawn(move || {
            theirs.store(true, Ordering::Relaxed);
            wait();
            resumed.fetch_add(1, Ordering::Relaxed);
        }));
        eventually("the fiber begins", || begun.load(Ordering::Relaxed));
        self
    }

    /// Abandons the fibers, calls `action` while none of them can run, and lets them run.
    fn abandon_before(self, action: impl FnOnce()) {
        self.abandon_between(|| (), action);
    }

    /// Calls `before` and abandons the fibers before they can run, calls `action`, and lets them
    /// run.
    fn abandon_between(self, before: impl FnOnce(), action: impl FnOnce()) {
        let (begun, ends) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self.ends));
        let theirs = Arc::clone(&begun);
        // Begins when the others have suspended.
        let computing = self.runtime.spawn(move || {
            theirs.store(true, Ordering::Relaxed);
            while !ends.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        });
        eventually("the worker is kept", || begun.load(Ordering::Relaxed));
        before();
        self.runtime.shutdown(Shutdown::Abandon);
        action();
        self.ends.store(true, Ordering::Relaxed);
        computing.join().unwrap();
        assert!(self.waiting.into_iter().all(is_cancelled));
        assert_eq!(self.resumed.load(Ordering::Relaxed), 0, "one has gone on");
    }
}

fn a_message_goes_to_a_receiver_that_lives(place: Place) {
    let (sender, receiver) = mpmc::channel();
    let (theirs, within) = (receiver.clone(), receiver.clone());
    let busy = Busy::new(place)
        .wait_in(move || theirs.recv())
        .wait_in(move || within.recv_timeout(HOUR));
    let ours = receiver.clone();
    busy.abandon_before(move || {
        let living = place.runtime();
        let received = living.spawn(move || ours.recv());
        // It waits behind those that are abandoned.
        let waits = |fiber: &FiberInfo| fiber.state == FiberState::Parked;
        eventually("it waits", || living.fibers().unwrap().iter().any(waits));
        sender.send(1).unwrap();
        assert_eq!(received.join().unwrap(), Ok(1));
        sender.send(2).unwrap();
    });
    assert_eq!(receiver.try_recv(), Ok(2));
}

fn a_message_of_a_selection_goes_to_a_receiver_that_lives(place: Place) {
    let (sender, receiver) = mpmc::sync_channel(0);
    let theirs = receiver.clone();
    let busy = Busy::new(place).wait_in(move || {
        select! {
            recv(&theirs) => (),
            after(HOUR) => (),
        }
    });
    busy.abandon_before(|| {
        assert!(sender.try_send(1).is_err(), "a receiver is left");
        let living = place.runtime();
        let received = living.spawn(move || receiver.recv());
        sender.send(2).unwrap();
        assert_eq!(received.join().unwrap(), Ok(2));
    });
}

fn a_message_is_not_received_by_the_only_receiver(place: Place) {
    let (sender, receiver) = mpsc::channel();
    let (sender_within, receiver_within) = mpsc::channel();
    let (one, once) = oneshot::channel();
    let (seen, mut watched) = watch::channel(0);
    let busy = Busy::new(place)
        .wait_in(move || receiver.recv())
        .wait_in(move || receiver_within.recv_timeout(HOUR))
        .wait_in(move || once.recv())
        .wait_in(move || watched.changed());
    busy.abandon_before(|| {
        // The last senders stay.
        let _ = sender.send(1);
        let _ = sender_within.send(2);
        let _ = one.send(3);
        seen.send_replace(4);
        std::mem::forget((sender, sender_within, seen));
    });
}

fn a_message_in_line_is_not_sent(place: Place) {
    let (sender, receiver) = mpmc::sync_channel(0);
    let (theirs, within, selecting) = (sender.clone(), sender.clone(), sender.clone());
    let busy = Busy::new(place)
        .wait_in(move || theirs.send(1))
        .wait_in(move || within.send_timeout(2, HOUR))
        .wait_in(move || {
            let mut value = Some(3);
            select! {
                send(&selecting, &mut value) => (),
                after(HOUR) => (),
            }
        });
    busy.abandon_before(|| {
        assert!(receiver.try_recv().is_err(), "there is no sender");
        let living = place.runtime();
        let sent = living.spawn(move || sender.send(4));
        assert_eq!(receiver.recv(), Ok(4));
        assert_eq!(sent.join().unwrap(), Ok(()));
    });
}

fn permits_go_to_a_waiter_that_lives(place: Place) {
    let semaphore = Arc::new(Semaphore::new(0));
    let [plain, within, shielded] = [(); 3].map(|()| Arc::clone(&semaphore));
    let busy = Busy::new(place)
        .wait_in(move || drop(plain.acquire().unwrap()))
        .wait_in(move || drop(within.acquire_timeout(HOUR)))
        .wait_in(move || shield(|| drop(shielded.acquire().unwrap())));
    let ours = Arc::clone(&semaphore);
    busy.abandon_before(move || {
        let living = place.runtime();
        let acquired = living.spawn(move || ours.acquire().unwrap().forget());
        semaphore.add_permits(1);
        acquired.join().unwrap();
        semaphore.add_permits(1);
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire().is_ok());
    });
}

/// Closes a semaphore before and after its waiters are abandoned. Catches permits that a waiter
/// returns and never had.
fn a_semaphore_is_closed_beside_its_waiters(place: Place) {
    let close: fn(&Semaphore) = Semaphore::close;
    let nothing: fn(&Semaphore) = |_| ();
    for (before, after) in [(close, nothing), (nothing, close)] {
        let semaphore = Arc::new(Semaphore::new(0));
        let [plain, shielded] = [(); 2].map(|()| Arc::clone(&semaphore));
        Busy::new(place)
            .wait_in(move || drop(plain.acquire()))
            .wait_in(move || shield(|| drop(shielded.acquire())))
            .abandon_between(|| before(&semaphore), || after(&semaphore));
        assert!(semaphore.is_closed());
        assert_eq!(semaphore.available_permits(), 0);
    }
}

/// Waits behind a fiber that is abandoned, and for which the free permits do not suffice.
fn permits_are_granted_behind_a_waiter_for_many(place: Place) {
    let semaphore = Arc::new(Semaphore::new(2));
    let theirs = Arc::clone(&semaphore);
    let busy = Busy::new(place).wait_in(move || drop(theirs.acquire_many(3).unwrap()));
    busy.abandon_before(|| {
        place
            .runtime()
            .run(|| drop(semaphore.acquire_many(2).unwrap()));
        assert_eq!(semaphore.available_permits(), 2);
    });
    assert_eq!(semaphore.available_permits(), 2);
}

fn a_lock_goes_to_a_waiter_that_lives(place: Place) {
    let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
    let held = (locks.0.lock().unwrap(), locks.1.write().unwrap());
    let [one, two, three] = [(); 3].map(|()| Arc::clone(&locks));
    let busy = Busy::new(place)
        .wait_in(move || drop(one.0.lock()))
        .wait_in(move || drop(two.1.read()))
        .wait_in(move || drop(three.1.write()));
    busy.abandon_before(|| {
        drop(held);
        place.runtime().run(|| {
            drop(locks.0.lock().unwrap());
            drop(locks.1.read().unwrap());
            drop(locks.1.write().unwrap());
        });
    });
    assert!(locks.0.try_lock().is_ok());
    assert!(locks.1.try_write().is_ok());
}

fn a_notification_goes_to_a_waiter_that_lives(place: Place) {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let theirs = Arc::clone(&shared);
    let busy = Busy::new(place).wait_in(move || {
        let guard = theirs.0.lock().unwrap();
        drop(theirs.1.wait(guard));
    });
    busy.abandon_before(|| {
        let living = place.runtime();
        let waits = Arc::new(AtomicBool::new(false));
        let (ours, waiting) = (Arc::clone(&shared), Arc::clone(&waits));
        let notified = living.spawn(move || {
            let guard = ours.0.lock().unwrap();
            waiting.store(true, Ordering::Relaxed);
            drop(ours.1.wait(guard));
        });
        eventually("it holds the lock", || waits.load(Ordering::Relaxed));
        // The lock is free once the fiber waits.
        drop(shared.0.lock().unwrap());
        shared.1.notify_one();
        notified.join().unwrap();
    });
    assert!(shared.0.try_lock().is_ok());
}

fn the_others_wait_at_a_barrier_and_for_a_call(place: Place) {
    let barrier = Arc::new(Barrier::new(2));
    let theirs = Arc::clone(&barrier);
    let once = Arc::new(Once::new());
    let called = Arc::clone(&once);
    let busy = Busy::new(place)
        .wait_in(move || theirs.wait())
        .wait_in(move || called.wait());
    busy.abandon_before(|| {
        // The other one has arrived before it was abandoned.
        assert!(place.runtime().run(|| barrier.wait().is_leader()));
        once.call_once(yield_now);
    });
    let both = Arc::clone(&barrier);
    let living = place.runtime();
    let other = living.spawn(move || both.wait().is_leader());
    let leads = living.run(|| barrier.wait().is_leader());
    assert_ne!(other.join().unwrap(), leads);
}

/// Grants a lock, a permit, a notification and a message to fibers that are abandoned before they
/// notice.
fn a_grant_that_was_not_noticed_is_returned(place: Place) {
    let locks = Arc::new((Mutex::new(0), RwLock::new(0), Semaphore::new(0)));
    let waiting = Arc::new((Mutex::new(false), Condvar::new()));
    let (sender, receiver) = mpmc::channel();
    let held = (locks.0.lock().unwrap(), locks.1.write().unwrap());
    let [one, two, three, four] = [(); 4].map(|()| Arc::clone(&locks));
    let (notified, received) = (Arc::clone(&waiting), receiver.clone());
    let busy = Busy::new(place)
        .wait_in(move || drop(one.0.lock()))
        .wait_in(move || drop(two.1.read()))
        .wait_in(move || drop(three.2.acquire().unwrap()))
        .wait_in(move || shield(|| drop(four.2.acquire().unwrap())))
        .wait_in(move || drop(notified.1.wait(notified.0.lock().unwrap())))
        .wait_in(move || received.recv());
    let living = place.runtime();
    let waits = Arc::new(AtomicBool::new(false));
    let (begun, last) = (Arc::clone(&waits), Arc::clone(&waiting));
    let grant = || {
        drop(held);
        locks.2.add_permits(2);
        // Behind the other one.
        let notified = living.spawn(move || {
            let guard = last.0.lock().unwrap();
            begun.store(true, Ordering::Relaxed);
            drop(last.1.wait(guard));
        });
        eventually("the fiber holds the lock", || waits.load(Ordering::Relaxed));
        drop(waiting.0.lock().unwrap());
        waiting.1.notify_one();
        sender.send(1).unwrap();
        drop(notified);
    };
    busy.abandon_between(grant, || ());
    assert!(locks.0.try_lock().is_ok());
    assert!(locks.1.try_write().is_ok());
    assert_eq!(locks.2.available_permits(), 2);
    assert_eq!(receiver.try_recv(), Ok(1));
    // Ends once the notification was passed on.
    living.shutdown(Shutdown::Join);
}

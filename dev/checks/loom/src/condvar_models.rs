//! Waiters and notifiers of a condition variable. A lost notification is a deadlock here, which
//! loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle, Thread};

use crate::check;
use crate::fiber::keep_wakes;
use crate::sched::caller::{self, Ending};
use crate::sync::lock::Lock;
use crate::sync::notices::Notices;
use crate::sync::parking_lot::WaitEnd;

/// Bound for two threads, which are explored in full.
const PREEMPTIONS_MAX_OF_TWO: Option<usize> = None;
/// Three threads: some seconds.
const PREEMPTIONS_MAX_OF_THREE: usize = 3;

/// A number of tokens under a lock.
struct Store {
    lock: Lock,
    tokens: AtomicUsize,
    notices: Notices,
}

impl Store {
    fn new() -> Arc<Store> {
        Arc::new(Store {
            lock: Lock::new(AtomicU32::new(0)),
            tokens: AtomicUsize::new(0),
            notices: Notices::new(AtomicBool::new(false)),
        })
    }

    fn put(&self, count: usize) {
        self.lock.write();
        // Relaxed, also below: the lock orders it.
        self.tokens.fetch_add(count, Ordering::Relaxed);
        self.lock.unlock_write();
    }

    /// Waits for a token and takes it; false if there is none when time is over, or if it is
    /// cancelled, when it takes nothing any more.
    fn take(&self, has_deadline: bool) -> bool {
        let deadline = has_deadline.then(caller::deadline);
        self.lock.write();
        let mut ended = WaitEnd::Dequeued;
        while self.tokens.load(Ordering::Relaxed) == 0 && ended == WaitEnd::Dequeued {
            ended = self.notices.wait(&self.lock, deadline);
        }
        let taken = ended != WaitEnd::Cancelled && self.tokens.load(Ordering::Relaxed) > 0;
        if taken {
            self.tokens.fetch_sub(1, Ordering::Relaxed);
        }
        self.lock.unlock_write();
        taken
    }
}

fn taking(store: &Arc<Store>) -> JoinHandle<bool> {
    let store = Arc::clone(store);
    thread::spawn(move || {
        keep_wakes();
        store.take(false)
    })
}

/// Catches a notification that is lost between the look at the condition and the wait.
#[test]
fn a_waiter_sees_the_condition() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        keep_wakes();
        let store = Store::new();
        let taker = taking(&store);
        store.put(1);
        store.notices.notify(1);
        assert!(taker.join().unwrap());
    });
}

/// Catches a notification of all that misses one of two, and a second single notification that
/// finds nobody noted as waiting.
#[test]
fn each_waiter_is_notified() {
    let ways: [fn(&Store); 2] = [
        |store| {
            store.put(2);
            store.notices.notify(usize::MAX);
        },
        |store| {
            for _ in 0..2 {
                store.put(1);
                store.notices.notify(1);
            }
        },
    ];
    for way in ways {
        check(PREEMPTIONS_MAX_OF_THREE, move || {
            keep_wakes();
            let store = Store::new();
            let takers = [taking(&store), taking(&store)];
            way(&store);
            for taker in takers {
                assert!(taker.join().unwrap());
            }
        });
    }
}

/// Lets one of two give up, because of `end`, just when a single notification comes. Catches a
/// notification that is lost on it while the other one waits beside a token.
fn check_notification_beside_an_end(end: fn(&Ending, &Thread)) {
    check(PREEMPTIONS_MAX_OF_THREE, move || {
        keep_wakes();
        let store = Store::new();
        let ending = Ending::keeping_wakes();
        let leaver = {
            let (store, ending) = (Arc::clone(&store), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                store.take(true)
            })
        };
        let taker = taking(&store);
        end(&ending, leaver.thread());
        store.put(1);
        store.notices.notify(1);
        if leaver.join().unwrap() {
            store.put(1);
            store.notices.notify(1);
        }
        assert!(taker.join().unwrap());
    });
}

#[test]
fn a_cancelled_waiter_loses_no_notification() {
    check_notification_beside_an_end(Ending::shut_down);
}

#[test]
fn a_late_waiter_loses_no_notification() {
    check_notification_beside_an_end(Ending::pass_deadline);
}

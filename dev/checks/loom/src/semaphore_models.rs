//! Threads that acquire and release permits. A lost wake-up is a deadlock here, which loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle, Thread};

use crate::check;
use crate::fiber::keep_wakes;
use crate::sched::caller::{self, Ending};
use crate::sync::parking_lot::WaitEnd;
use crate::sync::permits::{Acquired, Permits};

/// Bound for two threads, which are explored in full.
const PREEMPTIONS_MAX_OF_TWO: Option<usize> = None;
/// Three threads: some seconds.
const PREEMPTIONS_MAX_OF_THREE: usize = 3;

/// Permits, and how many of them are in use.
struct Bounded {
    permits: Permits,
    total: usize,
    used: AtomicUsize,
}

impl Bounded {
    fn new(total: usize) -> Arc<Bounded> {
        Arc::new(Bounded {
            permits: Permits::new(
                AtomicUsize::new(Permits::word(total)),
                AtomicU64::new(u64::MAX),
            ),
            total,
            used: AtomicUsize::new(0),
        })
    }

    /// Uses permits that the caller has acquired.
    fn use_them(&self, count: usize) {
        let used = self.used.fetch_add(count, Ordering::Relaxed);
        assert!(used + count <= self.total, "more than there are");
        self.used.fetch_sub(count, Ordering::Relaxed);
        self.permits.release(count);
    }

    fn acquire(&self, count: usize) {
        assert_eq!(self.permits.acquire(count, None), Acquired::Permits);
        self.use_them(count);
    }

    fn assert_all_free(&self) {
        assert_eq!(self.permits.available(), self.total);
        assert!(
            self.permits.try_acquire(self.total),
            "somebody is noted as waiting"
        );
    }
}

fn acquiring(bounded: &Arc<Bounded>, count: usize) -> JoinHandle<()> {
    let bounded = Arc::clone(bounded);
    thread::spawn(move || {
        keep_wakes();
        bounded.acquire(count);
    })
}

/// Catches more permits in use than there are, and a waiter that waits beside enough of them.
#[test]
fn permits_are_used_by_so_many_at_a_time() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        keep_wakes();
        let bounded = Bounded::new(1);
        let other = acquiring(&bounded, 1);
        bounded.acquire(1);
        other.join().unwrap();
        bounded.assert_all_free();
    });
    check(PREEMPTIONS_MAX_OF_THREE, || {
        keep_wakes();
        let bounded = Bounded::new(2);
        let others = [acquiring(&bounded, 1), acquiring(&bounded, 2)];
        assert!(bounded.permits.acquire_cancelled_or_not(1));
        bounded.use_them(1);
        for other in others {
            other.join().unwrap();
        }
        bounded.assert_all_free();
    });
}

/// Lets a waiter that wants all permits give up, because of `end`, just when they come. Catches
/// permits that are lost, and a waiter behind it that waits for what it no longer wants.
fn check_permits_beside_an_end(end: fn(&Ending, &Thread), reason: WaitEnd) {
    check(PREEMPTIONS_MAX_OF_THREE, move || {
        keep_wakes();
        let bounded = Bounded::new(2);
        assert!(bounded.permits.try_acquire(1));
        let ending = Ending::keeping_wakes();
        let leaver = {
            let (bounded, ending) = (Arc::clone(&bounded), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                let ended = bounded.permits.acquire(2, Some(caller::deadline()));
                match ended {
                    Acquired::Permits => bounded.use_them(2),
                    _ => assert_eq!(ended, Acquired::Not(reason)),
                }
            })
        };
        let other = acquiring(&bounded, 1);
        end(&ending, leaver.thread());
        bounded.permits.release(1);
        leaver.join().unwrap();
        other.join().unwrap();
        bounded.assert_all_free();
    });
}

#[test]
fn a_cancelled_waiter_loses_no_permit() {
    check_permits_beside_an_end(Ending::shut_down, WaitEnd::Cancelled);
}

#[test]
fn a_late_waiter_loses_no_permit() {
    check_permits_beside_an_end(Ending::pass_deadline, WaitEnd::TimedOut);
}

/// Catches a waiter that is left waiting behind nobody: the one that withdraws had kept the permit
/// that it waits for.
#[test]
fn a_waiter_that_withdraws_lets_the_next_acquire() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        keep_wakes();
        let bounded = Bounded::new(2);
        assert!(bounded.permits.try_acquire(1));
        let ending = Ending::keeping_wakes();
        let leaver = {
            let (bounded, ending) = (Arc::clone(&bounded), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                let ended = bounded.permits.acquire(2, None);
                assert_eq!(ended, Acquired::Not(WaitEnd::Cancelled));
            })
        };
        let other = acquiring(&bounded, 1);
        ending.shut_down(leaver.thread());
        leaver.join().unwrap();
        other.join().unwrap();
        bounded.permits.release(1);
        bounded.assert_all_free();
    });
}

/// Closes the semaphore while a permit comes back, for which one of two waits. Catches a waiter that
/// nobody wakes, and permits that are lost or returned by a waiter that never had them.
#[test]
fn a_closed_semaphore_keeps_its_count() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        keep_wakes();
        let bounded = Bounded::new(1);
        assert!(bounded.permits.try_acquire(1));
        let waiting = [1, 2].map(|count| {
            let bounded = Arc::clone(&bounded);
            thread::spawn(move || {
                keep_wakes();
                match bounded.permits.acquire(count, None) {
                    Acquired::Permits => bounded.use_them(count),
                    ended => assert_eq!(ended, Acquired::Closed),
                }
            })
        });
        bounded.permits.release(1);
        bounded.permits.close();
        for waiting in waiting {
            waiting.join().unwrap();
        }
        assert_eq!(bounded.permits.available(), 1);
        assert!(!bounded.permits.try_acquire(0));
    });
}

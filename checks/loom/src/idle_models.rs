//! Workers that go to sleep against whoever has work for them. A lost wake-up is a deadlock here,
//! which loom reports.

use std::sync::Arc as Count;

use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::parts::Ring;
use crate::runtime::{Runtime, Worker};
use crate::sched::idle::{Idle, Sleeper};
use crate::sched::inbox::Inbox;

/// One worker and one or two pushers: three seconds at most.
const PREEMPTIONS_MAX_OF_ONE: usize = 3;
/// Two workers and a pusher: about a second each, and twenty with one preemption more.
const PREEMPTIONS_MAX_OF_TWO: usize = 2;

/// Otherwise a new fiber would wait for ever in the injector beside a worker that sleeps.
#[test]
fn a_worker_going_to_sleep_takes_new_work() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.inject();
        runtime.finish(1, workers);
    });
}

/// Otherwise a started fiber that was woken from elsewhere would stay in its owner's inbox.
#[test]
fn a_worker_going_to_sleep_takes_mail() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.enqueue(0);
        runtime.finish(1, workers);
    });
}

/// Otherwise mail that comes while the worker empties its inbox would stay there.
#[test]
fn a_worker_emptying_its_inbox_takes_late_mail() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.enqueue(0);
        runtime.enqueue(0);
        runtime.finish(2, workers);
    });
}

/// Otherwise what comes while a worker ends, a reference to a fiber, would be kept for ever.
#[test]
fn a_worker_that_ends_keeps_no_mail() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let (inbox, fiber) = (Arc::new(Inbox::default()), Count::new(()));
        let putting = {
            let (inbox, fiber) = (Arc::clone(&inbox), Count::clone(&fiber));
            thread::spawn(move || {
                inbox.put(Count::clone(&fiber));
                inbox.put(fiber);
            })
        };
        inbox.close();
        putting.join().unwrap();
        assert_eq!(Count::strong_count(&fiber), 1);
        assert!(!inbox.has_mail());
    });
}

/// Otherwise a new fiber would start twice, or never, that a worker takes over from one that gets
/// to its inbox at last.
#[test]
fn mail_is_taken_by_its_owner_or_by_another_worker() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let inbox = Arc::new(Inbox::default());
        assert!(inbox.put(1).is_none() && inbox.put(2).is_none());
        assert_eq!(inbox.count(|mail| *mail == 2), 1);
        let taking = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.take_one(|mail| *mail == 2))
        };
        let mut taken = inbox.take();
        taken.extend(taking.join().unwrap());
        taken.extend(inbox.take());
        assert_eq!(taken, [1, 2]);
        assert!(!inbox.has_mail() && inbox.count(|_| true) == 0);
    });
}

/// Otherwise a new fiber would be lost that was handed to a worker while that ends.
#[test]
fn a_worker_takes_mail_or_refuses_it_at_its_end() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let inbox = Arc::new(Inbox::default());
        let putting = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.put(()).is_some())
        };
        let taken = if inbox.close_if_empty() {
            0
        } else {
            inbox.take().len()
        };
        let refused = usize::from(putting.join().unwrap());
        assert_eq!(taken + refused, 1);
    });
}

/// Otherwise the second of two pushers would rely on a wake-up that the first one did not send, or
/// both would count the worker.
#[test]
fn two_pushers_claim_a_worker_once() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start_tired(&runtime, 0)];
        let pusher = {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || runtime.enqueue(0))
        };
        runtime.inject();
        pusher.join().unwrap();
        runtime.finish(2, workers);
    });
}

/// Otherwise a fiber would wait where one worker searches in vain while the other gives up.
#[test]
fn one_of_two_workers_takes_a_fiber() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::new(2, 1);
        let workers = vec![Worker::start(&runtime, 0), Worker::start(&runtime, 1)];
        runtime.inject();
        runtime.finish(1, workers);
    });
}

/// The second pusher sees a searcher and wakes nobody. Otherwise the searcher, which took the first
/// fiber and computes, would not have passed the wake-up on.
#[test]
fn two_fibers_wake_two_workers() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::new(2, 2);
        let workers = vec![
            Worker::start_asleep(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.inject();
        runtime.inject();
        runtime.finish(2, workers);
    });
}

/// A completion ends the sleep of a worker just when a pusher claims it. Otherwise it would run its
/// own fiber, end a search that the pusher has yet to count, and not pass the wake-up on.
#[test]
fn a_claimed_worker_that_is_up_already_wakes_the_next() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::new(2, 2);
        let workers = vec![
            Worker::start_asleep(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.complete(0, 1);
        runtime.inject();
        runtime.finish(2, workers);
    });
}

/// A worker sees work in its last look, left to it by a pusher who saw it search, and at the same
/// time gets a fiber of its own. Otherwise it would run that, and nobody the work.
#[test]
fn a_worker_that_saw_work_wakes_the_next() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::new(2, 2);
        let workers = vec![
            Worker::start_tired(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.complete(0, 1);
        runtime.inject();
        runtime.finish(2, workers);
    });
}

/// A busy worker moves a fiber from the injector to its deque. Otherwise the worker that was woken
/// for it would miss it on its way and sleep again.
#[test]
fn a_fiber_on_its_way_to_a_deque_is_not_missed() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::new(2, 2);
        let workers = vec![
            Worker::start_busy(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.inject();
        runtime.finish(2, workers);
    });
}

/// The first fiber with a priority comes while a worker goes to sleep that does not order fibers
/// yet. Otherwise the worker would not look into the queue of such fibers.
#[test]
fn a_worker_going_to_sleep_takes_the_first_urgent_fiber() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::ordering(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.inject_prioritized();
        runtime.finish(1, workers);
    });
}

/// Like [`two_fibers_wake_two_workers`]. Otherwise a worker that was woken would run the first
/// fiber as work of its own, without an end of its search.
#[test]
fn two_urgent_fibers_wake_two_workers() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::ordering(2, 2);
        runtime.begin_ordering();
        let workers = vec![
            Worker::start_asleep(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.inject_prioritized();
        runtime.inject_prioritized();
        runtime.finish(2, workers);
    });
}

/// Like [`a_worker_that_saw_work_wakes_the_next`].
#[test]
fn a_worker_that_saw_an_urgent_fiber_wakes_the_next() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::ordering(2, 2);
        runtime.begin_ordering();
        let workers = vec![
            Worker::start_tired(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.complete(0, 1);
        runtime.inject_prioritized();
        runtime.finish(2, workers);
    });
}

/// A runtime that failed to start ends the workers that have started. Otherwise one of them would
/// set its waker too late for the shutdown, and sleep through it.
#[test]
fn a_starting_worker_sees_the_shutdown() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.finish(0, workers);
    });
}

/// Where fibers migrate, a searching worker serves another one that is about to sleep, and comes
/// upon the wake-up for it. Otherwise that one would sleep beside its mail.
#[test]
fn a_wake_up_that_a_thief_takes_is_not_lost() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::migrating(2, 1);
        let workers = vec![
            Worker::start_tired(&runtime, 0),
            Worker::start_searching(&runtime, 1),
        ];
        runtime.enqueue(0);
        runtime.finish(1, workers);
    });
}

/// Two results arrive at once for one worker. Otherwise the second fiber would wait beside a worker
/// that sleeps, or be lost between a thief and a sleep.
#[test]
fn two_results_of_one_worker_go_on_with_two() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::migrating(2, 2);
        let workers = vec![
            Worker::start_asleep(&runtime, 0),
            Worker::start_tired(&runtime, 1),
        ];
        runtime.complete(0, 2);
        runtime.finish(2, workers);
    });
}

/// Otherwise mail for a benched worker would wait until its own ring has something.
#[test]
fn a_resting_worker_takes_mail() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let (idle, sleeper) = (Arc::new(Idle::default()), Arc::new(Sleeper::default()));
        let (inbox, ring) = (Arc::new(Inbox::default()), Arc::new(Ring::default()));
        let putting = {
            let (idle, sleeper) = (Arc::clone(&idle), Arc::clone(&sleeper));
            let (inbox, ring) = (Arc::clone(&inbox), Arc::clone(&ring));
            thread::spawn(move || {
                assert!(inbox.put(()).is_none());
                if idle.claim_owner(&sleeper) {
                    ring.wake();
                }
                // Nobody wakes it for work that others take.
                assert!(!idle.wanted() && !idle.claim(&sleeper) && idle.all_busy());
            })
        };
        let mut taken = 0;
        while taken == 0 {
            sleeper.begin_rest();
            if !inbox.has_mail() {
                ring.wait();
            }
            sleeper.end_rest();
            assert!(sleeper.is_awake());
            taken = inbox.take().len();
        }
        putting.join().unwrap();
    });
}

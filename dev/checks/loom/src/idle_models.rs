//! Workers that go to sleep against threads that have work for them. A lost wake-up is a deadlock
//! here, which loom reports.

use std::sync::Arc as Count;

use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::runtime::{Runtime, Worker};
use crate::sched::inbox::Inbox;

/// Bound for one worker and one or two pushers: three seconds at most.
const PREEMPTIONS_MAX_OF_ONE: usize = 3;
/// Bound for two workers and a pusher: about a second each, and twenty with one preemption more.
const PREEMPTIONS_MAX_OF_TWO: usize = 2;
/// Maximum number of preemptions of two workers that work while their number changes: one more takes a minute.
const PREEMPTIONS_MAX_OF_A_CHANGE: usize = 1;

/// Catches a new fiber that waits forever in the injector beside a worker that sleeps.
#[test]
fn a_worker_going_to_sleep_takes_new_work() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.inject();
        runtime.finish(1, workers);
    });
}

/// Catches a started fiber that was woken from elsewhere and stays in its owner's inbox.
#[test]
fn a_worker_going_to_sleep_takes_mail() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.enqueue(0);
        runtime.finish(1, workers);
    });
}

/// Catches mail that stays in the inbox because it comes while the worker empties it.
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

/// Catches a reference to a fiber that is kept forever because it comes while a worker ends.
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

/// Catches a new fiber that starts twice or never, because a worker takes it over while its owner
/// finally gets to its inbox.
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

/// Catches a new fiber that is lost because it is handed to a worker that is ending.
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

/// Catches a second pusher that relies on a wake-up that the first one did not send, and a worker
/// that both have counted.
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

/// Catches a fiber that waits because one worker searches in vain while the other gives up.
#[test]
fn one_of_two_workers_takes_a_fiber() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::new(2, 1);
        let workers = vec![Worker::start(&runtime, 0), Worker::start(&runtime, 1)];
        runtime.inject();
        runtime.finish(1, workers);
    });
}

/// Catches a searcher that takes the first fiber and computes without having passed the wake-up on:
/// the second pusher sees a searcher and wakes nobody.
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

/// Ends the sleep of a worker by a completion just when a pusher claims it. Catches a worker that
/// then runs its own fiber, ends a search that the pusher has yet to count, and does not pass the
/// wake-up on.
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

/// Lets a worker see work in its last look, left to it by a pusher who saw it search, and at the
/// same time get a fiber of its own. Catches a worker that runs that fiber while nobody runs the
/// work.
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

/// Catches a woken worker that sleeps again because it misses its fiber, which a busy worker is
/// moving from the injector to its deque.
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

/// Catches a worker that goes to sleep without a look into the queue of fibers with a priority: the
/// first one comes while the worker does not order fibers yet.
#[test]
fn a_worker_going_to_sleep_takes_the_first_urgent_fiber() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::ordering(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.inject_prioritized();
        runtime.finish(1, workers);
    });
}

/// Repeats [`two_fibers_wake_two_workers`] with urgent fibers. Catches a woken worker that runs the
/// first fiber as work of its own, without an end of its search.
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

/// Repeats [`a_worker_that_saw_work_wakes_the_next`] with an urgent fiber.
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

/// Catches a worker that sets its waker too late for the shutdown and sleeps through it. A runtime
/// that failed to start ends the workers that have started.
#[test]
fn a_starting_worker_sees_the_shutdown() {
    check(PREEMPTIONS_MAX_OF_ONE, || {
        let runtime = Runtime::new(1, 1);
        let workers = vec![Worker::start(&runtime, 0)];
        runtime.finish(0, workers);
    });
}

/// Catches a worker that is claimed for a fiber while it becomes inactive, and counts as searching
/// when the next fiber comes, for which nobody else is woken.
#[test]
fn a_claimed_worker_that_becomes_inactive_wakes_the_next() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::resizing(2, 1, 2);
        let workers = vec![
            Worker::start_busy(&runtime, 0),
            Worker::start_asleep(&runtime, 1),
        ];
        runtime.set_active(1);
        runtime.inject();
        runtime.inject();
        runtime.finish(3, workers);
    });
}

/// Catches a fiber that stays in the inbox of an inactive worker, or on its way to an active one.
#[test]
fn an_inactive_worker_passes_its_mail_on() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        let runtime = Runtime::resizing(2, 1, 1);
        let workers = vec![
            Worker::start_asleep(&runtime, 0),
            Worker::start(&runtime, 1),
        ];
        runtime.enqueue(1);
        runtime.complete(1, 1);
        runtime.finish(2, workers);
    });
}

/// Catches a worker that goes to rest while it becomes active, and leaves a fiber waiting.
#[test]
fn a_worker_that_becomes_active_takes_what_waits() {
    check(PREEMPTIONS_MAX_OF_A_CHANGE, || {
        let runtime = Runtime::resizing(2, 2, 1);
        let workers = vec![
            Worker::start_asleep(&runtime, 0),
            Worker::start(&runtime, 1),
        ];
        runtime.inject();
        runtime.inject();
        runtime.set_active(2);
        runtime.finish(2, workers);
    });
}

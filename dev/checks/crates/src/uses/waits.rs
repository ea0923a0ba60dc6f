//! Waits of `std` and crossbeam for another fiber: conditions, barriers, parking and threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Condvar, Mutex, mpsc};
use std::thread;

use super::{Use, WAIT, both};

pub(super) const USES: &[Use] = &[
    Use::new("std-condvar", "a fiber in `Condvar::wait`", condvar),
    Use::new("std-barrier", "a fiber in `Barrier::wait`", barrier),
    Use::new(
        "std-park",
        "`park` of a fiber that another fiber unparks",
        park,
    ),
    Use::new(
        "std-thread",
        "`join` of a thread that waits for a fiber",
        join,
    ),
    Use::new(
        "crossbeam-scope",
        "a scope of threads that wait for a fiber",
        scope,
    ),
];

fn condvar() {
    let (value, changed) = (Mutex::new(0), Condvar::new());
    both(
        || {
            for _ in 0..2 {
                uthread::sleep(WAIT);
                *value.lock().expect("no panic") += 1;
                changed.notify_one();
            }
        },
        || {
            let guard = value.lock().expect("no panic");
            let guard = changed.wait_while(guard, |value| *value < 2);
            assert_eq!(*guard.expect("no panic"), 2);
        },
    );
}

fn barrier() {
    let (barrier, leaders) = (Barrier::new(2), AtomicU32::new(0));
    let pass = || {
        let is_leader = barrier.wait().is_leader();
        leaders.fetch_add(is_leader.into(), Ordering::Relaxed);
    };
    both(
        || {
            for _ in 0..2 {
                uthread::sleep(WAIT);
                pass();
            }
        },
        || {
            pass();
            pass();
        },
    );
    assert_eq!(leaders.into_inner(), 2);
}

fn park() {
    let (sender, receiver) = uthread::sync::mpsc::channel();
    let rounds = AtomicU32::new(0);
    let rounds = &rounds;
    both(
        move || {
            let parked: thread::Thread = receiver.recv().expect("a sender");
            for _ in 0..2 {
                uthread::sleep(WAIT);
                rounds.fetch_add(1, Ordering::Release);
                parked.unpark();
            }
        },
        move || {
            sender.send(thread::current()).expect("a receiver");
            while rounds.load(Ordering::Acquire) < 2 {
                thread::park();
            }
        },
    );
}

fn join() {
    let (sender, receiver) = mpsc::channel();
    both(
        || {
            uthread::sleep(WAIT);
            sender.send(7).expect("a receiver");
        },
        || {
            let thread = thread::spawn(move || receiver.recv());
            assert_eq!(thread.join().expect("no panic"), Ok(7));
        },
    );
}

fn scope() {
    let (sender, receiver) = crossbeam_channel::bounded(2);
    both(
        || {
            for value in [3, 4] {
                uthread::sleep(WAIT);
                sender.send(value).expect("a receiver");
            }
        },
        || {
            let sum = crossbeam_utils::thread::scope(|scope| {
                let threads = [(); 2].map(|()| scope.spawn(|_| receiver.recv()));
                let values = threads.map(|it| it.join().expect("no panic").expect("a sender"));
                values.iter().sum::<i32>()
            });
            assert_eq!(sum.expect("no panic"), 7);
        },
    );
}

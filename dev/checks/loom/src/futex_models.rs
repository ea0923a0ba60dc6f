//! Waiters for a word. A lost wake-up is a deadlock here, which loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::check;
use crate::fiber::keep_wakes;
use crate::sched::caller::{self, Ending};
use crate::sync::futex;

/// Bound for two threads, which are explored in full.
const PREEMPTIONS_MAX_OF_TWO: Option<usize> = None;
/// Three threads: some seconds.
const PREEMPTIONS_MAX_OF_THREE: usize = 3;

/// Waits until the word is one.
fn await_one(word: &AtomicU32) {
    while word.load(Ordering::Acquire) == 0 {
        let _ = futex::wait(word, 0, None);
    }
}

/// Catches a change between the look at the word and the wait.
#[test]
fn a_waiter_sees_the_change() {
    check(PREEMPTIONS_MAX_OF_TWO, || {
        keep_wakes();
        let word = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&word);
        let waiter = thread::spawn(move || {
            keep_wakes();
            await_one(&theirs);
        });
        word.store(1, Ordering::Release);
        futex::wake(&word, 1);
        waiter.join().unwrap();
    });
}

/// Lets one of two waiters give up just when one is woken. Catches a wake-up that is lost on the one
/// that gives up.
#[test]
fn a_late_waiter_loses_no_wake_up() {
    check(PREEMPTIONS_MAX_OF_THREE, || {
        keep_wakes();
        let word = Arc::new(AtomicU32::new(0));
        let ending = Ending::keeping_wakes();
        let leaver = {
            let (word, ending) = (Arc::clone(&word), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                futex::wait(&word, 0, Some(caller::deadline())).is_ok()
            })
        };
        let waiter = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                keep_wakes();
                await_one(&word);
            })
        };
        ending.pass_deadline(leaver.thread());
        word.store(1, Ordering::Release);
        futex::wake(&word, 1);
        if leaver.join().unwrap() {
            futex::wake(&word, 1);
        }
        waiter.join().unwrap();
    });
}

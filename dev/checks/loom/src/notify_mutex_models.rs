//! The waiters of a notifying mutex against a thread that changes its state. A lost wake-up is a
//! deadlock here, which loom reports.

use std::sync::mpsc::RecvTimeoutError;

use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::fiber::{WakeHandle, park};
use crate::sched::caller::{self, Ending};
use crate::sync::notify_mutex::NotifyMutex;

/// Three threads: a second at most.
const PREEMPTIONS_MAX: usize = 5;

fn reached(target: u32) -> impl FnMut(&mut u32) -> Option<u32> {
    move |state| (*state >= target).then_some(*state)
}

/// Catches a waiter that sleeps beside what it waits for.
#[test]
fn all_waiters_are_woken() {
    check(PREEMPTIONS_MAX, || {
        let mutex = Arc::new(NotifyMutex::new(0));
        let other = {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || mutex.wait(None, reached(2)))
        };
        let changing = {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || (0..2).for_each(|_| mutex.change(|state| *state += 1)))
        };
        assert!(mutex.wait(None, reached(1)).is_ok());
        assert_eq!(other.join().unwrap(), Ok(2));
        changing.join().unwrap();
    });
}

/// Enlists and withdraws a waiter, like an arm of a selection. Catches a withdrawn waiter that
/// takes another one's wake-up, and an enlisted waiter that is not woken.
#[test]
fn a_waiter_that_withdraws_removes_only_itself() {
    check(PREEMPTIONS_MAX, || {
        let mutex = Arc::new(NotifyMutex::new(0));
        let changing = {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || mutex.change(|state| *state = 1))
        };
        let other = {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || mutex.wait(None, reached(1)))
        };
        let enlist = || mutex.enlist(WakeHandle::current, |state| *state == 1);
        if let Some(id) = enlist() {
            mutex.withdraw(id);
        }
        if enlist().is_some() {
            park();
        }
        assert_eq!(mutex.with(|state| *state), 1);
        assert_eq!(other.join().unwrap(), Ok(1));
        changing.join().unwrap();
    });
}

/// Catches a waiter that gives up just at the change and then waits on.
#[test]
fn a_wait_ends_with_the_change_or_its_time() {
    check(PREEMPTIONS_MAX, || {
        let mutex = Arc::new(NotifyMutex::new(0));
        let ending = Ending::default();
        let waiting = {
            let (mutex, ending) = (Arc::clone(&mutex), ending.clone());
            thread::spawn(move || {
                ending.apply_here();
                mutex.wait(Some(caller::deadline()), reached(1))
            })
        };
        let late = {
            let waiter = waiting.thread().clone();
            thread::spawn(move || ending.pass_deadline(&waiter))
        };
        mutex.change(|state| *state = 1);
        late.join().unwrap();
        let result = waiting.join().unwrap();
        assert!(matches!(result, Ok(1) | Err(RecvTimeoutError::Timeout)));
    });
}

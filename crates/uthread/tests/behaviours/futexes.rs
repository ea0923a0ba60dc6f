//! Waiting for a change of a word, between fibers and threads.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use crate::fixtures::fiber_or_thread::{Running, Side, mixed};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::{SHORT, kind};
use uthread::sync::futex;
use uthread::{shield, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            a_lock_of_words_has_one_holder,
            another_value_is_no_reason_to_wait,
            a_wait_for_a_word_ends_at_its_deadline,
            a_wake_counts_whom_it_wakes
        ]
    ),
    (IN_FIBERS, [a_cancelled_wait_for_a_word_ends]),
    (ON_ONE_WORKER, [waiters_for_a_word_are_woken_in_order]),
];

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

/// The mutex of "Futexes Are Tricky" (Drepper).
#[derive(Default)]
struct Lock {
    word: AtomicU32,
    inside: AtomicUsize,
    passed: AtomicUsize,
}

impl Lock {
    fn pass(&self) {
        if (self.word)
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
                let _ = futex::wait(&self.word, AWAITED, None);
            }
        }
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0);
        yield_now();
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.passed.fetch_add(1, Ordering::Relaxed);
        if self.word.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(&self.word, 1);
        }
    }
}

fn a_lock_of_words_has_one_holder(place: Place) {
    const ROUNDS: usize = 200;
    mixed(place, |here, there| {
        let lock = Arc::new(Lock::default());
        let sides = [here, there, here, there];
        let runners = sides.map(|side| {
            let lock = Arc::clone(&lock);
            side.start(move || (0..ROUNDS).for_each(|_| lock.pass()))
        });
        runners.into_iter().for_each(Running::join);
        assert_eq!(lock.passed.load(Ordering::Relaxed), 4 * ROUNDS);
    });
}

fn another_value_is_no_reason_to_wait(place: Place) {
    place.run(|| {
        let word = AtomicU32::new(7);
        let refused = futex::wait(&word, 6, None);
        assert_eq!(kind(refused), ErrorKind::WouldBlock);
        assert_eq!(futex::wake(&word, usize::MAX), 0);
    });
}

fn a_wait_for_a_word_ends_at_its_deadline(place: Place) {
    place.run(|| {
        let word = AtomicU32::new(7);
        for deadline in [Instant::now(), Instant::now() + SHORT] {
            let late = futex::wait(&word, 7, Some(deadline));
            assert_eq!(kind(late), ErrorKind::TimedOut);
            assert!(Instant::now() >= deadline);
        }
        assert_eq!(futex::wake(&word, usize::MAX), 0, "it waits on");
    });
}

fn a_wake_counts_whom_it_wakes(place: Place) {
    mixed(place, |here, there| {
        let word = Arc::new(AtomicU32::new(0));
        let wait = |side: &Side<'_>| {
            let word = Arc::clone(&word);
            side.start(move || {
                // Whoever comes late does not wait: the word stays as it is.
                futex::wait(&word, 0, None).expect("the wake comes after the wait");
            })
        };
        let waiting = [wait(here), wait(there), wait(here)];
        let mut woken = 0;
        while woken < 2 {
            woken += futex::wake(&word, 1);
            yield_now();
        }
        assert_eq!(woken, 2);
        while futex::wake(&word, usize::MAX) == 0 {
            yield_now();
        }
        waiting.into_iter().for_each(Running::join);
    });
}

fn a_cancelled_wait_for_a_word_ends(place: Place) {
    place.run(|| {
        let word = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&word);
        let (reached, is_reached) = std::sync::mpsc::channel();
        let waiting = spawn(move || {
            reached.send(()).unwrap();
            let ended = futex::wait(&theirs, 0, None);
            let again = futex::wait(&theirs, 0, None);
            reached.send(()).unwrap();
            let kept = shield(|| futex::wait(&theirs, 0, None));
            (ended, again, kept)
        });
        let reach = || {
            while is_reached.try_recv().is_err() {
                yield_now();
            }
        };
        reach();
        waiting.cancel();
        reach();
        while futex::wake(&word, 1) == 0 {
            yield_now();
        }
        let (ended, again, kept) = waiting.join().unwrap();
        for ended in [ended, again] {
            assert_eq!(ended.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
        }
        kept.unwrap();
    });
}

fn waiters_for_a_word_are_woken_in_order(place: Place) {
    place.run(|| {
        let word = Arc::new(AtomicU32::new(0));
        let (calls, ends) = (Arc::default(), Arc::default());
        let waiting: [_; 5] = std::array::from_fn(|_| {
            let word = Arc::clone(&word);
            let (calls, ends) = (
                Arc::<AtomicUsize>::clone(&calls),
                Arc::<AtomicUsize>::clone(&ends),
            );
            spawn(move || {
                let position = calls.fetch_add(1, Ordering::Relaxed);
                futex::wait(&word, 0, None).unwrap();
                assert_eq!(ends.fetch_add(1, Ordering::Relaxed), position);
            })
        });
        while calls.load(Ordering::Relaxed) < waiting.len() {
            yield_now();
        }
        for position in 0..waiting.len() {
            assert_eq!(futex::wake(&word, 1), 1);
            while ends.load(Ordering::Relaxed) == position {
                yield_now();
            }
        }
        waiting
            .into_iter()
            .for_each(|waiting| waiting.join().unwrap());
    });
}

//! Writers and readers of a lock against each other. A lost wake-up is a deadlock here, which loom
//! reports.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread::{self, JoinHandle};

use crate::check;
use crate::sched::caller::Ending;
use crate::sync::lock::Lock;

/// Bound for two threads, which are explored in full.
const PREEMPTIONS_MAX_OF_TWO: Option<usize> = None;
/// Three threads: some seconds.
const PREEMPTIONS_MAX_OF_THREE: usize = 3;

struct Locked {
    lock: Lock,
    /// Relaxed, and written in two steps: without the lock, writes would be lost.
    data: AtomicU32,
    /// Lets loom check that each access is ordered after those that it excludes.
    accesses: UnsafeCell<()>,
}

#[allow(unsafe_code, reason = "what the lock is for")]
// SAFETY: there is nothing in the cell, and loom checks the accesses.
unsafe impl Sync for Locked {}

impl Locked {
    fn new() -> Arc<Locked> {
        Arc::new(Locked {
            lock: Lock::new(AtomicU32::new(0)),
            data: AtomicU32::new(0),
            accesses: UnsafeCell::new(()),
        })
    }

    /// Adds one. The caller holds the lock for writing.
    fn add(&self) {
        self.accesses.with_mut(|_| ());
        let value = self.data.load(Ordering::Relaxed);
        self.data.store(value + 1, Ordering::Relaxed);
        assert_eq!(self.get(), value + 1, "two write at a time");
    }

    /// Returns the value. The caller holds the lock.
    fn get(&self) -> u32 {
        self.accesses.with(|_| ());
        self.data.load(Ordering::Relaxed)
    }

    fn write(&self) {
        self.lock.write();
        self.add();
        self.lock.unlock_write();
    }

    fn read(&self) -> u32 {
        self.lock.read();
        let value = self.get();
        self.lock.unlock_read();
        value
    }

    /// Asserts that in the end the lock is free and nobody is noted as waiting.
    fn assert_free(&self, writes: u32) {
        assert!(self.lock.try_write(), "the lock is not free");
        assert_eq!(self.get(), writes);
        self.lock.unlock_write();
        assert!(self.lock.try_read(), "somebody is still noted as waiting");
        self.lock.unlock_read();
    }
}

fn start(locked: &Arc<Locked>, run: impl Fn(&Locked) + 'static) -> JoinHandle<()> {
    let locked = Arc::clone(locked);
    thread::spawn(move || run(&locked))
}

/// Runs each of them on a thread of its own, the last one on this.
fn run_all(bound: impl Into<Option<usize>>, writes: u32, all: &'static [fn(&Locked)]) {
    check(bound, move || {
        let locked = Locked::new();
        let (last, others) = all.split_last().unwrap();
        let others: Vec<_> = others.iter().map(|run| start(&locked, run)).collect();
        last(&locked);
        for other in others {
            other.join().unwrap();
        }
        locked.assert_free(writes);
    });
}

/// Catches a writer that sleeps beside a free lock, and two that write at a time. One that comes
/// again makes the other ask for the lock to be handed over.
#[test]
fn writers_write_one_at_a_time() {
    fn thrice(locked: &Locked) {
        (0..3).for_each(|_| locked.write());
    }
    run_all(PREEMPTIONS_MAX_OF_TWO, 2, &[Locked::write, Locked::write]);
    run_all(PREEMPTIONS_MAX_OF_THREE, 6, &[thrice, thrice]);
    run_all(
        PREEMPTIONS_MAX_OF_THREE,
        3,
        &[Locked::write, Locked::write, Locked::write],
    );
}

/// Catches a writer that sleeps on although the lock is handed over to it, and another that takes
/// the lock as well.
#[test]
fn a_writer_that_was_overtaken_for_long_is_handed_the_lock() {
    fn write(locked: &Locked) {
        end_patience();
        locked.write();
    }
    fn thrice(locked: &Locked) {
        end_patience();
        (0..3).for_each(|_| locked.write());
    }
    run_all(PREEMPTIONS_MAX_OF_TWO, 2, &[write, write]);
    run_all(PREEMPTIONS_MAX_OF_THREE, 6, &[thrice, thrice]);
    run_all(PREEMPTIONS_MAX_OF_THREE, 3, &[write, write, Locked::write]);
    run_all(PREEMPTIONS_MAX_OF_THREE, 2, &[write, write, read]);
}

/// Lets the deadline of the calling thread's waits be over from the beginning.
fn end_patience() {
    let ending = Ending::default();
    ending.apply_here();
    ending.pass_deadline(&thread::current());
}

/// Catches a reader that sees half of a write, or waits for a writer that has gone.
#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    run_all(PREEMPTIONS_MAX_OF_TWO, 1, &[read_twice, Locked::write]);
}

#[test]
fn two_readers_and_a_writer_exclude_each_other() {
    // The last of two readers hands the lock to a writer that was passed over: the writer comes
    // after the other reader too.
    run_all(
        PREEMPTIONS_MAX_OF_THREE,
        1,
        &[read_twice, read, Locked::write],
    );
}

#[test]
fn a_reader_and_two_writers_exclude_each_other() {
    run_all(
        PREEMPTIONS_MAX_OF_THREE,
        2,
        &[read, Locked::write, Locked::write],
    );
}

fn read(locked: &Locked) {
    assert!(locked.read() <= 2);
}

fn read_twice(locked: &Locked) {
    let first = locked.read();
    assert!(locked.read() >= first);
}

/// Catches a second reader that is not let in, and a writer that gets in between.
#[test]
fn a_writer_goes_on_as_a_reader_beside_others() {
    fn downgrade(locked: &Locked) {
        locked.lock.write();
        locked.add();
        let written = locked.get();
        locked.lock.downgrade();
        assert_eq!(locked.get(), written);
        locked.lock.unlock_read();
    }
    fn read(locked: &Locked) {
        locked.read();
    }
    run_all(PREEMPTIONS_MAX_OF_TWO, 2, &[downgrade, Locked::write]);
    run_all(
        PREEMPTIONS_MAX_OF_THREE,
        2,
        &[downgrade, read, Locked::write],
    );
}

/// Catches a thread that only tries and has the lock beside another, or leaves one waiting.
#[test]
fn a_failed_try_leaves_no_waiter_behind() {
    fn try_both(locked: &Locked) {
        if locked.lock.try_write() {
            assert!(locked.get() <= 2);
            locked.lock.unlock_write();
        }
        if locked.lock.try_read() {
            assert!(locked.get() <= 2);
            locked.lock.unlock_read();
        }
    }
    run_all(
        PREEMPTIONS_MAX_OF_THREE,
        2,
        &[try_both, Locked::write, Locked::write],
    );
}

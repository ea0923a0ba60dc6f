//! Properties of locks that hold under every seed, also if owners and waiters are cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sync::{Barrier, Condvar, LockResult, Mutex, Once, PoisonError, RwLock, Semaphore};
use crate::thread::{Cancelled, JoinHandle, spawn};

const FIBERS: u64 = 6;

/// Both numbers are the same, except while a fiber changes them.
type Pair = (u64, u64);

/// Changes one and then the other.
fn change(pair: &mut Pair, choices: &mut Choices) {
    pair.0 += 1;
    dawdle(choices);
    pair.1 += 1;
}

/// Returns the guard. If the lock is poisoned, restores the pair, which may be inconsistent only
/// then.
fn repaired<G>(locked: LockResult<G>, pair: fn(&mut G) -> &mut Pair, clear: impl FnOnce()) -> G {
    match locked {
        Ok(mut guard) => {
            let pair = pair(&mut guard);
            assert_eq!(pair.0, pair.1);
            guard
        }
        Err(poisoned) => {
            let mut guard = poisoned.into_inner();
            let pair = pair(&mut guard);
            pair.1 = pair.0;
            clear();
            guard
        }
    }
}

struct Locks {
    mutex: Mutex<Pair>,
    lock: RwLock<Pair>,
    semaphore: Semaphore,
    /// Number of permits in use.
    inside: AtomicUsize,
    once: Once,
}

const PERMITS: usize = 3;

impl Locks {
    fn lock_mutex(&self, choices: &mut Choices) {
        let locked = self.mutex.lock();
        let mut guard = repaired(locked, |guard| guard, || self.mutex.clear_poison());
        change(&mut guard, choices);
    }

    fn write(&self, choices: &mut Choices) {
        let locked = self.lock.write();
        let mut guard = repaired(locked, |guard| guard, || self.lock.clear_poison());
        change(&mut guard, choices);
    }

    fn read(&self, choices: &mut Choices) {
        let locked = self.lock.read();
        let is_whole = locked.is_ok();
        let guard = locked.unwrap_or_else(PoisonError::into_inner);
        let before = *guard;
        assert!(before.0 == before.1 || !is_whole);
        dawdle(choices);
        assert_eq!(*guard, before, "beside a writer");
    }

    fn use_permits(&self, choices: &mut Choices) {
        struct Leave<'a>(&'a AtomicUsize, usize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(self.1, Ordering::Relaxed);
            }
        }
        let count = choices.below(PERMITS as u64 + 1) as usize;
        let permits = match choices.below(2) {
            0 => self.semaphore.acquire_many(count).ok(),
            _ => {
                let timeout = Duration::from_micros(choices.below(3000));
                self.semaphore.acquire_many_timeout(count, timeout).ok()
            }
        };
        if permits.is_some() {
            let _leave = Leave(&self.inside, count);
            let before = self.inside.fetch_add(count, Ordering::Relaxed);
            assert!(before + count <= PERMITS);
            dawdle(choices);
        }
    }

    fn use_all(&self, choices: &mut Choices) {
        for _ in 0..10 {
            match choices.below(5) {
                0 => self.lock_mutex(choices),
                1 => self.write(choices),
                2 => self.read(choices),
                3 => self.use_permits(choices),
                _ => self.once.call_once_force(|_| dawdle(choices)),
            }
        }
    }

    /// Asserts that every lock is free and no fiber waits.
    fn assert_free(&self) {
        let guard = self.mutex.try_lock();
        assert!(!matches!(guard, Err(crate::sync::TryLockError::WouldBlock)));
        let guard = self.lock.try_write();
        assert!(!matches!(guard, Err(crate::sync::TryLockError::WouldBlock)));
        assert!(self.semaphore.try_acquire_many(PERMITS).is_ok());
    }
}

/// Cancels some, or none, at some time; whether each ended by itself.
fn join_all(fibers: Vec<JoinHandle<()>>, cancels: bool, choices: &mut Choices) -> Vec<bool> {
    for fiber in &fibers {
        dawdle(choices);
        if cancels && choices.below(2) == 0 {
            fiber.cancel();
        }
    }
    let ended = fibers.into_iter().map(|fiber| match fiber.join() {
        Ok(()) => true,
        Err(payload) if payload.is::<Cancelled>() => false,
        Err(payload) => std::panic::resume_unwind(payload),
    });
    ended.collect()
}

#[test]
fn locks_are_free_after_their_owners_end() {
    under_seeds(|seed| {
        for cancels in [false, true] {
            Simulation::new(seed, 3).run(move || {
                let locks = Arc::new(Locks {
                    mutex: Mutex::default(),
                    lock: RwLock::default(),
                    semaphore: Semaphore::new(PERMITS),
                    inside: AtomicUsize::new(0),
                    once: Once::new(),
                });
                let fibers = (0..FIBERS).map(|index| {
                    let (locks, mut choices) = (Arc::clone(&locks), Choices(seed * 17 + index));
                    spawn(move || locks.use_all(&mut choices))
                });
                let ended = join_all(fibers.collect(), cancels, &mut Choices(seed));
                assert!(cancels || ended.iter().all(|by_itself| *by_itself));
                locks.assert_free();
            });
        }
    });
}

/// Cancels waiters: a notification meant for one of them goes to another, or the cancelled one has
/// used it.
#[test]
fn no_notification_is_lost() {
    const EACH: u64 = 4;
    under_seeds(|seed| {
        for cancels in [false, true] {
            Simulation::new(seed, 3).run(move || {
                let store = Arc::new((Mutex::new(0_u64), Condvar::new()));
                let taken = Arc::new(AtomicUsize::new(0));
                let takers = (0..FIBERS).map(|index| {
                    let (store, taken) = (Arc::clone(&store), Arc::clone(&taken));
                    let mut choices = Choices(seed * 19 + index);
                    spawn(move || {
                        let (tokens, changed) = &*store;
                        for _ in 0..EACH {
                            let mut guard = tokens.lock().unwrap();
                            while *guard == 0 {
                                guard = match choices.below(3) {
                                    0 => {
                                        let timeout = Duration::from_micros(choices.below(2000));
                                        changed.wait_timeout(guard, timeout).unwrap().0
                                    }
                                    _ => changed.wait(guard).unwrap(),
                                };
                            }
                            *guard -= 1;
                            taken.fetch_add(1, Ordering::Relaxed);
                            drop(guard);
                            dawdle(&mut choices);
                        }
                    })
                });
                let takers: Vec<_> = takers.collect();
                let putter = {
                    let (store, mut choices) = (Arc::clone(&store), Choices(seed * 23));
                    spawn(move || {
                        for _ in 0..FIBERS * EACH {
                            *store.0.lock().unwrap() += 1;
                            store.1.notify_one();
                            dawdle(&mut choices);
                        }
                    })
                };
                join_all(takers, cancels, &mut Choices(seed));
                putter.join().unwrap();
                let left = *store.0.lock().unwrap();
                let taken = taken.load(Ordering::Relaxed) as u64;
                assert_eq!(taken + left, FIBERS * EACH);
            });
        }
    });
}

#[test]
fn a_barrier_lets_as_many_pass_as_it_is_for() {
    const ROUNDS: usize = 5;
    under_seeds(|seed| {
        Simulation::new(seed, 3).run(move || {
            let barrier = Arc::new(Barrier::new(FIBERS as usize));
            let leaders = Arc::new(AtomicUsize::new(0));
            // Fibers cancelled before the others arrive are not counted.
            let early = (0..2).map(|_| {
                let barrier = Arc::clone(&barrier);
                spawn(move || barrier.wait().is_leader())
            });
            let early: Vec<_> = early.collect();
            dawdle(&mut Choices(seed));
            early.iter().for_each(JoinHandle::cancel);
            for fiber in early {
                assert!(fiber.join().is_err());
            }
            let fibers = (0..FIBERS).map(|index| {
                let (barrier, leaders) = (Arc::clone(&barrier), Arc::clone(&leaders));
                let mut choices = Choices(seed * 29 + index);
                spawn(move || {
                    for round in 0..ROUNDS {
                        assert!(leaders.load(Ordering::Relaxed) <= round);
                        dawdle(&mut choices);
                        if barrier.wait().is_leader() {
                            leaders.fetch_add(1, Ordering::Relaxed);
                        }
                        barrier.wait();
                        assert_eq!(leaders.load(Ordering::Relaxed), round + 1);
                        barrier.wait();
                    }
                })
            });
            join_all(fibers.collect(), false, &mut Choices(seed));
        });
    });
}

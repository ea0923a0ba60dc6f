//! Locks on files: waiting, refusal and release.

use std::fs::TryLockError;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_WORKERS, behaviours};
use crate::support::errno;
use rustix::io::Errno;
use tempfile::NamedTempFile;
use uthread::fs::File;

behaviours![
    (
        EVERYWHERE,
        [
            a_lock_excludes_other_handles_but_not_its_clones,
            shared_locks_exclude_only_exclusive_ones,
            locks_of_std_and_of_this_crate_exclude_each_other,
            a_waiter_gets_the_lock_when_it_is_released,
            a_waiter_for_a_shared_lock_gets_it_when_it_is_released,
            a_lock_has_one_owner_at_a_time
        ]
    ),
    (ON_WORKERS, [waiters_occupy_no_thread_that_the_owner_needs]),
    (
        IN_FIBERS,
        [
            waiters_are_cancelled_when_the_runtime_is_dropped,
            a_cancelled_fiber_can_still_release_its_lock
        ]
    ),
];

/// Number of fibers that wait for a lock: more than the pool has threads, of which there are 64.
const WAITERS: usize = 70;

/// Creates a file, and opens handles to it that are independent of each other.
fn handles<const COUNT: usize>() -> (NamedTempFile, [File; COUNT]) {
    let file = NamedTempFile::new().unwrap();
    let handles = std::array::from_fn(|_| File::options().write(true).open(file.path()).unwrap());
    (file, handles)
}

fn is_taken(result: Result<(), TryLockError>) -> bool {
    matches!(result, Err(TryLockError::WouldBlock))
}

fn a_lock_excludes_other_handles_but_not_its_clones(place: Place) {
    place.run(|| {
        let (_file, [owner, other]) = handles();
        owner.lock().unwrap();
        let clone = owner.try_clone().unwrap();
        clone.lock().unwrap();
        clone.try_lock().unwrap();
        assert!(is_taken(other.try_lock()) && is_taken(other.try_lock_shared()));
        let refused: io::Result<()> = other.try_lock().map_err(io::Error::from);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WouldBlock);
        // Neither closing a clone nor unlocking another handle releases the lock.
        drop(clone);
        other.unlock().unwrap();
        assert!(is_taken(other.try_lock()));
        owner.unlock().unwrap();
        other.try_lock().unwrap();
        drop(other);
        owner.try_lock().unwrap();
    });
}

fn shared_locks_exclude_only_exclusive_ones(place: Place) {
    place.run(|| {
        let (_file, [one, two, three]) = handles();
        one.lock_shared().unwrap();
        two.try_lock_shared().unwrap();
        assert!(is_taken(three.try_lock()));
        // An exclusive lock becomes a shared one in place, and back.
        one.unlock().unwrap();
        two.lock().unwrap();
        assert!(is_taken(three.try_lock_shared()));
        two.lock_shared().unwrap();
        three.try_lock_shared().unwrap();
    });
}

fn locks_of_std_and_of_this_crate_exclude_each_other(place: Place) {
    place.run(|| {
        let (file, [ours]) = handles();
        file.as_file().lock().unwrap();
        assert!(is_taken(ours.try_lock()));
        file.as_file().unlock().unwrap();
        ours.lock().unwrap();
        assert!(is_taken(file.as_file().try_lock()));
    });
}

fn a_waiter_gets_the_lock_when_it_is_released(place: Place) {
    place.run(|| {
        let (_file, [owner, other]) = handles();
        owner.lock().unwrap();
        place
            .meanwhile(|| other.lock(), || owner.unlock().unwrap())
            .unwrap();
        assert!(is_taken(owner.try_lock_shared()));
    });
}

fn a_waiter_for_a_shared_lock_gets_it_when_it_is_released(place: Place) {
    place.run(|| {
        let (_file, [owner, other, third]) = handles();
        owner.lock().unwrap();
        place
            .meanwhile(|| other.lock_shared(), || drop(owner))
            .unwrap();
        third.try_lock_shared().unwrap();
        assert!(is_taken(third.try_lock()));
    });
}

fn a_lock_has_one_owner_at_a_time(place: Place) {
    place.run(|| {
        const FIBERS: u32 = 10;
        let file = NamedTempFile::new().unwrap();
        let (inside, entered) = (AtomicBool::new(false), AtomicU32::new(0));
        uthread::scope(|scope| {
            for _ in 0..FIBERS {
                scope.spawn(|| {
                    let handle = File::open(file.path()).unwrap();
                    handle.lock().unwrap();
                    let has_another = inside.swap(true, Ordering::Relaxed);
                    assert!(!has_another, "two fibers have the lock");
                    uthread::yield_now();
                    inside.store(false, Ordering::Relaxed);
                    entered.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(entered.into_inner(), FIBERS);
    });
}

fn waiters_occupy_no_thread_that_the_owner_needs(place: Place) {
    place.run(|| {
        let (file, [owner]) = handles();
        owner.lock().unwrap();
        let asked = AtomicU32::new(0);
        uthread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    let handle = File::open(file.path()).unwrap();
                    assert!(is_taken(handle.try_lock_shared()));
                    asked.fetch_add(1, Ordering::Relaxed);
                    handle.lock_shared().unwrap();
                });
            }
            while asked.load(Ordering::Relaxed) < WAITERS as u32 {
                uthread::yield_now();
            }
            // `set_len` takes a thread of the pool, after all waiters would have taken theirs.
            owner.set_len(10).unwrap();
            owner.unlock().unwrap();
        });
        assert_eq!(owner.metadata().unwrap().len(), 10);
    });
}

fn waiters_are_cancelled_when_the_runtime_is_dropped(place: Place) {
    let (file, [owner]) = handles();
    owner.lock().unwrap();
    let runtime = place.runtime();
    let handle = File::open(file.path()).unwrap();
    let waiting = place.spawn_waiting(&runtime, move || handle.lock());
    drop(runtime);
    assert_eq!(errno(waiting.join().unwrap()), Errno::CANCELED);
    owner.unlock().unwrap();
}

fn a_cancelled_fiber_can_still_release_its_lock(place: Place) {
    let (_file, [owner, other]) = handles();
    owner.lock().unwrap();
    let (reader, _writer) = io::pipe().unwrap();
    let reader = File::from(OwnedFd::from(reader));
    let runtime = place.runtime();
    let fiber = place.spawn_waiting(&runtime, move || {
        assert_eq!(errno((&reader).read(&mut [0])), Errno::CANCELED);
        owner.unlock().unwrap();
        assert_eq!(errno(owner.lock()), Errno::CANCELED);
        owner
    });
    drop(runtime);
    let _still_open = fiber.join().unwrap();
    other.try_lock().unwrap();
}

//! Locks of `std` and of other crates, held by a fiber across a wait while another fiber wants
//! them.

use std::cell::Cell;
use std::sync::{Mutex, RwLock};

use dashmap::DashMap;

use super::{Use, WAIT, overlap};

pub(super) const USES: &[Use] = &[
    Use::new("std-mutex", "a `Mutex` held across a wait", std_mutex),
    Use::new(
        "std-rwlock",
        "an `RwLock` held by a writer, then by a reader",
        std_rwlock,
    ),
    Use::new(
        "parking_lot-mutex",
        "a `Mutex` held across a wait",
        parking_lot_mutex,
    ),
    Use::new(
        "parking_lot-rwlock",
        "an `RwLock` held by a writer, then by a reader",
        parking_lot_rwlock,
    ),
    Use::new(
        "parking_lot-reentrant",
        "a `ReentrantMutex`, which only its owner may lock again",
        parking_lot_reentrant,
    ),
    Use::new("dashmap", "an entry held across a wait", dashmap),
];

fn std_mutex() {
    let value = Mutex::new(0);
    overlap(
        |begun| {
            let mut guard = value.lock().expect("no panic");
            begun();
            uthread::sleep(WAIT);
            *guard += 1;
        },
        || *value.lock().expect("no panic") *= 10,
    );
    assert_eq!(value.into_inner().expect("no panic"), 10);
}

fn std_rwlock() {
    let value = RwLock::new(0);
    overlap(
        |begun| {
            let mut guard = value.write().expect("no panic");
            begun();
            uthread::sleep(WAIT);
            *guard = 1;
        },
        || assert_eq!(*value.read().expect("no panic"), 1),
    );
    overlap(
        |begun| {
            let guard = value.read().expect("no panic");
            begun();
            uthread::sleep(WAIT);
            assert_eq!(*guard, 1);
        },
        || *value.write().expect("no panic") = 2,
    );
    assert_eq!(value.into_inner().expect("no panic"), 2);
}

fn parking_lot_mutex() {
    let value = parking_lot::Mutex::new(0);
    overlap(
        |begun| {
            let mut guard = value.lock();
            begun();
            uthread::sleep(WAIT);
            *guard += 1;
        },
        || *value.lock() *= 10,
    );
    assert_eq!(value.into_inner(), 10);
}

fn parking_lot_rwlock() {
    let value = parking_lot::RwLock::new(0);
    overlap(
        |begun| {
            let mut guard = value.write();
            begun();
            uthread::sleep(WAIT);
            *guard = 1;
        },
        || assert_eq!(*value.read(), 1),
    );
    overlap(
        |begun| {
            let guard = value.read();
            begun();
            uthread::sleep(WAIT);
            assert_eq!(*guard, 1);
        },
        || *value.write() = 2,
    );
    assert_eq!(value.into_inner(), 2);
}

fn parking_lot_reentrant() {
    let value = parking_lot::ReentrantMutex::new(Cell::new(0));
    overlap(
        |begun| {
            let guard = value.lock();
            begun();
            uthread::sleep(WAIT);
            value.lock().set(guard.get() + 1);
        },
        || {
            let guard = value.lock();
            assert_eq!(guard.get(), 1, "two fibers own the lock");
        },
    );
}

fn dashmap() {
    let map = DashMap::new();
    overlap(
        |begun| {
            let mut entry = map.entry("key").or_insert(1);
            begun();
            uthread::sleep(WAIT);
            *entry += 1;
        },
        || assert_eq!(*map.entry("key").or_insert(9), 2),
    );
    assert_eq!(map.len(), 1);
}

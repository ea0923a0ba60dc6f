//! One bucket of the parking lot: the queues of the addresses that share it.

use std::collections::BTreeMap;

use crate::fiber::WakeHandle;

/// Wait queues by address.
#[derive(Default)]
pub(super) struct Bucket {
    next_position: u64,
    /// Bounded by the number of fibers and threads.
    waiting: BTreeMap<Key, Waiting>,
}

/// The address at which a waiter waits, and its position among all of the bucket.
pub(super) type Key = (usize, u64);

struct Waiting {
    handle: WakeHandle,
    /// The kind of wait, as the lock defines it.
    want: usize,
}

impl Bucket {
    pub(super) const fn new() -> Bucket {
        Bucket {
            next_position: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Returns what each waiter at an address wants, the first one first. Leaves out those that are
    /// abandoned: they are still to leave by themselves, and take nothing before.
    pub(super) fn wants(&self, address: usize) -> impl Iterator<Item = usize> {
        self.live(address).map(|(_, waiting)| waiting.want)
    }

    fn live(&self, address: usize) -> impl Iterator<Item = (&Key, &Waiting)> {
        let queue = (address, 0)..=(address, u64::MAX);
        let waiting = self.waiting.range(queue);
        waiting.filter(|(_, waiting)| !waiting.handle.is_abandoned())
    }

    /// Returns the position of the first waiter at an address that is not abandoned, or the
    /// position after all others.
    pub(super) fn first_position(&mut self, address: usize) -> u64 {
        let first = self
            .live(address)
            .next()
            .map(|(&(_, position), _)| position);
        first.unwrap_or(self.next_position)
    }

    /// Returns the position after all others.
    pub(super) fn new_position(&mut self) -> u64 {
        let position = self.next_position;
        self.next_position += 1;
        position
    }

    pub(super) fn insert(&mut self, key: Key, handle: WakeHandle, want: usize) {
        self.waiting.insert(key, Waiting { handle, want });
    }

    /// Removes the first waiter at an address that is not abandoned.
    pub(super) fn take_first(&mut self, address: usize) -> Option<WakeHandle> {
        let (&key, _) = self.live(address).next()?;
        let waiting = self.waiting.remove(&key)?;
        Some(waiting.handle)
    }

    /// Removes the first waiter at an address, abandoned or not.
    pub(super) fn take_any(&mut self, address: usize) -> Option<WakeHandle> {
        let queue = (address, 0)..=(address, u64::MAX);
        let (&key, _) = self.waiting.range(queue).next()?;
        let waiting = self.waiting.remove(&key)?;
        Some(waiting.handle)
    }

    /// Removes a waiter; returns `false` if it was not there.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        self.waiting.remove(&key).is_some()
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.waiting.contains_key(&key)
    }
}

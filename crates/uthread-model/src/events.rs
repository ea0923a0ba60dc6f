//! Future events in the order of their times, and of their addition where the times are equal: a
//! simulation is deterministic.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A queue of events in virtual time. It has a few for each request in progress.
pub(crate) struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    added: u64,
}

struct Entry<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> Events<E> {
    pub(crate) fn new() -> Events<E> {
        Events {
            heap: BinaryHeap::new(),
            added: 0,
        }
    }

    pub(crate) fn add(&mut self, at: u64, event: E) {
        let number = self.added;
        self.added += 1;
        self.heap.push(Entry { at, number, event });
    }

    /// Returns the time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Removes the next event, and returns it with its time.
    pub(crate) fn take(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// Orders the next event as the greatest, which a heap returns first.
    fn cmp(&self, other: &Entry<E>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_the_order_of_time_and_addition() {
        let mut events = Events::new();
        for (at, event) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            events.add(at, event);
        }
        assert_eq!(events.next_at(), Some(3));
        let taken = std::iter::from_fn(|| events.take());
        assert_eq!(
            Vec::from_iter(taken),
            [(3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]
        );
    }
}

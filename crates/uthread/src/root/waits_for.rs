//! Fibers that wait for each other.

use std::{fmt, iter, mem};

/// The fiber for which a fiber waits, by its id; see the examples of
/// [`runtime::fibers`](crate::runtime::fibers()) and [`cycle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WaitsFor {
    /// It waits for a lock, of a [`Mutex`](crate::sync::Mutex) or of the writer of a
    /// [`RwLock`](crate::sync::RwLock), that this fiber holds.
    Lock(u64),
    /// It waits for the end of this fiber, which it [joins](crate::thread::JoinHandle::join).
    End(u64),
}

impl WaitsFor {
    fn fiber(self) -> u64 {
        match self {
            WaitsFor::Lock(fiber) | WaitsFor::End(fiber) => fiber,
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsFor::Lock(holder) => write!(formatter, "a lock of fiber {holder}"),
            WaitsFor::End(joined) => write!(formatter, "the end of fiber {joined}"),
        }
    }
}

/// Returns fibers of which each waits for the next one, and the last one for the first one. Empty if
/// there are none. `waiting` has the ids of those that wait for another one, and for which.
///
/// ```
/// use uthread::root::{WaitsFor, cycle};
///
/// let (one, other) = ((128, WaitsFor::Lock(129)), (129, WaitsFor::Lock(128)));
/// assert_eq!(cycle([(64, WaitsFor::End(128)), one, other]), [one, other]);
/// assert_eq!(cycle([(64, WaitsFor::End(128)), one]), []);
/// let own = (64, WaitsFor::Lock(64));
/// assert_eq!(cycle([own]), [own]);
/// ```
#[must_use]
pub fn cycle(waiting: impl IntoIterator<Item = (u64, WaitsFor)>) -> Vec<(u64, WaitsFor)> {
    let mut waiting = Vec::from_iter(waiting);
    waiting.sort_unstable_by_key(|(id, _)| *id);
    let place_of = |fiber: u64| waiting.binary_search_by_key(&fiber, |(id, _)| *id).ok();
    let mut visited = vec![false; waiting.len()];
    for first in 0..waiting.len() {
        let path = iter::successors(Some(first), |place| place_of(waiting[*place].1.fiber()));
        let mut way = Vec::new();
        for place in path {
            if mem::replace(&mut visited[place], true) {
                // It ends in an earlier way, or in this one.
                if let Some(start) = way.iter().position(|passed| *passed == place) {
                    return way[start..].iter().map(|place| waiting[*place]).collect();
                }
                break;
            }
            way.push(place);
        }
    }
    Vec::new()
}

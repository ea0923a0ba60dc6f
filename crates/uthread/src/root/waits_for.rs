//! Fibers that wait for each other.

use std::collections::{BTreeMap, HashSet};
use std::{fmt, iter};

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
    let waiting: BTreeMap<_, _> = waiting.into_iter().collect();
    let of = |id: u64| Some((id, *waiting.get(&id)?));
    let mut visited = HashSet::new();
    for first in waiting.keys() {
        let path = iter::successors(of(*first), |(_, waits_for)| of(waits_for.fiber()));
        let mut way: Vec<(u64, WaitsFor)> = Vec::new();
        for (id, waits_for) in path {
            if !visited.insert(id) {
                // It ends in an earlier way, or in this one.
                let start = way.iter().position(|(passed, _)| *passed == id);
                if let Some(start) = start {
                    return way.split_off(start);
                }
                break;
            }
            way.push((id, waits_for));
        }
    }
    Vec::new()
}

//! Fibers that wait for each other.

use std::collections::{BTreeMap, HashSet};
use std::iter;

/// Returns fibers of which each waits for the next one, and the last one for the first one. Empty if
/// there are none. `waiting` has for each fiber that waits for another one the id of that.
///
/// ```
/// use uthread::root::cycle;
///
/// assert_eq!(cycle(&[(64, 128), (128, 129), (129, 128)].into()), [128, 129]);
/// assert_eq!(cycle(&[(64, 128), (128, 129)].into()), []);
/// assert_eq!(cycle(&[(64, 64)].into()), [64]);
/// ```
#[must_use]
pub fn cycle(waiting: &BTreeMap<u64, u64>) -> Vec<u64> {
    let mut visited = HashSet::new();
    for first in waiting.keys() {
        let path = iter::successors(Some(*first), |id| waiting.get(id).copied());
        let mut way: Vec<u64> = Vec::new();
        for id in path {
            if !visited.insert(id) {
                // It ends in an earlier way, or in this one.
                let start = way.iter().position(|passed| *passed == id);
                if let Some(start) = start {
                    return way.split_off(start);
                }
                break;
            }
            way.push(id);
        }
    }
    Vec::new()
}

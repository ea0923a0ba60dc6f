//! Finds the faults of a world that it takes to make a test fail: those without which it still fails are left
//! out, many at first and then one by one (Zeller, Hildebrandt: Simplifying and isolating failure-inducing
//! input, 2002).

use super::{child, failure};
use crate::faults::{self, Set};

/// Leaves out faults of a run that fails, and panics with those that are left, and how to repeat it.
pub(super) fn report(test: &str, seed: u64) -> ! {
    let run = |faults: Option<&Set>| child::run(test, &(seed..seed + 1), faults);
    let given = faults::chosen();
    let Some(before) = run(given.as_ref()) else {
        panic!("seed {seed} fails among others, and not alone");
    };
    let Some(count) = faults::count_in(&before.output) else {
        eprintln!("{}", before.output);
        panic!("seed {seed} fails, and there is no world whose faults could be left out");
    };
    let all = (1..=count).filter(|fault| given.as_ref().is_none_or(|given| given.has(*fault)));
    let all: Vec<_> = all.collect();
    let left = shrink(all.clone(), |faults| {
        run(Some(&faults.iter().copied().collect())).is_some()
    });
    let left: Set = left.into_iter().collect();
    if let Some(last) = run(Some(&left)) {
        eprintln!("{}", last.output);
    }
    let failure = failure(seed, Some(&left), test);
    panic!("{failure}\n{} of {} faults are left", left.len(), all.len());
}

/// Removes numbers as long as what is left fails. Without any one of the result, it does not.
fn shrink(mut left: Vec<u64>, fails: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    let mut length = left.len();
    while length > 0 {
        let mut has_removed = false;
        let mut at = 0;
        while at < left.len() {
            let end = left.len().min(at + length);
            let rest = [&left[..at], &left[end..]].concat();
            if fails(&rest) {
                left = rest;
                has_removed = true;
            } else {
                at = end;
            }
        }
        // Once more, as one that was needed may have been for another's sake.
        if length > 1 || !has_removed {
            length /= 2;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::shrink;

    #[test]
    fn what_is_needed_is_left() {
        let calls = Cell::new(0);
        let left = shrink((1..=1000).collect(), |left| {
            calls.set(calls.get() + 1);
            left.contains(&17) && left.contains(&700) && left.contains(&701)
        });
        assert_eq!(left, [17, 700, 701]);
        assert!(calls.get() < 100, "{} runs", calls.get());
        assert_eq!(shrink((1..=9).collect(), |_| true), []);
        assert_eq!(shrink((1..=3).collect(), |left| left.len() == 3), [1, 2, 3]);
    }

    /// Without 2, the test fails without 1 only.
    #[test]
    fn what_another_needed_is_left_out() {
        let left = shrink(vec![1, 2, 3], |left| {
            left.contains(&3) && (left.contains(&2) || !left.contains(&1))
        });
        assert_eq!(left, [3]);
    }
}

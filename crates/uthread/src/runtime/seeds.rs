//! The seeds with which a test is repeated.
//!
//! | variable | |
//! | --- | --- |
//! | `UTHREAD_SEED` | the only seed |
//! | `UTHREAD_SEEDS` | the number of seeds, from 0 on, instead of that of the test |

use std::env;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::thread;

const ONE: &str = "UTHREAD_SEED";
const COUNT: &str = "UTHREAD_SEEDS";

/// Returns the seeds of a test that asks for so many.
///
/// # Panics
///
/// Panics if a variable is no number, or if there is no seed: the test would not run.
pub(super) fn chosen(count: u64) -> RangeInclusive<u64> {
    if let Some(seed) = number(ONE) {
        return seed..=seed;
    }
    let count = number(COUNT).unwrap_or(count);
    assert!(count > 0, "no seeds: choose at least 1");
    0..=count - 1
}

/// Returns the number in a variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let value = env::var_os(variable)?;
    let number = value.to_str().map(u64::from_str);
    let Some(Ok(number)) = number else {
        panic!("{variable}={}: give a number", value.display());
    };
    Some(number)
}

/// A run with this seed, which says how to repeat it unless it is forgotten.
pub(super) struct Run(pub(super) u64);

impl Drop for Run {
    fn drop(&mut self) {
        let seed = self.0;
        let thread = thread::current();
        let test = thread.name().unwrap_or_default();
        eprintln!("uthread: seed {seed} fails: {ONE}={seed} cargo test -- --exact {test}");
    }
}

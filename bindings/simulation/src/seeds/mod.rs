//! The seeds with which a test is repeated.
//!
//! | variable | |
//! | --- | --- |
//! | `UTHREAD_SEED` | the only seed |
//! | `UTHREAD_SEEDS` | the number of seeds, from 0 on, instead of that of the test; or which, as `200..300` |
//! | `UTHREAD_SHRINK` | leaves out the [faults](crate::faults) without which the seed still fails |
//!
//! A number of seeds in `UTHREAD_SEEDS` is tried by processes, one a CPU, and so is a test whose faults
//! are to be left out.
//!
//! | module | contents |
//! | --- | --- |
//! | [`search`] | finds the first seed that fails |
//! | [`shrink`] | finds the faults that it takes |
//! | [`child`] | a process that runs a test with some seeds |

mod search;
mod shrink;

mod child;

use std::ops::Range;
use std::process::ExitCode;
use std::{env, mem, thread};

use uthread::runtime::Builder;

use crate::faults;

const ONE: &str = "UTHREAD_SEED";
const MANY: &str = "UTHREAD_SEEDS";
const SHRINK: &str = "UTHREAD_SHRINK";

/// Which seeds, and whether processes may search them.
#[derive(Debug, PartialEq, Eq)]
struct Chosen {
    seeds: Range<u64>,
    by_processes: bool,
}

/// Runs a test with so many seeds: what `#[uthread::test(virtual_time, seeds = ..)]` expands to.
#[doc(hidden)]
#[track_caller]
pub fn repeat(builder: Builder, count: u64, test: impl Fn(Builder) -> ExitCode) -> ExitCode {
    let variable = |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let is_shrinking = variable(SHRINK).is_some();
    let mut chosen = choose(count, variable(ONE), variable(MANY));
    // The main thread has no name of a test, by which a process could run it.
    let name = thread::current().name().unwrap_or("main").to_owned();
    if name != "main" && (chosen.by_processes || is_shrinking) {
        let Some(first) = search::first_failing(&name, chosen.seeds) else {
            return ExitCode::SUCCESS;
        };
        if is_shrinking {
            shrink::report(&name, first);
        }
        chosen.seeds = first..first + 1;
    }
    for seed in chosen.seeds {
        let run = Run(seed);
        let code = test(crate::seeded(builder.clone(), seed));
        if code != ExitCode::SUCCESS {
            return code;
        }
        mem::forget(run);
    }
    ExitCode::SUCCESS
}

/// Chooses from what the test says and the variables.
///
/// # Panics
///
/// Panics if a variable has another form, or if there is no seed: the test would not run.
fn choose(count: u64, one: Option<String>, many: Option<String>) -> Chosen {
    let number = |variable: &str, text: &str| -> u64 {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text}: give a number"))
    };
    let (seeds, by_processes) = match (one, many) {
        (Some(one), _) => {
            let seed = number(ONE, &one);
            (seed..seed.saturating_add(1), false)
        }
        (None, None) => (0..count, false),
        (None, Some(many)) => match many.split_once("..") {
            Some((first, end)) => (number(MANY, first)..number(MANY, end), false),
            None => (0..number(MANY, &many), true),
        },
    };
    assert!(!seeds.is_empty(), "no seeds: choose at least 1");
    Chosen {
        seeds,
        by_processes,
    }
}

/// A run with this seed, which says how to repeat it unless it is forgotten.
struct Run(u64);

impl Drop for Run {
    fn drop(&mut self) {
        let thread = thread::current();
        let test = thread.name().unwrap_or_default();
        eprintln!("{}", failure(self.0, faults::chosen().as_ref(), test));
    }
}

/// Returns what is said of a seed that fails.
fn failure(seed: u64, faults: Option<&faults::Set>, test: &str) -> String {
    let faults = faults.map_or_else(String::new, |set| format!(" {}={set}", faults::VARIABLE));
    let start = child::failure_of(seed);
    format!("{start} {ONE}={seed}{faults} cargo test -- --exact {test}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(one: Option<&str>, many: Option<&str>) -> (Range<u64>, bool) {
        let Chosen {
            seeds,
            by_processes,
        } = choose(10, one.map(str::to_owned), many.map(str::to_owned));
        (seeds, by_processes)
    }

    #[test]
    fn variables_choose_the_seeds() {
        assert_eq!(chosen(None, None), (0..10, false));
        assert_eq!(chosen(None, Some("300")), (0..300, true));
        assert_eq!(chosen(None, Some("200..300")), (200..300, false));
        assert_eq!(chosen(Some("7"), Some("300")), (7..8, false));
    }

    #[test]
    #[should_panic(expected = "UTHREAD_SEEDS=many: give a number")]
    fn other_text_is_refused() {
        chosen(None, Some("many"));
    }

    #[test]
    #[should_panic(expected = "no seeds: choose at least 1")]
    fn a_test_runs_at_least_once() {
        chosen(None, Some("5..5"));
    }
}

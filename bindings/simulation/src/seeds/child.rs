//! A process that runs one test of this program with some seeds.

use std::env;
use std::ops::Range;
use std::process::{Command, Stdio};

use super::{MANY, ONE, SHRINK};
use crate::faults;

/// How a run has ended that has failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// `None` if the process has ended before it said so.
    pub(super) seed: Option<u64>,
    /// What the process has written.
    pub(super) output: String,
}

/// Returns how the line begins that says which seed fails.
pub(super) fn failure_of(seed: u64) -> String {
    format!("uthread: seed {seed} fails:")
}

/// Runs a test with these seeds, and with these faults only. Returns the first failure.
///
/// # Panics
///
/// Panics if no process can be started.
pub(super) fn run(test: &str, seeds: &Range<u64>, faults: Option<&faults::Set>) -> Option<Failure> {
    let mut command = Command::new(env::current_exe().expect("the program has a path"));
    command
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(MANY, format!("{}..{}", seeds.start, seeds.end))
        .env_remove(ONE)
        .env_remove(SHRINK)
        .stdin(Stdio::null());
    if let Some(faults) = faults {
        command.env(faults::VARIABLE, faults.to_string());
    }
    let run = command.output();
    let run = run.unwrap_or_else(|error| panic!("no process can run the test: {error}"));
    let output = String::from_utf8_lossy(&run.stderr).into_owned();
    let seed = output.lines().find_map(failing_seed);
    // A test that has to panic fails as it passes.
    (seed.is_some() || !run.status.success()).then_some(Failure { seed, output })
}

/// Returns the seed of a line that [`failure_of`] begins.
fn failing_seed(line: &str) -> Option<u64> {
    let (seed, _) = line.strip_prefix("uthread: seed ")?.split_once(" fails:")?;
    seed.parse().ok()
}

//! The work of fibers in an epoch: short scenarios that check their results, and fibers that wait
//! until they are cancelled.

mod endless;
mod faults;
mod files;
mod foreign;
mod streams;
mod trees;
mod wakes;

use std::io;
use std::sync::Arc;

use crate::random::Random;
use crate::stage::Stage;

pub(crate) use endless::start_endless;
pub(crate) use trees::Planned;

/// Work that ends, and fails only by a cancellation or a fault of the library.
type Scenario = fn(&Arc<Stage>, &mut Random) -> io::Result<()>;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("a tree of fibers that are joined", trees::joined),
    ("a tree of scopes", trees::scoped),
    ("a tree of forks", trees::forked),
    ("detached fibers", trees::detached),
    ("a fiber that panics", trees::panics),
    ("a scope whose fiber panics", trees::panics_in_scope),
    ("destructors that wait", trees::waits_in_destructors),
    ("a runtime within a fiber", trees::inner_runtime),
    ("fibers that wake each other", wakes::each_other),
    (
        "a fiber and a thread that wake each other",
        wakes::with_thread,
    ),
    ("sleeps", wakes::sleeps),
    ("yields", wakes::yields),
    ("blocking calls", wakes::blocking_calls),
    ("a stream", streams::one_way),
    ("a stream with timeouts", streams::with_timeouts),
    ("streams both ways", streams::both_ways),
    ("a pipe", streams::pipe),
    ("a stream from a file", streams::from_file),
    ("a sender that resets", faults::sender_resets),
    ("a receiver that resets", faults::receiver_resets),
    ("a refused connection", faults::refused),
    ("reads that expire", faults::reads_expire),
    ("a connect that expires", faults::connect_expires),
    ("an accept that is ended", faults::accept_ends),
    ("a file written in pieces", files::in_pieces),
    ("a file written as a whole", files::as_whole),
];

/// Work of fibers with thread-local storage of their own.
const FOREIGN: &[(&str, Scenario)] = &[
    ("a channel of std", foreign::channel),
    ("a lock of std across waits", foreign::lock_across_waits),
    ("thread-local values across waits", foreign::thread_locals),
    ("a computation", foreign::computes),
];

/// Runs one scenario after the other until the epoch ends.
pub(crate) fn keep_going(stage: &Arc<Stage>, mut random: Random) {
    let foreign = if stage.may_block { FOREIGN } else { &[] };
    while !stage.is_stopping() {
        let number = random.usize(..SCENARIOS.len() + foreign.len());
        let scenario = SCENARIOS.iter().chain(foreign).nth(number);
        let (name, scenario) = scenario.expect("there are more");
        if let Err(error) = scenario(stage, &mut random) {
            stage.judge(name, &error);
            break;
        }
    }
}

/// Runs work that a thread outside the runtime has spawned.
pub(crate) fn from_outside(stage: &Arc<Stage>, mut random: Random) -> io::Result<()> {
    match random.u64(..3) {
        0 => trees::joined(stage, &mut random),
        1 => wakes::yields(stage, &mut random),
        _ => wakes::sleeps(stage, &mut random),
    }
}

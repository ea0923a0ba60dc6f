//! Runs the examples and the ported program on every driver, and checks their output.
//!
//! Each runs in its own process, with the driver in its environment. `cargo test` builds them all
//! first; with `--test` cargo does not, and runs the programs that were built before.

#[expect(dead_code, reason = "the tests need one of the databases")]
#[path = "../../../dev/checks/crates/src/databases.rs"]
mod databases;
mod ecosystem;
mod harness;
mod library;
mod notes;
mod port;
mod postgres;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let trials = ecosystem::trials().into_iter().chain(port::trials());
    let trials = trials.chain(library::trials()).chain(notes::trials());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    postgres::end();
    harness::say_what_was_not_checked();
    conclusion.exit_code()
}

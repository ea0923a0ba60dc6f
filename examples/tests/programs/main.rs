//! Runs the examples and the ported program on every driver, and looks at what they print.
//!
//! Each is a process of its own, with the driver in its environment. `cargo test -p uthread-examples` builds them
//! first; `--test` alone does not, and runs what was built before.

mod ecosystem;
mod harness;
mod port;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let trials = ecosystem::trials().into_iter().chain(port::trials());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    harness::say_what_was_not_checked();
    conclusion.exit_code()
}

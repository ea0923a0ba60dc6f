//! The study in a program as others are.

use std::process::ExitCode;

fn main() -> ExitCode {
    uthread_crates::main()
}

//! The program `uthread`, which is in the library of this crate.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    uthread_cli::main()
}

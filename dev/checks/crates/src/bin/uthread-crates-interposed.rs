//! The study in a program that names `uthread-interpose`.

use std::process::ExitCode;

use uthread_interpose as _;

fn main() -> ExitCode {
    uthread_crates::main()
}

//! Runs one operation of the library again and again. `cargo xtask cost` counts its instructions
//! under callgrind; `uthread-cost ratio` times it against a floor in the same process. README.md
//! describes the operations.

mod floor;
mod operations;
mod ratio;

use std::process::ExitCode;

use operations::Operation;
use ratio::Pair;
use uthread::{Driver, Runtime};

const USAGE: &str = "\
Usage: uthread-cost <operation> <count>
       uthread-cost ratio yield|spawn
       uthread-cost list";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["list"] => {
            for operation in operations::ALL {
                println!("{}", operation.name);
            }
            Ok(())
        }
        ["ratio", name] => ratio(name),
        [name, count] => run(name, count),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("uthread-cost: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(name: &str, count: &str) -> Result<(), String> {
    let operation = Operation::by_name(name)
        .ok_or_else(|| format!("unknown operation {name:?}; `uthread-cost list` prints them"))?;
    let count = count
        .parse()
        .map_err(|_| format!("not a count: {count:?}"))?;
    runtime()?.run(|| (operation.repeat)(count));
    Ok(())
}

fn ratio(name: &str) -> Result<(), String> {
    let pair = Pair::by_name(name).ok_or(USAGE)?;
    runtime()?.run(|| pair.print_ratio());
    Ok(())
}

/// Builds a runtime with one worker. Callgrind runs no io_uring system calls.
fn runtime() -> Result<Runtime, String> {
    let builder = Runtime::builder().workers(1);
    let runtime = builder.driver(Driver::Epoll).build();
    runtime.map_err(|error| format!("cannot start a runtime: {error}"))
}

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

/// The prefix of an operation of lean fibers.
const LEAN: &str = "lean-";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["list"] => {
            print_names();
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

fn print_names() {
    let plain = operations::ALL.iter().map(|operation| operation.name);
    let lean = plain
        .clone()
        .filter(|name| operations::OF_FIBERS.contains(name));
    plain.for_each(|name| println!("{name}"));
    lean.for_each(|name| println!("{LEAN}{name}"));
}

fn run(name: &str, count: &str) -> Result<(), String> {
    let plain = name.strip_prefix(LEAN);
    let operation = Operation::by_name(plain.unwrap_or(name))
        .ok_or_else(|| format!("unknown operation {name:?}; `uthread-cost list` prints them"))?;
    let count = count
        .parse()
        .map_err(|_| format!("not a count: {count:?}"))?;
    runtime(plain.is_some())?.run(|| (operation.repeat)(count));
    Ok(())
}

fn ratio(name: &str) -> Result<(), String> {
    let pair = Pair::by_name(name).ok_or(USAGE)?;
    runtime(false)?.run(|| pair.print_ratio());
    Ok(())
}

/// Builds a runtime with one worker. Callgrind runs no io_uring system calls.
fn runtime(is_lean: bool) -> Result<Runtime, String> {
    let builder = Runtime::builder().workers(1);
    let builder = if is_lean { builder.lean() } else { builder };
    let runtime = builder.driver(Driver::Epoll).build();
    runtime.map_err(|error| format!("cannot start a runtime: {error}"))
}

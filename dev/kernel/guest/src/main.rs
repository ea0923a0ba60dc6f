//! Tests `IOSQE_URGENT`, as the first process of a machine or by hand as root.
//!
//! On a kernel without the flag, the same batches are submitted without it, so that the tests of
//! the order fail because of the order. `cargo xtask kernel-patch` runs this program on both
//! kernels, and reads the lines that begin with `@@`.

mod order;

mod batch;

mod ring;

mod trace;

mod context;

mod urgent;

mod scheduling;

mod runtime;

mod plain;

mod cost;

mod machine;

mod outcome;

use std::env;
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::process::{self, ExitCode};

use context::Context;
use outcome::Outcome;
use ring::{Kind, Ring};

/// The argument that selects measurements instead of tests.
const COST: &str = "cost";

fn main() -> ExitCode {
    let is_first = process::id() == 1;
    let mut output: Box<dyn Write> = Box::new(io::stdout());
    let result = (|| {
        if is_first {
            output = machine::prepare()?;
        }
        run(&mut output, env::args().any(|argument| argument == COST))
    })();
    if let Err(error) = &result {
        let _ = writeln!(output, "@@ error {error}");
    }
    if is_first {
        drop(output);
        machine::restart();
    }
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(2),
    }
}

/// Writes the results; returns true if nothing failed.
fn run(output: &mut dyn Write, measures: bool) -> Result<bool, Box<dyn Error>> {
    writeln!(output, "@@ kernel {}", machine::release())?;
    let has_flag = match Ring::with_flag(Kind::Plain) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::InvalidInput => false,
        Err(error) => return Err(error.into()),
    };
    let mut passed = true;
    if measures {
        cost::measure(output, has_flag)?;
    } else {
        let mut report = |group: &str, name: &str, outcome: Outcome| {
            passed &= outcome.is_ok();
            match outcome {
                Ok(found) => writeln!(output, "@@ passed {group}::{name}: {found}"),
                Err(error) => writeln!(output, "@@ failed {group}::{name}: {error}"),
            }
        };
        let mut context = Context::new(has_flag)?;
        for (name, test) in urgent::TESTS {
            report("urgent", name, test(&mut context))?;
        }
        for (name, test) in runtime::TESTS {
            report("runtime", name, test(&mut context))?;
        }
        for (name, test) in plain::TESTS {
            report("plain", name, test(Ring::new))?;
        }
        for (name, test) in plain::TESTS {
            report("after", name, test(Ring::with_flag))?;
        }
    }
    writeln!(output, "@@ done")?;
    Ok(passed)
}

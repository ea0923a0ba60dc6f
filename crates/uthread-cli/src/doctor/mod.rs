//! `uthread doctor`: checks what this machine supports, and prints replacements for missing
//! features and remedies.
//!
//! Collects facts (`system`, `limits`, and the library's own diagnosis), explains refusals
//! (`refusal`), and tests every driver (`self_test`). The result is one report, printed as text
//! (`page`) or as JSON.

mod report;

mod limits;
mod refusal;
mod remedy;
mod system;

mod self_test;

mod page;
mod text;

use std::io::Write;
use std::time::Duration;
use std::{env, io};

use uthread::{Driver, Runtime};

use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::output::print;
use remedy::Remedy;
use report::{Chosen, Findings, IoUring, Report};
use system::System;

pub(crate) fn run(args: &DoctorArgs) -> Exit {
    let findings = examine();
    if !args.json {
        let printed = print(|out| page::write_findings(out, &findings));
        if printed != Exit::Done {
            return printed;
        }
    }
    let duration = Duration::from_secs_f64(args.seconds);
    let tests: Vec<_> = Driver::ALL
        .iter()
        .map(|&driver| self_test::run(driver, duration))
        .collect();
    let report = Report::new(findings, tests);
    let printed = print(|out| {
        if args.json {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)
        } else {
            page::write_outcome(out, &report)
        }
    });
    match printed {
        Exit::Done if !report.healthy => Exit::FailedRunning,
        exit => exit,
    }
}

/// Collects everything but the self-tests, which take longer.
fn examine() -> Findings {
    let system = System::read();
    let diagnosis = uthread::runtime::diagnose();
    let limits = limits::judge(&system, &diagnosis);
    let runtime = Runtime::new();
    let mut remedies: Vec<Remedy> = Vec::new();
    if let Err(error) = &runtime {
        remedies.push(no_start(error));
    }
    if let Err(error) = &diagnosis.ring {
        let ring_bytes = diagnosis.ring_locked_bytes as u64;
        remedies.extend(refusal::remedies(error, &system, ring_bytes));
    }
    remedies.extend(limits::remedies(&system, &diagnosis));
    Findings {
        version: env!("CARGO_PKG_VERSION"),
        driver: Chosen::new(runtime),
        io_uring: IoUring::new(&diagnosis),
        system_features: report::features(&diagnosis.system_features),
        system,
        limits,
        remedies,
    }
}

/// Returns the remedy for a program that requests no driver and cannot start.
fn no_start(error: &io::Error) -> Remedy {
    let asked_for = env::var_os("UTHREAD_DRIVER").map(|_| "unset UTHREAD_DRIVER");
    let commands = refusal::command(error).into_iter().chain(asked_for);
    Remedy::new(format!("Programs cannot start: {error}."), commands)
}

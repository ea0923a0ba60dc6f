//! The threads that copies of a use take at once, in a program without `uthread-interpose` and in one
//! with it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use crate::mode::{INTERPOSED, Mode};
use crate::services;
use crate::table::{Verdict, attempt};
use crate::uses::Use;

/// Copies that have not ended after this time hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Prints the table. Returns `true` if all copies end right.
pub(crate) fn run(uses: &[&'static Use], workers: usize, copies: usize) -> Result<bool, String> {
    let failed = |error: io::Error| error.to_string();
    let programs = programs().map_err(failed)?;
    // Kept until all trials have ended, as several uses share a server.
    let mut running = Vec::new();
    let mut all_right = true;
    println!("| {copies} at once | threads | interposed | time, ms | interposed |");
    println!("| --- | --- | --- | --- | --- |");
    for item in uses {
        match item.service.map(services::provide).transpose() {
            Ok(service) => running.extend(service),
            Err(absent) => {
                println!("| {}: {absent} | | | | |", item.name);
                continue;
            }
        }
        let trial = |program: &Path| attempt(program, item, Mode::Default, workers, copies, LIMIT);
        let verdicts = [trial(&programs[0]), trial(&programs[1])];
        let (mut threads, mut times) = (String::new(), String::new());
        for verdict in verdicts {
            match verdict.map_err(failed)? {
                Verdict::Ended(report) if report.failure.is_none() => {
                    threads += &format!(" {} |", report.threads);
                    times += &format!(" {} |", report.duration_ms);
                }
                verdict => {
                    all_right = false;
                    threads += &format!(" {} |", verdict.cell());
                    times += &format!(" {} |", verdict.reason().unwrap_or_default());
                }
            }
        }
        println!("| {} |{threads}{times}", item.name);
    }
    Ok(all_right)
}

/// Returns this program, and the one that names `uthread-interpose`.
fn programs() -> io::Result<[PathBuf; 2]> {
    let here = env::current_exe()?;
    Ok([here.clone(), here.with_file_name(INTERPOSED)])
}

//! `uthread trace`: what the workers of a running program do, for a viewer of traces.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::{Context as _, Result};

use crate::args::TraceArgs;
use crate::exit::Exit;
use crate::output::{print, tell};

pub(crate) fn run(args: &TraceArgs) -> Exit {
    let summary = match record(args) {
        Ok(summary) => summary,
        Err(error) => {
            tell(format_args!("{error:#}"));
            return Exit::FailedRunning;
        }
    };
    print(|out| writeln!(out, "{summary}"))
}

/// Records a trace into a file. Returns a summary.
fn record(args: &TraceArgs) -> Result<String> {
    let path = args.output.display();
    // Before the program is traced in vain.
    let file = File::create(&args.output).with_context(|| format!("{path}"))?;
    let trace = uthread_dump::trace(args.pid, args.time)?;
    let mut out = BufWriter::new(file);
    let written = trace.write_json(&mut out, args.fibers);
    written.with_context(|| format!("{path}"))?;
    if trace.lost() > 0 {
        let lost = trace.lost();
        tell(format_args!(
            "{lost} events were overwritten before they were read: the trace has gaps"
        ));
    }
    if trace.events() == 0 {
        tell(format_args!(
            "no worker has switched to a fiber meanwhile; `uthread dump {}` shows fibers that compute or block their thread",
            args.pid
        ));
    }
    let (events, workers) = (trace.events(), trace.workers.len());
    Ok(format!(
        "{path}: {events} events of {workers} workers. Open it at https://ui.perfetto.dev or https://profiler.firefox.com"
    ))
}

//! The arguments of the subcommands that look into another process.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::positive_duration;

const DUMP_NOTES: &str = "\
The process need not have been built or started for this. It is stopped for a moment, \
while stacks are copied that have changed since a first copy. Its fibers are grouped by equal \
backtraces, those that have waited for longest first. Lines need line tables (debug = \"line-tables-only\" in the profile). A core file is read \
with the program and the libraries that it names. x86-64 only.

Exit codes:
  0 success
  1 the fibers cannot be read
  2 wrong usage";

#[derive(Debug, Args)]
#[command(after_help = DUMP_NOTES)]
pub(crate) struct DumpArgs {
    /// Id of the process, or a core file
    #[arg(value_name = "PID|CORE")]
    pub(crate) target: String,
    /// With a core file: the program, if it is not where it was
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
    /// Only fibers whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Only fibers that have been suspended for this long
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) older_than: Option<Duration>,
    /// Only fibers in a function, or waiting on a path or address, that contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) waiting_on: Option<String>,
    /// Do not stop the process: fibers that run meanwhile are shown without their calls
    #[arg(long, conflicts_with = "program")]
    pub(crate) no_stop: bool,
    /// Print every fiber as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const TRACE_NOTES: &str = "\
The process need not have been built or started for this. Its workers record when each fiber runs, \
why it stops, who wakes and spawns whom, and when they sleep, submit, steal and change their \
threads; this costs them a few percent meanwhile. The file is in Chrome's trace event format: open \
it at https://ui.perfetto.dev or https://profiler.firefox.com. x86-64 only.

Exit codes:
  0 success
  1 the process cannot be traced, or the file not be written
  2 wrong usage";

#[derive(Debug, Args)]
#[command(after_help = TRACE_NOTES)]
pub(crate) struct TraceArgs {
    /// Id of the process
    #[arg(value_name = "PID")]
    pub(crate) pid: i32,
    /// Record for this time
    #[arg(long = "for", default_value = "5s", value_parser = positive_duration, value_name = "TIME")]
    pub(crate) time: Duration,
    /// Write to this file
    #[arg(long, short, default_value = "trace.json", value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Add a track for each fiber, with what it waits for
    #[arg(long)]
    pub(crate) fibers: bool,
}

//! `uthread dump`: the fibers of a running program, or of a core file, from outside.

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;
use uthread_dump::Report;

use crate::args::DumpArgs;
use crate::exit::Exit;
use crate::output::{print, tell};

pub(crate) fn run(args: &DumpArgs) -> Exit {
    let mut report = match read(args) {
        Ok(report) => report,
        Err(error) => {
            tell(format_args!("{error:#}"));
            return Exit::FailedRunning;
        }
    };
    if let Some(text) = &args.name {
        report.keep_named(text);
    }
    if let Some(time) = args.older_than {
        report.keep_older_than(time);
    }
    if let Some(text) = &args.waiting_on {
        report.keep_waiting_on(text);
    }
    print(|out| write_report(out, &report, args.json))
}

fn read(args: &DumpArgs) -> anyhow::Result<Report> {
    match args.target.parse() {
        Ok(pid) if args.no_stop => uthread_dump::dump_running(pid),
        Ok(pid) if args.program.is_none() => uthread_dump::dump(pid),
        _ if args.no_stop => bail!(
            "{}: this is no process, which --no-stop is for",
            args.target
        ),
        _ => uthread_dump::dump_core(Path::new(&args.target), args.program.as_deref()),
    }
}

fn write_report(out: &mut dyn Write, report: &Report, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, report)?;
        return writeln!(out);
    }
    write!(out, "{report}")
}

//! One measurement in a process of its own, so that CPU time, context switches and memory are those
//! of one technique.
//!
//! The process gets the job as an argument and prints the report; both are JSON.

use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use uthread_report::program::output;

use crate::load::Load;
use crate::tally::Report;
use crate::technique::{self, Technique};
use crate::usage::Meter;

/// The work of a measuring process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// How it is performed.
    pub technique: Technique,
    /// The requests.
    #[serde(flatten)]
    pub load: Load,
}

/// Performs a job in this process, and prints its report.
pub(crate) fn perform(json: &str) -> Result<()> {
    // Whatever ends the program that waits for the report, `kill -9` included, ends this process,
    // too.
    set_parent_process_death_signal(Some(Signal::KILL)).context("ask to end with the parent")?;
    let job: Job = serde_json::from_str(json).context("a job")?;
    println!("{}", serde_json::to_string(&job.measure()?)?);
    Ok(())
}

impl Job {
    /// Performs the job in a process of its own, by the program `uthread` at this path.
    ///
    /// # Errors
    ///
    /// The last line of that process on stderr, if it has failed.
    pub fn run_by(&self, program: &Path) -> Result<Report> {
        let mut command = Command::new(program);
        command.args(["iobench", "--job", &serde_json::to_string(self)?]);
        // The technique has the driver.
        command.env_remove("UTHREAD_DRIVER");
        let text = output(&mut command)?;
        serde_json::from_str(&text).with_context(|| format!("it printed {text:?}"))
    }

    fn measure(&self) -> io::Result<Report> {
        let begin = Meter::now()?;
        let tally = technique::perform(self.technique, &self.load)?;
        // Some techniques prepare and verify.
        let (begin, end) = match tally.span {
            Some(span) => span,
            None => (begin, Meter::now()?),
        };
        let requests = tally.requests() as f64;
        let each = |end: f64, begin: f64| Some((end - begin) / requests);
        let [reads, writes, syncs] = tally.latencies();
        Ok(Report {
            seconds: (end.at - begin.at).as_secs_f64(),
            reads,
            writes,
            syncs,
            calls: tally.calls.map(|calls| calls as f64 / requests),
            usr_us: each(end.usr_us, begin.usr_us),
            sys_us: each(end.sys_us, begin.sys_us),
            context_switches: each(end.context_switches, begin.context_switches),
            involuntary_switches: each(end.involuntary_switches, begin.involuntary_switches),
            max_rss_mib: Some(end.max_rss_mib),
            written_per_put: tally.written_per_put,
        })
    }
}

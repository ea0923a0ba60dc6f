//! Options of a study, and one study that runs by itself and prints its tables as Markdown.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use uthread_report::file::write_whole;
use uthread_report::measure::quiet::QUIET_WAIT_SECONDS_MAX;
use uthread_report::results::Results;
use uthread_report::study::{Extent, Journal, Study, run, stop_on_interrupt};
use uthread_report::{facts, json, machine, markdown, say};

/// Options of every study.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Measuring {
    /// Number of rounds; each measures every subject once
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) rounds: u64,
    /// Length of one measurement
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
    /// Wait at most this long for a quiet machine before each measurement
    #[arg(long, default_value_t = QUIET_WAIT_SECONDS_MAX,
        value_parser = clap::value_parser!(u64).range(0..=QUIET_WAIT_SECONDS_MAX))]
    pub(crate) quiet_wait_seconds: u64,
    /// Measure only these subjects, by their names in the tables [default: all that are available]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) only: Vec<String>,
}

impl Measuring {
    pub(crate) fn quiet_wait(&self) -> Duration {
        Duration::from_secs(self.quiet_wait_seconds)
    }

    /// Returns whether a subject of that name is measured.
    pub(crate) fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Returns the extent of a run with these options, with build and machine.
    pub(crate) fn extent(&self) -> Extent {
        let (rounds, seconds) = (self.rounds, self.seconds);
        let mut facts = facts::of_run(&version());
        facts.extend(machine::facts());
        let measured = format!("{rounds} rounds, {seconds} s each");
        facts.push(("measured".to_owned(), measured));
        Extent {
            rounds: rounds as usize,
            only: self.only.clone(),
            facts,
        }
    }
}

/// Options of a study that runs by itself.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Alone {
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// Also write the figures of every round to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Alone {
    /// Runs the study until it is finished or interrupted, and prints its tables.
    pub(crate) fn run(&self, study: Study) -> Result<()> {
        let stop = stop_on_interrupt()?;
        let mut journal = Journal::default();
        let studies = run(&mut [study], &self.measuring.extent(), &mut journal, &stop)?;
        for study in &studies {
            say!("{}", markdown::show(study));
        }
        let results = Results { studies };
        match &self.json {
            None => Ok(()),
            Some(path) => write_whole(path, json::format(&results)?.as_bytes())
                .with_context(|| format!("write {}", path.display())),
        }
    }
}

/// Returns the version, with the commit where it is known: see `build.rs`.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("UTHREAD_COMMIT") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

//! The options of `uthread iobench`.

use std::path::PathBuf;

use uthread_report::measure::quiet::QUIET_WAIT_SECONDS_MAX;

use crate::scenario::Scenario;

/// Maximum number of requests at a time, for which a ring of the library has slots for registered
/// buffers.
const DEPTH_MAX: i64 = 256;

/// Scenarios, disk and extent of a run.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Scenarios to run [default: all]
    #[arg(value_enum, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<Scenario>,

    /// Directory on the disk to measure; the files in it have no names and vanish with the program
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Size of each file in MiB
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    pub(crate) mib: u64,

    /// Number of requests of each measurement, each for a block of 4 KiB
    #[arg(long, value_name = "N", default_value_t = 25_600, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) blocks: u64,

    /// Numbers of requests at a time
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [1, 4, 16, 64, 256],
        value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    pub(crate) depths: Vec<u32>,

    /// Number of batches of urgent-trace
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batches: u32,

    /// Number of rounds; each measures every technique once
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) rounds: u64,

    /// Measure only these techniques, by their names in the tables [default: all that are
    /// available]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Seed of random offsets and batches
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Wait at most this long for a quiet machine before each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = QUIET_WAIT_SECONDS_MAX,
        value_parser = clap::value_parser!(u64).range(0..=QUIET_WAIT_SECONDS_MAX))]
    pub(crate) quiet_wait: u64,

    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Also write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Perform one measurement, described as JSON
    #[arg(long, hide = true, value_name = "JSON")]
    pub(crate) job: Option<String>,
}

impl Options {
    /// Returns whether a technique of that name is measured.
    pub(crate) fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Returns the scenarios to run, in the order of the list and each once.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        let is_chosen =
            |scenario: &Scenario| self.scenarios.is_empty() || self.scenarios.contains(scenario);
        Scenario::ALL.into_iter().filter(is_chosen).collect()
    }
}

//! Disk: reads of 4 KiB past the page cache, compared with `fio` on the same file.

mod blocks;
pub(super) mod fio;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::program::output;
use uthread_report::results::{self, Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use crate::alone::{Alone, Measuring};
use crate::peers::{self, Program};
use crate::setup::peer_path;

/// Our subjects: a name, the arguments before the pattern, and those after. The others are compared with the first.
const OURS: [(&str, &[&str], &[&str]); 4] = [
    ("uthread", &["--driver", "uring", "disk"], &[]),
    (
        "uthread registered",
        &["--driver", "uring", "disk"],
        &["--registered"],
    ),
    ("uthread epoll", &["--driver", "epoll", "disk"], &[]),
    ("uthread threads", &["--driver", "threads", "disk"], &[]),
];

/// Reads at a time, from one to as many as keep such a disk busy.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// The panels: the pattern as our program names it, and the title.
const PATTERNS: [(&str, &str); 2] = [
    ("random", "random reads of 4 KiB"),
    ("sequential", "sequential reads of 4 KiB"),
];
/// Time in which fio starts, and the wait for a quiet machine.
const AROUND_SECONDS: f64 = 1.5;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Place {
    /// Folder of the file that is read, on the disk to be measured; the file is made if it is missing
    #[arg(long, value_name = "DIR", default_value = "target/bench-disk")]
    folder: PathBuf,
    /// Size of the file in MiB: much more than the disk has memory
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    mib: u64,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) alone: Alone,
}

/// Makes the file and finds `fio`.
///
/// # Errors
///
/// `Unavailable` if the folder's file system has no reads past the page cache.
pub(crate) fn study(measuring: &Measuring, place: &Place) -> Result<Study> {
    let file = blocks::prepare(&place.folder, place.mib)?;
    let (peer, fio) = peers::find("fio");
    let ours = OURS.map(|(name, ..)| Subject::ours(name));
    let others = fio::ENGINES
        .map(|(name, ..)| Subject::peer(name, peer.version.clone(), peer.missing.clone()));
    let plan = plan(ours.into_iter().chain(others).collect(), place.mib);
    let disk = Disk {
        file,
        mib: place.mib,
        own: peer_path()?,
        fio,
        seconds: measuring.seconds,
    };
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let window = Window::open(None, quiet_wait)?;
        let report = match cell.subject.checked_sub(OURS.len()) {
            None => disk.read_by_ours(&cell)?,
            Some(engine) => disk.read_by_fio(&cell, engine)?,
        };
        let usage = window.close()?;
        let latencies = [report.p50_us, report.p99_us, report.p999_us];
        let figures = [&[report.per_second, report.cpu_us][..], &latencies].concat();
        Ok(Taken { figures, usage })
    };
    let seconds_each = measuring.seconds as f64 + AROUND_SECONDS;
    Ok(Study::new(plan, seconds_each, measure))
}

/// The figures that our program prints, and that are parsed from the output of `fio`.
#[derive(Debug, Deserialize)]
struct Report {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// CPU time of a read.
    cpu_us: f64,
}

struct Disk {
    file: PathBuf,
    mib: u64,
    own: PathBuf,
    /// `None` where it is missing.
    fio: Option<Program>,
    seconds: u64,
}

fn plan(subjects: Vec<Subject>, mib: u64) -> results::Study {
    let us = |name: &str| Metric::new(name, "us", Better::Less);
    let metrics = vec![
        Metric::new("rate", "1/s", Better::More).drawn(),
        us("CPU").drawn(),
        us("p50").drawn(),
        us("p99").drawn(),
        us("p99.9"),
    ];
    let panel = |(_, title): (&str, &str)| {
        let points = Point::numbers(&DEPTHS);
        Panel::new(title, "at a time", points, metrics.clone())
    };
    let file = format!(
        "A file of {mib} MiB, written and synced before, opened with O_DIRECT. One worker, a fiber for each read at a time; fio has \
         one thread, but psync as many as reads. No process is pinned to a CPU."
    );
    super::plan("disk", vec![file], subjects, PATTERNS.map(panel).to_vec())
}

impl Disk {
    fn read_by_ours(&self, cell: &Cell) -> Result<Report> {
        let (_, first, last) = OURS[cell.subject];
        let (pattern, _) = PATTERNS[cell.panel];
        let [depth, seconds] = [u64::from(DEPTHS[cell.point]), self.seconds];
        let text = output(
            Command::new(&self.own)
                .args(first)
                .arg(&self.file)
                .args([pattern, &depth.to_string(), &seconds.to_string()])
                .args(last),
        )?;
        serde_json::from_str(&text).with_context(|| format!("it printed {text:?}"))
    }

    fn read_by_fio(&self, cell: &Cell, engine: usize) -> Result<Report> {
        let fio = self.fio.as_ref().context("it is missing")?;
        let job = fio::Job {
            file: &self.file,
            mib: self.mib,
            is_random: cell.panel == 0,
            depth: DEPTHS[cell.point],
            seconds: self.seconds,
        };
        let text = output(Command::new(&fio.path).args(job.arguments(engine)))?;
        fio::parse(&text)
    }
}

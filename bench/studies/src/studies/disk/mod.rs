//! Reads of 4 KiB past the page cache, so many at a time, beside `fio` on the same file.

mod blocks;
mod fio;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::printed::printed;
use crate::measure::quiet::Window;
use crate::measure::rounds::Taken;
use crate::own::disk::Report;
use crate::peers::{self, Program};
use crate::results::{self, Better, Metric, Panel, Point, Subject};
use crate::study::{Alone, Cell, Measuring, Study};

/// Ours: a name, what leads to it, and what comes last. The first is what the others stand beside.
const OURS: [(&str, &[&str], &[&str]); 4] = [
    ("uthread", &["own", "--driver", "uring", "disk"], &[]),
    (
        "uthread registered",
        &["own", "--driver", "uring", "disk"],
        &["--registered"],
    ),
    ("uthread epoll", &["own", "--driver", "epoll", "disk"], &[]),
    (
        "uthread threads",
        &["own", "--driver", "threads", "disk"],
        &[],
    ),
];

/// From a reader that waits for each, to as many as keep this kind of disk busy.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// The panels, as our program calls what they vary, and as they are called.
const PATTERNS: [(&str, &str); 2] = [
    ("random", "random reads of 4 KiB"),
    ("sequential", "sequential reads of 4 KiB"),
];
/// That fio starts, and the wait for quiet.
const AROUND_SECONDS: f64 = 1.5;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Place {
    /// Where the file is, or is made, that is read: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = "target/bench-disk")]
    folder: PathBuf,
    /// Its size, in MiB: much more than the disk has memory
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    mib: u64,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    alone: Alone,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.alone.run(study(&args.alone.measuring, &args.place)?)
}

/// # Errors
///
/// `Unavailable` where nothing can be read there past the page cache.
pub(crate) fn study(measuring: &Measuring, place: &Place) -> Result<Box<dyn Study>> {
    let file = blocks::prepare(&place.folder, place.mib)?;
    let (peer, fio) = peers::find("fio").into_parts();
    let ours = OURS.map(|(name, ..)| Subject::ours(name));
    let others = fio::ENGINES
        .map(|engine| Subject::peer(engine.name, peer.version.clone(), peer.missing.clone()));
    Ok(Box::new(Disk {
        file,
        mib: place.mib,
        own: peers::own("uthread", &[])?,
        fio,
        measuring: measuring.clone(),
        plan: plan(ours.into_iter().chain(others).collect(), place.mib),
    }))
}

struct Disk {
    file: PathBuf,
    mib: u64,
    own: Program,
    /// `None` where it is missing.
    fio: Option<Program>,
    measuring: Measuring,
    plan: results::Study,
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
        let points = DEPTHS.map(|depth| Point::number(f64::from(depth)));
        Panel::new(title, "at a time", points.to_vec(), metrics.clone())
    };
    results::Study {
        name: "disk".to_owned(),
        title: "Disk".to_owned(),
        question: "How near do reads past the page cache come to what fio makes of the same disk?".to_owned(),
        facts: Vec::new(),
        notes: vec![
            format!(
                "A file of {mib} MiB, written and synced before, opened with O_DIRECT. One worker, a fiber for each read at a \
                 time; fio has one thread, but psync as many as reads. Nobody is pinned to a CPU."
            ),
            "CPU is that of a read: of ours what the process took, of fio what it says of its threads, so that its start is \
             not in it. Ours also compares the number at the beginning of each block; fio checks nothing."
                .to_owned(),
            "Latency is from when a read is begun to when its result is seen. Random blocks may come again, and are the same \
             in each round. By 64 at a time, fio's psync and our threads are 64 threads; epoll cannot wait for a disk, so there \
             a pool of threads reads."
                .to_owned(),
            "Neighbouring blocks that are submitted together become one read of the disk: the kernel merges them. Ours submits \
             what several fibers ask for together, fio by default one read at a time; so above 1 at a time the sequential rates \
             tell of batches, not of the disk."
                .to_owned(),
            "Registered: buffers and the file are known to the ring beforehand, of ours and of fio's. No device is polled for \
             completions, which takes one with queues for it."
                .to_owned(),
        ],
        subjects,
        panels: PATTERNS.map(panel).to_vec(),
    }
}

impl Study for Disk {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let window = Window::open(None, self.measuring.quiet_wait())?;
        let report = match cell.subject.checked_sub(OURS.len()) {
            None => self.read_by_ours(&cell)?,
            Some(engine) => self.read_by_fio(&cell, &fio::ENGINES[engine])?,
        };
        let usage = window.close()?;
        let figures = vec![
            report.per_second,
            report.cpu_us,
            report.p50_us,
            report.p99_us,
            report.p999_us,
        ];
        Ok(Taken { figures, usage })
    }

    fn seconds_each(&self) -> f64 {
        self.measuring.seconds as f64 + AROUND_SECONDS
    }
}

impl Disk {
    fn read_by_ours(&self, cell: &Cell) -> Result<Report> {
        let (_, first, last) = OURS[cell.subject];
        let (pattern, _) = PATTERNS[cell.panel];
        let [depth, seconds] = [u64::from(DEPTHS[cell.point]), self.measuring.seconds];
        let text = printed(
            Command::new(&self.own.path)
                .args(first)
                .arg(&self.file)
                .args([pattern, &depth.to_string(), &seconds.to_string()])
                .args(last),
        )?;
        serde_json::from_str(&text).with_context(|| format!("it printed {text:?}"))
    }

    fn read_by_fio(&self, cell: &Cell, engine: &fio::Engine) -> Result<Report> {
        let fio = self.fio.as_ref().context("it is missing")?;
        let job = fio::Job {
            file: &self.file,
            mib: self.mib,
            is_random: cell.panel == 0,
            depth: DEPTHS[cell.point],
            seconds: self.measuring.seconds,
        };
        let text = printed(Command::new(&fio.path).args(job.arguments(engine)))?;
        fio::parse(&text)
    }
}

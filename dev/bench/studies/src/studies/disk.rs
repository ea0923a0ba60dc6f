//! Disk: reads of 4 KiB past the page cache, compared with `fio` on the same file.
//! `uthread iobench` has the techniques.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use uthread_iobench::{Engine, Job, Load, Pattern, Report, Technique, TestFiles};
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::results::{self, Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use crate::alone::{Alone, Measuring};
use crate::peers::{self, Program};
use crate::setup::find_uthread;

/// Our subjects. The others are compared with the first.
const OURS: [Technique; 4] = [
    Technique::Fibers,
    Technique::FibersRegistered,
    Technique::FibersEpoll,
    Technique::FibersThreads,
];
/// The engines of `fio`. The first is the measure for ours.
const ENGINES: [Engine; 4] = [
    Engine::IoUring,
    Engine::IoUringRegistered,
    Engine::Libaio,
    Engine::Psync,
];

/// Reads at a time, from one to as many as keep such a disk busy.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// The panels: the pattern, and the title.
const PATTERNS: [(Pattern, &str); 2] = [
    (Pattern::Random, "random reads of 4 KiB"),
    (Pattern::Sequential, "sequential reads of 4 KiB"),
];
/// Time in which fio starts, and the wait for a quiet machine.
const AROUND_SECONDS: f64 = 1.5;
/// Fixed, so that all rounds read the same blocks.
const SEED: u64 = 1;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DiskArgs {
    /// Folder on the disk to be measured; the file in it has no name
    #[arg(long, value_name = "DIR", default_value = "target/bench-disk")]
    folder: PathBuf,
    /// Size of the file in MiB: much more than the disk has memory
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    mib: u64,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) disk: DiskArgs,
    #[command(flatten)]
    pub(crate) alone: Alone,
}

/// Makes the file and finds `fio`.
///
/// # Errors
///
/// `Unavailable` if the folder's file system has no reads past the page cache, or no space.
pub(crate) fn study(measuring: &Measuring, args: &DiskArgs) -> Result<Study> {
    let own = find_uthread(None)?;
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let files = TestFiles::prepare(folder, 1, args.mib, SEED, &AtomicBool::new(false))?;
    let (peer, fio) = peers::find("fio");
    let ours = OURS.map(|technique| Subject::ours(technique.name()));
    let others = ENGINES
        .map(|engine| Subject::peer(engine.name(), peer.version.clone(), peer.missing.clone()));
    let plan = plan(ours.into_iter().chain(others).collect(), args.mib);
    let disk = Disk {
        files,
        own,
        fio,
        seconds: measuring.seconds,
    };
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let window = Window::open(None, quiet_wait)?;
        let report = disk.measure(&cell)?;
        let usage = window.close()?;
        let reads = report.reads.as_ref().context("it has read nothing")?;
        let latencies = [50.0, 99.0, 99.9].map(|percent| reads.at(percent));
        let figures = [&[report.read_rate(), report.cpu_us()][..], &latencies].concat();
        Ok(Taken { figures, usage })
    };
    let seconds_each = measuring.seconds as f64 + AROUND_SECONDS;
    Ok(Study::new(plan, seconds_each, measure))
}

struct Disk {
    files: TestFiles,
    /// The program `uthread`.
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
    let panel = |(_, title): (Pattern, &str)| {
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
    fn measure(&self, cell: &Cell) -> Result<Report> {
        let (pattern, _) = PATTERNS[cell.panel];
        let load = Load {
            files: self.files.paths(1),
            pattern,
            requests: u64::MAX,
            seconds: Some(self.seconds),
            depth: DEPTHS[cell.point] as usize,
            is_batched: false,
            seed: SEED,
        };
        match cell.subject.checked_sub(OURS.len()) {
            None => {
                let technique = OURS[cell.subject];
                Job { technique, load }.run_by(&self.own)
            }
            Some(engine) => {
                let fio = self.fio.as_ref().context("it is missing")?;
                ENGINES[engine].run_by(&fio.path, &load)
            }
        }
    }
}

//! A scenario as a study: subjects, points and metrics; the figures of a measurement; and what the
//! results show.

mod figures;
mod findings;

use std::cell::RefCell;
use std::env;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::results::{self, Panel, Point, Subject, grouped};
use uthread_report::study::{Cell, Study};

use crate::Finish;
use crate::fio::{self, Engine};
use crate::job::Job;
use crate::load::{Load, Rivals};
use crate::options::Options;
use crate::scenario::Scenario;
use crate::tally::Report;
use crate::technique::Technique;
use crate::test_files::TestFiles;
use findings::Distributions;

/// A guess for the first estimate of the time left, which the measurements correct.
const SECONDS_EACH: f64 = 1.5;
/// Number of requests of the other scenarios for each urgent one, as urgent requests are made one
/// at a time and wait for others.
const URGENT_ONE_IN: u64 = 8;

/// The variants that a scenario compares, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Own(Technique),
    Fio(Engine),
    /// Urgent requests with priorities.
    Prioritized(Technique),
    /// Urgent requests with nothing beside them.
    Alone(Technique),
}

/// The drivers, on which fibers have a store and urgent requests.
const DRIVERS: [Technique; 3] = [
    Technique::Fibers,
    Technique::FibersEpoll,
    Technique::FibersThreads,
];

impl Variant {
    /// Returns the variants that a scenario compares.
    fn of(scenario: Scenario) -> Vec<Variant> {
        if scenario.has_rivals() {
            // Threads are ordered by the kernel, whatever the priorities.
            let [ring, epoll, threads] = DRIVERS;
            return vec![
                Variant::Own(ring),
                Variant::Prioritized(ring),
                Variant::Alone(ring),
                Variant::Own(epoll),
                Variant::Prioritized(epoll),
                Variant::Own(threads),
            ];
        }
        if scenario == Scenario::Kv {
            return DRIVERS.map(Variant::Own).to_vec();
        }
        let own = Technique::ALL.into_iter().map(Variant::Own);
        own.chain(Engine::ALL.into_iter().map(Variant::Fio))
            .collect()
    }

    fn name(self) -> String {
        match self {
            Variant::Own(technique) => technique.name().to_owned(),
            Variant::Fio(engine) => engine.name().to_owned(),
            Variant::Prioritized(technique) => format!("{} with priorities", technique.name()),
            Variant::Alone(technique) => format!("{} alone", technique.name()),
        }
    }

    /// Returns the load beside its urgent requests, in a scenario that has them.
    fn rivals(self) -> Rivals {
        match self {
            Variant::Own(_) | Variant::Fio(_) => Rivals::Equal,
            Variant::Prioritized(_) => Rivals::Background,
            Variant::Alone(_) => Rivals::None,
        }
    }
}

/// Returns the names of all techniques, as the tables have them.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in Scenario::ALL
        .into_iter()
        .flat_map(Variant::of)
        .map(Variant::name)
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Plans a scenario, and finds out which techniques this machine has.
pub(crate) fn of(
    scenario: Scenario,
    options: &Options,
    files: Option<&TestFiles>,
    fio: &Result<String, String>,
) -> Result<(Study, Finish)> {
    let bench = Bench::new(scenario, options, files)?;
    let mut variants = Variant::of(scenario);
    variants.retain(|variant| options.includes(&variant.name()));
    let subjects = variants
        .iter()
        .map(|variant| bench.subject(*variant, files, fio));
    let subjects: Vec<Subject> = subjects.collect();
    let points = Point::numbers(&options.depths);
    let [all, urgent] = [options.blocks, bench.load.requests].map(|count| grouped(count as f64));
    let title = match scenario {
        Scenario::UrgentReads => format!("{urgent} urgent reads of 4 KiB"),
        Scenario::UrgentEchoes => format!("{urgent} urgent messages of 64 bytes"),
        _ => format!("{all} requests for blocks of 4 KiB"),
    };
    let panel = Panel::new(&title, axis(scenario), points, figures::metrics(scenario));
    let notes = scenario.notes().iter().map(|&note| note.to_owned());
    let words = [scenario.name(), scenario.title(), scenario.question()];
    let plan = results::Study::new(words, notes.collect(), subjects, vec![panel]);

    let distributions = Rc::new(RefCell::new(Distributions::default()));
    let kept = Rc::clone(&distributions);
    let quiet_wait = Duration::from_secs(options.quiet_wait);
    let measure = move |cell: Cell| {
        let window = Window::open(None, quiet_wait)?;
        let report = bench.measure(variants[cell.subject], cell.point)?;
        let usage = window.close()?;
        if let Some(reads) = &report.reads {
            kept.borrow_mut().add(cell, reads);
        }
        let figures = figures::of(scenario, &report);
        Ok(Taken { figures, usage })
    };
    let finish: Finish = Box::new(move |study| {
        findings::complete(study, &distributions.borrow());
        Ok(())
    });
    Ok((Study::new(plan, SECONDS_EACH, measure), finish))
}

/// Returns whether the scenario needs a file that no technique verifies: the store and `fio` leave
/// other blocks in it.
pub(crate) fn overwrites(
    scenario: Scenario,
    options: &Options,
    fio: &Result<String, String>,
) -> bool {
    let by_fio = || {
        let mut engines = Engine::ALL.into_iter();
        fio.is_ok() && engines.any(|engine| options.includes(engine.name()))
    };
    scenario.overwrites() || (scenario.fio_writes() && by_fio())
}

/// Returns the name of the quantity that varies, as `fio` has it where it has one.
fn axis(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::SyscallOverhead => "batch of",
        Scenario::Kv => "fibers",
        Scenario::UrgentReads | Scenario::UrgentEchoes => "rivals",
        _ => "iodepth",
    }
}

/// All that the measurements of a scenario have in common.
struct Bench {
    /// This program, which performs the jobs.
    program: PathBuf,
    load: Load,
    /// The files of `fio`, which differ from those of the load where it writes.
    fio_files: Vec<PathBuf>,
    depths: Vec<u32>,
}

impl Bench {
    fn new(scenario: Scenario, options: &Options, test_files: Option<&TestFiles>) -> Result<Bench> {
        let files = match test_files {
            None => Vec::new(),
            Some(files) if scenario.overwrites() => files.last_path(),
            Some(files) => files.paths(scenario.files()),
        };
        let fio_files = match test_files {
            Some(files) if scenario.fio_writes() => files.last_path(),
            _ => files.clone(),
        };
        let shares = if scenario.has_rivals() {
            URGENT_ONE_IN
        } else {
            // Threads share the requests.
            files.len().max(1) as u64
        };
        let load = Load {
            pattern: scenario.pattern(),
            requests: options.blocks.div_ceil(shares),
            files,
            seconds: None,
            depth: 1,
            is_batched: scenario == Scenario::SyscallOverhead,
            seed: options.seed,
        };
        Ok(Bench {
            program: env::current_exe().context("find this program's own path")?,
            load,
            fio_files,
            depths: options.depths.clone(),
        })
    }

    /// Describes a subject, with the reason if it cannot be measured here.
    fn subject(
        &self,
        variant: Variant,
        files: Option<&TestFiles>,
        fio: &Result<String, String>,
    ) -> Subject {
        let (is_ours, version, missing) = match (variant, fio) {
            (Variant::Fio(_), Ok(version)) => (false, Some(version.clone()), None),
            (Variant::Fio(_), Err(reason)) => (false, None, Some(reason.clone())),
            (
                Variant::Own(technique)
                | Variant::Prioritized(technique)
                | Variant::Alone(technique),
                _,
            ) => (technique.is_ours(), None, self.refusal(technique, files)),
        };
        Subject {
            name: variant.name(),
            is_ours,
            version,
            missing,
        }
    }

    /// Returns why a technique does not work here: it performs one request.
    fn refusal(&self, technique: Technique, files: Option<&TestFiles>) -> Option<String> {
        let polling_refusal = files.and_then(|files| files.device.polling_refusal());
        if let Some(reason) = polling_refusal.filter(|_| technique.polls()) {
            return Some(reason);
        }
        let load = Load {
            requests: 1,
            ..self.load.clone()
        };
        let error = Job { technique, load }.run_by(&self.program).err()?;
        Some(format!("{error:#}"))
    }

    fn measure(&self, variant: Variant, point: usize) -> Result<Report> {
        let load = Load {
            depth: self.depths[point] as usize,
            pattern: self.load.pattern.beside(variant.rivals()),
            ..self.load.clone()
        };
        match variant {
            Variant::Own(technique)
            | Variant::Prioritized(technique)
            | Variant::Alone(technique) => Job { technique, load }.run_by(&self.program),
            Variant::Fio(engine) => {
                let files = self.fio_files.clone();
                engine.run_by(Path::new(fio::PROGRAM), &Load { files, ..load })
            }
        }
    }
}

//! A scenario as a study: subjects, points and metrics; the figures of a measurement; and what the results show.

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
use crate::load::Load;
use crate::options::Options;
use crate::place::Place;
use crate::scenario::Scenario;
use crate::tally::Report;
use crate::technique::Technique;
use findings::Distributions;

/// A guess for the first estimate of the time left, which the measurements correct.
const SECONDS_EACH: f64 = 1.5;

/// Subjects, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Own(Technique),
    Fio(Engine),
}

impl Who {
    fn all() -> Vec<Who> {
        let own = Technique::ALL.into_iter().map(Who::Own);
        own.chain(Engine::ALL.into_iter().map(Who::Fio)).collect()
    }

    /// Returns whether the scenario is for this subject: only fibers have a store.
    fn takes_part(self, scenario: Scenario) -> bool {
        let store = [
            Technique::Fibers,
            Technique::FibersEpoll,
            Technique::FibersThreads,
        ];
        scenario != Scenario::Kv || store.map(Who::Own).contains(&self)
    }

    fn name(self) -> &'static str {
        match self {
            Who::Own(technique) => technique.name(),
            Who::Fio(engine) => engine.name(),
        }
    }
}

/// Plans a scenario, and finds out which techniques this machine has.
pub(crate) fn of(scenario: Scenario, options: &Options, place: &Place) -> Result<(Study, Finish)> {
    let bench = Bench::new(scenario, options, place)?;
    let fio = fio::find();
    let mut who = Who::all();
    who.retain(|who| who.takes_part(scenario) && options.includes(who.name()));
    let subjects = who.iter().map(|who| bench.subject(*who, place, &fio));
    let subjects: Vec<Subject> = subjects.collect();
    let points = Point::numbers(&options.depths);
    let title = format!(
        "{} requests for blocks of 4 KiB",
        grouped(options.blocks as f64)
    );
    let panel = Panel::new(&title, axis(scenario), points, figures::metrics(scenario));
    let notes = scenario.notes().iter().map(|&note| note.to_owned());
    let words = [scenario.name(), scenario.title(), scenario.question()];
    let plan = results::Study::new(words, notes.collect(), subjects, vec![panel]);

    let distributions = Rc::new(RefCell::new(Distributions::default()));
    let kept = Rc::clone(&distributions);
    let quiet_wait = Duration::from_secs(options.quiet_wait);
    let measure = move |cell: Cell| {
        let window = Window::open(None, quiet_wait)?;
        let report = bench.measure(who[cell.subject], cell.point)?;
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

/// Returns the name of the quantity that varies, as `fio` has it where it has one.
fn axis(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::SyscallOverhead => "batch of",
        Scenario::Kv => "fibers",
        _ => "iodepth",
    }
}

/// All that the measurements of a scenario have in common.
struct Bench {
    /// This program, which performs the jobs.
    program: PathBuf,
    load: Load,
    depths: Vec<u32>,
}

impl Bench {
    fn new(scenario: Scenario, options: &Options, place: &Place) -> Result<Bench> {
        let files = match scenario.overwrites() {
            true => place.last_path(),
            false => place.paths(scenario.files()),
        };
        let load = Load {
            pattern: scenario.pattern(),
            // Threads share the requests.
            requests: options.blocks.div_ceil(files.len().max(1) as u64),
            files,
            seconds: None,
            depth: 1,
            is_batched: scenario == Scenario::SyscallOverhead,
            seed: options.seed,
        };
        Ok(Bench {
            program: env::current_exe().context("find this program's own path")?,
            load,
            depths: options.depths.clone(),
        })
    }

    /// Describes a subject, with the reason if it cannot be measured here.
    fn subject(&self, who: Who, place: &Place, fio: &Result<String, String>) -> Subject {
        match (who, fio) {
            (Who::Fio(_), Ok(version)) => Subject::peer(who.name(), Some(version.clone()), None),
            (Who::Fio(_), Err(reason)) => Subject::peer(who.name(), None, Some(reason.clone())),
            (Who::Own(technique), _) => Subject {
                name: who.name().to_owned(),
                is_ours: technique.is_ours(),
                version: None,
                missing: self.refusal(technique, place),
            },
        }
    }

    /// Returns why a technique does not work here: it performs one request.
    fn refusal(&self, technique: Technique, place: &Place) -> Option<String> {
        if let Some(reason) = place.device.polling_refusal().filter(|_| technique.polls()) {
            return Some(reason);
        }
        let load = Load {
            requests: 1,
            ..self.load.clone()
        };
        let error = Job { technique, load }.run_by(&self.program).err()?;
        Some(format!("{error:#}"))
    }

    fn measure(&self, who: Who, point: usize) -> Result<Report> {
        let load = Load {
            depth: self.depths[point] as usize,
            ..self.load.clone()
        };
        match who {
            Who::Own(technique) => Job { technique, load }.run_by(&self.program),
            Who::Fio(engine) => engine.run_by(Path::new(fio::PROGRAM), &load),
        }
    }
}

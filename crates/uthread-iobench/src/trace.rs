//! `urgent-trace`: the order in which the kernel takes the requests of fibers with priorities,
//! recorded by the kernel itself.
//!
//! Batches are random, from a seed. Each chain of a batch is requested by a fiber of its own, in
//! the program's order; the one worker submits together what its fibers request, and a record says
//! which entries a system call has submitted, in which order.

mod batch;
mod check;
mod example;
mod record;
mod recorder;
mod ring;
mod scatter;
mod tag;

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use uthread::{Driver, Runtime, priority, try_scope};
use uthread_report::Unavailable;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Usage;
use uthread_report::results::{self, Better, Metric, Panel, Point, Subject};
use uthread_report::say;
use uthread_report::study::{Cell, Study};

use crate::Finish;
use crate::options::Options;
use crate::scenario::Scenario;
use batch::Batch;
use example::Example;
use recorder::Recorder;
use scatter::Scatter;
use tag::Tag;

/// The subjects: fibers with priorities, and as a control the same requests without.
const SUBJECTS: [&str; 2] = ["priorities", "no priorities (control)"];
const SECONDS_EACH: f64 = 5.0;

/// Plans the scenario.
///
/// # Errors
///
/// [`Unavailable`] if this process cannot trace, or gets no ring.
pub(crate) fn study(options: &Options, stop: &Arc<AtomicBool>) -> Result<(Study, Finish)> {
    Recorder::check()?;
    runtime()?;
    let subjects = [
        Subject::ours(SUBJECTS[0]),
        Subject::peer(SUBJECTS[1], None, None),
    ];
    let metrics = vec![
        Metric::new("batches", "", Better::Neither),
        Metric::new("entries", "", Better::Neither),
        Metric::new("batches in a wrong order", "", Better::Less).drawn(),
        Metric::new("system calls", "", Better::Neither),
    ];
    let points = vec![Point::name(&format!("{} batches", options.batches))];
    let panel = Panel::new("batches of 2 to 64 entries", "", points, metrics);
    let scenario = Scenario::UrgentTrace;
    let notes = scenario.notes().iter().map(|&note| note.to_owned());
    let words = [scenario.name(), scenario.title(), scenario.question()];
    let plan = results::Study::new(words, notes.collect(), subjects.to_vec(), vec![panel]);

    let scatter = Arc::new(Mutex::new(Scatter::default()));
    let example = Arc::new(Mutex::new(Example::default()));
    let trial = Trial {
        batches: options.batches,
        seed: options.seed,
        stop: Arc::clone(stop),
        scatter: Arc::clone(&scatter),
        example: Arc::clone(&example),
    };
    let measure = move |cell: Cell| runtime()?.run(|| trial.run(cell));
    let finish: Finish = Box::new(move |study| {
        let scatter = scatter.lock().unwrap_or_else(PoisonError::into_inner);
        say!("{}", scatter.text());
        let example = example.lock().unwrap_or_else(PoisonError::into_inner);
        say!("{}", example.text(SUBJECTS));
        study.notes.push(example.finding(SUBJECTS));
        study.plots = scatter.plots(SUBJECTS);
        study.plots.extend(example.plot(SUBJECTS));
        judge(study)
    });
    Ok((Study::new(plan, SECONDS_EACH, measure), finish))
}

/// Starts one worker, which submits the requests of all fibers. With lean fibers, it keeps its
/// thread, which is the one that is recorded.
fn runtime() -> Result<Runtime, Unavailable> {
    let builder = Runtime::builder().driver(Driver::Uring).workers(1).lean();
    let runtime = builder.build();
    runtime.map_err(|error| Unavailable(format!("no ring: {error}; see `uthread doctor`")))
}

/// The recording of all batches by one subject.
struct Trial {
    batches: u32,
    seed: u64,
    stop: Arc<AtomicBool>,
    scatter: Arc<Mutex<Scatter>>,
    example: Arc<Mutex<Example>>,
}

impl Trial {
    /// Runs on the worker, whose thread is recorded.
    fn run(&self, cell: Cell) -> Result<Taken> {
        let has_priorities = cell.subject == 0;
        let zero = File::open("/dev/zero").context("open /dev/zero")?;
        let mut random = Rng::with_seed(self.seed.wrapping_add(cell.round as u64));
        let mut recorder = Recorder::start()?;
        let (mut entries, mut wrong, mut calls) = (0, 0, 0);
        for number in 0..self.batches {
            ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
            let batch = Batch::random(number, &mut random);
            perform(&batch, &zero, has_priorities)?;
            let flushes = recorder.read(number, batch.entries.len())?.flushes();
            entries += batch.entries.len();
            calls += flushes.len();
            let verdict = check::check(&batch, &flushes);
            wrong += u32::from(verdict.is_err());
            if cell.round == 0 {
                let mut scatter = self.scatter.lock().unwrap_or_else(PoisonError::into_inner);
                let flushes = flushes.iter();
                flushes.for_each(|flush| scatter.add(cell.subject, flush));
            }
            if has_priorities {
                // A batch of this subject in a wrong order is a failure with a reason.
                verdict.map_err(anyhow::Error::msg)?;
            }
        }
        if cell.round == 0 {
            let timeline = record_example(&mut recorder, &zero, has_priorities)?;
            let mut example = self.example.lock().unwrap_or_else(PoisonError::into_inner);
            example.subjects[cell.subject] = timeline;
        }
        let counts = [self.batches as usize, entries, wrong as usize, calls];
        Ok(Taken {
            figures: counts.map(|count| count as f64).to_vec(),
            // The load of the machine changes no order.
            usage: Usage {
                quiet_before: true,
                ..Usage::default()
            },
        })
    }
}

/// Performs the batch that is shown in full, again if the worker did not submit it by one call.
/// Returns no entries if it never did.
fn record_example(
    recorder: &mut Recorder,
    zero: &File,
    has_priorities: bool,
) -> Result<Vec<(Tag, f64)>> {
    const ATTEMPTS: usize = 100;
    let batch = Batch::example();
    for _ in 0..ATTEMPTS {
        perform(&batch, zero, has_priorities)?;
        let record = recorder.read(batch.number, batch.entries.len())?;
        if record.flushes().len() == 1 {
            return Ok(record.timeline());
        }
    }
    Ok(Vec::new())
}

/// Requests the chains of a batch, each by a fiber, and waits for them.
fn perform(batch: &Batch, zero: &File, has_priorities: bool) -> Result<()> {
    let chains: Vec<_> = batch.chains().collect();
    let next = AtomicUsize::new(0);
    let request = || {
        // The fibers get their chains in the order in which they run.
        let chain = chains[next.fetch_add(1, Ordering::Relaxed)].clone();
        if has_priorities {
            let priority = batch.class_of(&chain).priority();
            priority::with(priority, || ring::submit(batch, chain, zero))
        } else {
            ring::submit(batch, chain, zero)
        }
    };
    try_scope(|scope| {
        for _ in &chains {
            scope.spawn(request);
        }
        Ok(())
    })
    .with_context(|| format!("batch {}", batch.number))
}

/// Fails unless all batches with priorities passed the check, and the control did not.
fn judge(study: &results::Study) -> Result<()> {
    let panel = &study.panels[0];
    let wrong = |subject| {
        let rounds = panel.rounds(0, subject).iter();
        rounds
            .map(|round| round.figure(2))
            .collect::<Option<Vec<_>>>()
    };
    let failures: Vec<&str> = panel.failures(0, 0).into_keys().collect();
    ensure!(failures.is_empty(), "urgent-trace: {}", failures.join("; "));
    if let Some(control) = wrong(1) {
        ensure!(
            control.iter().all(|&count| count > 0.0),
            "urgent-trace: the check passed for requests without priorities: it proves nothing"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uthread_report::results::Round;

    use super::*;

    #[test]
    fn a_check_that_finds_nothing_in_the_control_fails() {
        let taken = |wrong: f64| Round::Taken {
            figures: vec![Some(1.0), Some(1.0), Some(wrong)],
            was_disturbed: false,
        };
        let judged = |ordered: Round, control: Round| {
            let metrics = vec![Metric::new("", "", Better::Less); 3];
            let mut panel = Panel::new("", "", vec![Point::name("")], metrics);
            panel.rounds = vec![vec![vec![ordered], vec![control]]];
            judge(&results::Study::new([""; 3], vec![], vec![], vec![panel]))
        };
        assert!(judged(taken(0.0), taken(7.0)).is_ok());
        assert!(judged(taken(0.0), taken(0.0)).is_err());
        assert!(judged(Round::Cannot("batch 3".to_owned()), taken(7.0)).is_err());
    }
}

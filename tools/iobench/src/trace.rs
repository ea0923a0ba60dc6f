//! `urgent-trace`: the order in which the kernel takes the entries of a batch, recorded by the kernel itself.
//!
//! Batches are random, from a seed. Each entry does nothing, and has its class and its place in the program's order in
//! `user_data`. The `order` of the submission is a function of its own: what stands for the runtime today is one file.

mod batch;
mod check;
mod order;
mod recorder;
mod ring;
mod scatter;
mod tag;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use uthread_load::SplitMix;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Usage;
use uthread_report::results::{self, Better, Metric, Panel, Point, Subject};
use uthread_report::say;
use uthread_report::study::{Cell, Study};

use crate::Finish;
use crate::options::Options;
use crate::scenario::Scenario;
use batch::Batch;
use recorder::Recorder;
use ring::Ring;
use scatter::Scatter;

/// The subjects: by class, and as a control in the order in which the program queued the entries.
const SUBJECTS: [&str; 2] = ["by class", "unordered (control)"];
const SECONDS_EACH: f64 = 5.0;

/// Plans the scenario.
///
/// # Errors
///
/// [`Unavailable`](uthread_report::Unavailable) if this process cannot trace, or gets no ring.
pub(crate) fn study(options: &Options, stop: &Arc<AtomicBool>) -> Result<(Study, Finish)> {
    Recorder::check()?;
    let mut ring = Ring::new()?;
    let subjects = [
        Subject::ours(SUBJECTS[0]),
        Subject::peer(SUBJECTS[1], None, None),
    ];
    let metrics = vec![
        Metric::new("batches", "", Better::Neither),
        Metric::new("entries", "", Better::Neither),
        Metric::new("batches in a wrong order", "", Better::Less).drawn(),
    ];
    let points = vec![Point::name(&format!("{} batches", options.batches))];
    let panel = Panel::new("batches of 2 to 64 entries", "", points, metrics);
    let scenario = Scenario::UrgentTrace;
    let notes = scenario.notes().iter().map(|&note| note.to_owned());
    let words = [scenario.name(), scenario.title(), scenario.question()];
    let plan = results::Study::new(words, notes.collect(), subjects.to_vec(), vec![panel]);

    let scatter = Rc::new(RefCell::new(Scatter::default()));
    let trial = Trial {
        batches: options.batches,
        seed: options.seed,
        stop: Arc::clone(stop),
        scatter: Rc::clone(&scatter),
    };
    let measure = move |cell: Cell| trial.run(&mut ring, cell);
    let finish: Finish = Box::new(move |study| {
        let scatter = scatter.borrow();
        say!("{}", scatter.text());
        study.plots = scatter.plots(SUBJECTS);
        judge(study)
    });
    Ok((Study::new(plan, SECONDS_EACH, measure), finish))
}

/// The recording of all batches by one subject.
struct Trial {
    batches: u32,
    seed: u64,
    stop: Arc<AtomicBool>,
    scatter: Rc<RefCell<Scatter>>,
}

impl Trial {
    fn run(&self, ring: &mut Ring, cell: Cell) -> Result<Taken> {
        let is_ordered = cell.subject == 0;
        let mut random = SplitMix::new(self.seed.wrapping_add(cell.round as u64));
        let mut recorder = Recorder::start()?;
        let (mut entries, mut wrong) = (0, 0);
        for number in 0..self.batches {
            ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
            let batch = Batch::random(number, &mut random);
            let order = match is_ordered {
                true => order::urgent_first(&batch),
                false => (0..batch.entries.len()).collect(),
            };
            ring.submit(&batch, &order)?;
            let seen = recorder.read(number, batch.entries.len())?;
            entries += seen.len();
            let verdict = check::check(&batch, &seen);
            wrong += u32::from(verdict.is_err());
            if cell.round == 0 {
                self.scatter.borrow_mut().add(cell.subject, &batch, &seen);
            }
            if is_ordered {
                // An ordered batch in a wrong order is a failure with a reason.
                verdict.map_err(anyhow::Error::msg)?;
            }
        }
        let figures = [f64::from(self.batches), entries as f64, f64::from(wrong)];
        Ok(Taken {
            figures: figures.to_vec(),
            // The load of the machine changes no order.
            usage: Usage {
                quiet_before: true,
                ..Usage::default()
            },
        })
    }
}

/// Fails unless all ordered batches passed the check, and the control did not.
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
            "urgent-trace: the check passed for batches that nobody ordered: it proves nothing"
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
            usage: Usage::default(),
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

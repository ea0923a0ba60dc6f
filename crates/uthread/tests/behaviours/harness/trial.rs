//! One behaviour in one place: runs on a thread of its own, which is given up when it hangs.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};

use super::child::is_child;
use super::place::{PLACES, Place};
use super::table::{Outcome, Row, Table};
use super::{Behaviour, panics};
use crate::support::HANG;

/// A little more than what a behaviour waits for: that has the better message.
const DEADLINE: Duration = HANG.saturating_add(Duration::from_secs(10));

/// Ends a behaviour that cannot be checked because this machine lacks something.
pub(crate) fn lacks(what: &'static str) -> ! {
    panic::resume_unwind(Box::new(Lacks(what)))
}

struct Lacks(&'static str);

/// Returns the trials of all behaviours, in all places or in variants of places only where no other
/// place will do.
pub(super) fn trials(table: &Table, in_variants: bool) -> Vec<Trial> {
    let of = |row: &Arc<Row>, column: usize| {
        let row = Arc::clone(row);
        Trial::ignorable_test(row.trial(column), move || {
            let outcome = try_out(&row.trial(column), row.behaviour, PLACES[column]);
            let result = match &outcome {
                Outcome::Held => Ok(Completion::Completed),
                Outcome::Lacking(what) => Ok(Completion::ignored_with(what)),
                Outcome::Failed(report) => Err(Failed::from(report)),
            };
            row.note(column, outcome);
            result
        })
    };
    let cells = table
        .rows()
        .flat_map(|row| (0..PLACES.len()).map(move |column| (row, column)));
    let holds = |(row, column): &(&Arc<Row>, usize)| {
        (in_variants || !PLACES[*column].is_variant || row.is_of_variants())
            && row.gap(*column).is_none()
    };
    cells
        .filter(holds)
        .map(|(row, column)| of(row, column))
        .collect()
}

/// Checks a behaviour on a thread with the name of the trial, from which a child also knows which
/// it is.
fn try_out(trial: &str, behaviour: &'static Behaviour, place: Place) -> Outcome {
    // To find out takes a runtime, and a child may have to start its first one by itself.
    if !is_child()
        && let Some(reason) = place.refusal()
    {
        return Outcome::Lacking(reason);
    }
    let begin = Instant::now();
    let (sender, over) = mpsc::channel();
    let body = move || {
        let result = panic::catch_unwind(AssertUnwindSafe(|| (behaviour.check)(place)));
        let _ = sender.send(result); // Nobody waits for what hung.
    };
    let thread = thread::Builder::new().name(trial.to_owned());
    let thread = thread.spawn(body).unwrap();
    let failed = |what: &str| {
        let panics = panics::since(begin, trial);
        Outcome::Failed(format!("{what}\n{panics}"))
    };
    match over.recv_timeout(DEADLINE) {
        Ok(Ok(())) => {
            thread.join().unwrap();
            Outcome::Held
        }
        Ok(Err(payload)) => match payload.downcast_ref() {
            Some(Lacks(what)) => Outcome::Lacking(what),
            None => failed(text(&*payload)),
        },
        Err(_) => failed(&format!("not over after {DEADLINE:?}")),
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic with a value that is no text")
}

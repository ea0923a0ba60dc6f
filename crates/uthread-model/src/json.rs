//! The results as JSON.

use serde::Serialize;

use crate::compare::Deviation;
use crate::outcome::Outcome;
use crate::simulated::Simulated;

/// A scenario with its results.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    about: &'a str,
    outcomes: &'a [Outcome],
    #[serde(skip_serializing_if = "Option::is_none")]
    real: Option<Real<'a>>,
}

/// The real runs of a scenario.
#[derive(Serialize)]
struct Real<'a> {
    outcomes: &'a [Outcome],
    deviations: Vec<Run<'a>>,
    /// Sentences on drivers without a run.
    missing: &'a [String],
}

/// The deviations of a real run from the simulation.
#[derive(Serialize)]
struct Run<'a> {
    driver: &'a str,
    scale: f64,
    figures: Vec<Deviation>,
}

pub(crate) fn text(all: &[Simulated]) -> serde_json::Result<String> {
    let entries = all.iter().map(|simulated| Entry {
        name: simulated.title(),
        about: &simulated.scenario.about,
        outcomes: &simulated.outcomes,
        real: real(simulated),
    });
    serde_json::to_string(&Vec::from_iter(entries))
}

fn real(simulated: &Simulated) -> Option<Real<'_>> {
    if simulated.real.is_empty() && simulated.missing.is_empty() {
        return None;
    }
    let deviations = simulated.deviations().into_iter();
    let run = deviations.map(|(measured, figures)| Run {
        driver: &measured.driver,
        scale: measured.scale,
        figures,
    });
    Some(Real {
        outcomes: &simulated.real,
        deviations: run.collect(),
        missing: &simulated.missing,
    })
}

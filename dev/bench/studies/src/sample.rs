//! Results for tests.

use uthread_report::measure::quiet::Usage;
use uthread_report::results::{Results, Round};

/// Returns the report in the repository.
pub(crate) fn committed() -> Results {
    let json = include_str!("../../../../docs/results/report.json");
    serde_json::from_str(json).unwrap()
}

pub(crate) fn taken(figures: &[f64]) -> Round {
    Round::Taken {
        figures: figures.iter().map(|&figure| Some(figure)).collect(),
        usage: Usage::default(),
    }
}

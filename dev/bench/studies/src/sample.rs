//! Results for tests.

use std::path::Path;

use uthread_report::results::{Results, Round};

use crate::report;

/// Folder of the report in the repository.
pub(crate) const COMMITTED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/results/report");

/// Returns the report in the repository.
pub(crate) fn committed() -> Results {
    report::read(Path::new(COMMITTED)).unwrap()
}

pub(crate) fn taken(figures: &[f64]) -> Round {
    Round::Taken {
        figures: figures.iter().map(|&figure| Some(figure)).collect(),
        was_disturbed: false,
    }
}

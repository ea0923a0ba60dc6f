//! The facts of a study: the date, and those of the run.

use std::time::SystemTime;

use crate::results::Facts;

/// Returns the date. It has no time, so that the studies of one run share their facts.
pub(super) fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// Returns the facts of a study that began on this day.
pub(super) fn with_day(day: &str, of_run: &Facts) -> Facts {
    let day = ("date".to_owned(), day.to_owned());
    [day].into_iter().chain(of_run.iter().cloned()).collect()
}

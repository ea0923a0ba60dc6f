//! Date, build and machine of a measurement, in words.

use std::time::SystemTime;

use procfs::{Current as _, Meminfo};
use rustix::system::uname;

use super::Measuring;
use crate::place;
use crate::results::Facts;

/// Returns the date. It has no time, so that the studies of one run share their facts.
pub(super) fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// Returns the facts of this run without the date.
pub(super) fn of_this_run(measuring: &Measuring) -> Facts {
    let memory = Meminfo::current().ok();
    let gib = |memory: Meminfo| memory.mem_total as f64 / (1024.0 * 1024.0 * 1024.0);
    let cpus = place::allowed_cpus().ok();
    let kernel = uname().release().to_string_lossy().into_owned();
    let Measuring {
        rounds, seconds, ..
    } = measuring;
    let facts = [
        ("uthread", Some(version())),
        ("processor", place::processor()),
        ("CPUs", cpus.map(|cpus| cpus.len().to_string())),
        (
            "memory",
            memory.map(|memory| format!("{:.1} GiB", gib(memory))),
        ),
        ("kernel", Some(kernel)),
        (
            "measured",
            Some(format!("{rounds} rounds, {seconds} s each")),
        ),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// Returns the facts of a study that began on this day.
pub(super) fn with_day(day: &str, of_run: &Facts) -> Facts {
    let day = ("date".to_owned(), day.to_owned());
    [day].into_iter().chain(of_run.iter().cloned()).collect()
}

/// Returns the version, with the commit where it is known: see `build.rs`.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("UTHREAD_COMMIT") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

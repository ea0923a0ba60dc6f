//! When something is measured, of what build and on what machine, in words.

use std::fs;
use std::time::SystemTime;

use rustix::system::uname;

use super::Measuring;
use crate::place;
use crate::results::Facts;

/// The day, so that the studies of one run have the same facts.
pub(super) fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// Of this run, but for the day.
pub(super) fn of_this_run(measuring: &Measuring) -> Facts {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cpus = place::allowed_cpus().ok();
    let kernel = uname().release().to_string_lossy().into_owned();
    let Measuring {
        rounds, seconds, ..
    } = measuring;
    let facts = [
        ("uthread", Some(version())),
        ("processor", place::processor()),
        ("CPUs", cpus.map(|cpus| cpus.len().to_string())),
        ("memory", memory(&meminfo)),
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

/// The facts of a study that was begun on this day.
pub(super) fn with_day(day: &str, of_run: &Facts) -> Facts {
    let day = ("date".to_owned(), day.to_owned());
    [day].into_iter().chain(of_run.iter().cloned()).collect()
}

/// With the commit it was built from, where that is known: see `build.rs`.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("UTHREAD_COMMIT") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

fn memory(meminfo: &str) -> Option<String> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / (1024.0 * 1024.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_told_in_gib() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(memory(text).as_deref(), expected);
        check(
            "MemTotal:       25165824 kB\nMemFree: 1 kB\n",
            Some("24.0 GiB"),
        );
        check("MemFree: 1 kB\n", None);
        check("MemTotal: many kB\n", None);
    }
}

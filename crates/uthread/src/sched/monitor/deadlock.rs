//! Reports fibers none of which can ever go on.
//!
//! Nothing is recorded for this while fibers run. When all workers have slept for so long that
//! their stacks are [trimmed](super::trims), each records whether it has an operation in flight or a
//! timer. If none has, and every other thread of the process waits for another one
//! ([`Stillness`]), nothing is left that could wake a fiber. A report is never wrong, but a deadlock
//! may remain unreported: beside a thread that waits for anything else, or if the program handles a
//! signal.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::driver::native::standard_error;
use crate::driver::native::stillness::Stillness;
use crate::fiber::{FiberInfo, FiberState};
use crate::sched::shared::Shared;

/// When threads that might wake a fiber are looked at again, as idle threads of a pool end by then.
const RETRY_AFTER: Duration = Duration::from_secs(11);

/// Time for which a worker that sleeps may take to list its fibers.
const LIST_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum number of spawn sites, and of fibers for each, that are printed.
const SITES_MAX: usize = 16;
const FIBERS_MAX: usize = 8;

/// The looks for a deadlock of one runtime.
#[derive(Default)]
pub(super) struct Deadlocks {
    /// The progress of the runtime at the last look, and the number of looks since that.
    last: Option<(u64, u32)>,
}

impl Deadlocks {
    /// Looks once for each state of the runtime, and once more. Returns the time of the next look.
    /// Called when no worker is awake.
    pub(super) fn look(&mut self, shared: &Shared, now: Instant) -> Option<Instant> {
        if !shared.may_be_deadlocked() {
            return None;
        }
        let progress = shared.progress();
        let looks = match self.last {
            Some((last, looks)) if last == progress => looks,
            _ => 0,
        };
        if looks == 2 {
            return None;
        }
        let is_deadlocked = is_deadlocked(shared, progress);
        self.last = Some((progress, if is_deadlocked { 2 } else { looks + 1 }));
        if is_deadlocked {
            let (sender, list) = mpsc::channel();
            shared.list_fibers(Box::new(move |fibers| drop(sender.send(fibers))));
            if let Ok(fibers) = list.recv_timeout(LIST_TIME_MAX) {
                standard_error::print(format_args!("{}", Deadlock(&fibers)));
            }
            return None;
        }
        (looks == 0).then_some(now + RETRY_AFTER)
    }
}

/// Returns `true` if no fiber has run since the runtime has made this progress, and nothing can
/// make one run.
fn is_deadlocked(shared: &Shared, progress: u64) -> bool {
    let workers = shared.tasks();
    let Some(before) = Stillness::observe(&workers) else {
        return false;
    };
    // As seen while no other thread ran, if the second record is the same.
    let is_deadlocked = shared.may_be_deadlocked() && shared.progress() == progress;
    is_deadlocked && Stillness::observe(&workers) == Some(before)
}

/// The report.
struct Deadlock<'a>(&'a [FiberInfo]);

impl fmt::Display for Deadlock<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sites: BTreeMap<&Location<'_>, Vec<&FiberInfo>> = BTreeMap::new();
        for fiber in self.0 {
            sites.entry(fiber.spawn_site).or_default().push(fiber);
        }
        let mut sites: Vec<_> = sites.into_iter().collect();
        sites.sort_by_key(|(_, fibers)| fibers.len());
        match self.0.len() {
            1 => writeln!(
                formatter,
                "uthread: deadlock: 1 fiber waits, and nothing can wake it"
            ),
            count => writeln!(
                formatter,
                "uthread: deadlock: {count} fibers wait, and nothing can wake one of them"
            ),
        }?;
        for (site, fibers) in sites.iter().take(SITES_MAX) {
            let plural = if fibers.len() == 1 { "" } else { "s" };
            let count = fibers.len();
            write!(formatter, "    {count} fiber{plural} spawned at {site}:")?;
            for (index, fiber) in fibers.iter().take(FIBERS_MAX).enumerate() {
                write!(
                    formatter,
                    "{} {}",
                    if index > 0 { "," } else { "" },
                    fiber.id
                )?;
                if let Some(name) = &fiber.name {
                    write!(formatter, " \"{name}\"")?;
                }
                if fiber.state == FiberState::Alone {
                    formatter.write_str(" (blocks its thread)")?;
                }
            }
            if fibers.len() > FIBERS_MAX {
                formatter.write_str(", ..")?;
            }
            writeln!(formatter)?;
        }
        if let Some(rest) = sites.len().checked_sub(SITES_MAX).filter(|rest| *rest > 0) {
            writeln!(formatter, "    and those of {rest} other spawn sites")?;
        }
        let process = std::process::id();
        writeln!(
            formatter,
            "    `uthread dump {process}` shows what each waits in"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_fibers_by_spawn_site_and_is_short() {
        let (one, many) = (Location::caller(), here());
        let fiber = |id, spawn_site| FiberInfo {
            id,
            name: (id == 64).then(|| "main".into()),
            spawn_site,
            worker: 0,
            state: if id == 70 {
                FiberState::Alone
            } else {
                FiberState::Parked
            },
        };
        let mut fibers = vec![fiber(64, one)];
        fibers.extend((70..90).map(|id| fiber(id, many)));
        let process = std::process::id();
        assert_eq!(
            Deadlock(&fibers).to_string(),
            format!(
                "uthread: deadlock: 21 fibers wait, and nothing can wake one of them\n    \
                 1 fiber spawned at {one}: 64 \"main\"\n    \
                 20 fibers spawned at {many}: 70 (blocks its thread), 71, 72, 73, 74, 75, 76, 77, ..\n    \
                 `uthread dump {process}` shows what each waits in\n"
            )
        );
    }

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }
}

//! Reports fibers none of which can ever go on.
//!
//! Nothing is recorded for this while fibers run. When all workers have slept for so long that
//! their stacks are [trimmed](super::trims), each records whether it has an operation in flight or a
//! timer. If none has, and every other thread of the process waits for another one
//! ([`Stillness`]), nothing is left that could wake a fiber. A report is never wrong, but a deadlock
//! may remain unreported: beside a thread that waits for anything else, or if the program handles a
//! signal.

use std::fmt;
use std::time::{Duration, Instant};

use crate::driver::native::standard_error;
use crate::driver::native::stillness::Stillness;
use crate::fiber::{FiberInfo, Grouped};
use crate::root;
use crate::sched::shared::Shared;

/// When threads that might wake a fiber are looked at again, as idle threads of a pool end by then.
const RETRY_AFTER: Duration = Duration::from_secs(11);

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
            shared.list_fibers(Box::new(|fibers| {
                standard_error::print(format_args!("{}", Deadlock(&fibers)));
            }));
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
pub(in crate::sched) struct Deadlock<'a>(pub(in crate::sched) &'a [FiberInfo]);

impl fmt::Display for Deadlock<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let waiting = self.0.iter();
        let waiting = waiting.filter_map(|fiber| Some((fiber.id, fiber.waits_for?)));
        let cycle = root::cycle(waiting);
        for (index, (fiber, waits_for)) in cycle.iter().enumerate() {
            let start = if index == 0 { "    cycle: " } else { ", " };
            write!(formatter, "{start}fiber {fiber} waits for {waits_for}")?;
        }
        if !cycle.is_empty() {
            writeln!(formatter)?;
        }
        Grouped(self.0).fmt(formatter)
    }
}

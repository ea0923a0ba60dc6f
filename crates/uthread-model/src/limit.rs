//! The limit of a service, in a sentence.

use uthread_report::results::significant;

use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::words::{count, number, rate, time};

/// Share of its capacity above which something limits a service: queues grow long before it is all
/// in use.
const FULL: f64 = 0.95;

/// Names the first resource that the load needs more of than there is: CPUs, calls of a dependency,
/// threads or connections.
pub(crate) fn limit(scenario: &Scenario, outcome: &Outcome) -> String {
    let load = outcome.load();
    let (work, cpus) = (
        scenario.service.work.as_secs_f64(),
        scenario.service.cpus.unwrap_or(1),
    );
    if load * work > FULL * cpus as f64 {
        return format!(
            "The CPUs limit it: {} of work for each request allow {} on {}.",
            time(work),
            rate(cpus as f64 / work),
            count(cpus, "CPU")
        );
    }
    for (dependency, &call) in scenario.dependencies.iter().zip(&outcome.call_seconds) {
        if let Some(concurrent) = dependency.concurrent
            && load * call > FULL * concurrent as f64
        {
            return format!(
                "The calls of {} limit it: {} at a time of {} each allow {}; {} arrive{}.",
                dependency.name,
                number(concurrent),
                time(call),
                rate(concurrent as f64 / call),
                rate(load),
                with_retries(outcome)
            );
        }
    }
    let (slots, each) = match outcome.mode {
        Mode::Sync => (scenario.sync.map(|sync| sync.threads), "thread"),
        Mode::Async => (
            scenario.fibers.and_then(|fibers| fibers.connections),
            "connection",
        ),
    };
    match slots {
        Some(slots) if outcome.demand > FULL * slots as f64 => format!(
            "The {} limit it: a request holds one for {}, so they allow {}; {} arrive{} and need {}.",
            count(slots, each),
            time(outcome.service_seconds),
            rate(slots as f64 / outcome.service_seconds),
            rate(load),
            with_retries(outcome),
            significant(outcome.demand)
        ),
        Some(slots) if outcome.in_progress.max == slots => format!(
            "All {} are in use at times, although {} are enough for the usual load.",
            count(slots, each),
            number(outcome.demand.ceil() as u64)
        ),
        _ => format!(
            "Nothing limits it: at most {} in progress.",
            count(outcome.in_progress.max, "request")
        ),
    }
}

fn with_retries(outcome: &Outcome) -> &'static str {
    if outcome.attempts > outcome.requests {
        " with all retries"
    } else {
        ""
    }
}

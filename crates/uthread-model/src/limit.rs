//! The limit of a service, in a sentence.

use uthread_report::results::significant;

use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::{Parts, Scenario};
use crate::times::Times;
use crate::words::{count, number, rate, time};

/// Share of its capacity above which something limits a service: queues grow long before it is all
/// in use.
const FULL: f64 = 0.95;

/// Names the first resource that the load needs more of than there is: CPUs, the task queue, calls of a
/// dependency, threads or connections, of the service or of a tier below.
pub(crate) fn limit(scenario: &Scenario, outcome: &Outcome) -> String {
    let parts = scenario.parts();
    let slots = parts.slots(outcome.mode);
    if let Some(limit) = limit_of(parts, "", outcome, outcome.load(), &outcome.times) {
        limit
    } else if let Some(slots) = slots.filter(|slots| outcome.in_progress.max == *slots) {
        format!(
            "All {} are in use at times, although {} are enough for the usual load.",
            count(slots, each(outcome)),
            number(outcome.demand.ceil() as u64)
        )
    } else {
        let in_progress = count(outcome.in_progress.max, "request");
        format!("Nothing limits it: at most {in_progress} in progress.")
    }
}

/// Names what limits a service under this load; `of` follows the name of a resource of a tier.
fn limit_of(
    parts: Parts<'_>,
    of: &str,
    outcome: &Outcome,
    load: f64,
    times: &Times,
) -> Option<String> {
    let (work, cpus) = (
        parts.service.work.as_secs_f64(),
        parts.service.cpus.unwrap_or(1),
    );
    if load * work > FULL * cpus as f64 {
        return Some(format!(
            "The CPUs{of} limit it: {} of work for each request allow {} on {}.",
            time(work),
            rate(cpus as f64 / work),
            count(cpus, "CPU")
        ));
    }
    let arrive = format!("{} arrive{}", rate(load), with_retries(outcome));
    let queue_cost = parts.queue_cost(outcome.mode).as_secs_f64();
    if load * queue_cost > FULL {
        return Some(format!(
            "The task queue{of} limits it: {} for each request allow {}; {arrive}.",
            time(queue_cost),
            rate(1.0 / queue_cost),
        ));
    }
    for (dependency, call) in parts.dependencies.iter().zip(&times.calls) {
        if let Some(concurrent) = dependency.concurrent
            && load * call.seconds > FULL * concurrent as f64
        {
            return Some(format!(
                "The calls of {} limit it: {} at a time of {} each allow {}; {arrive}.",
                dependency.name,
                number(concurrent),
                time(call.seconds),
                rate(concurrent as f64 / call.seconds),
            ));
        }
    }
    let demand = load * times.seconds;
    if let Some(slots) = parts.slots(outcome.mode)
        && demand > FULL * slots as f64
    {
        return Some(format!(
            "The {}{of} limit it: a request holds one for {}, so they allow {}; {arrive} and need {}.",
            count(slots, each(outcome)),
            time(times.seconds),
            rate(slots as f64 / times.seconds),
            significant(demand)
        ));
    }
    let mut tiers = parts.dependencies.iter().zip(&times.calls);
    tiers.find_map(|(dependency, call)| {
        let (tier, times) = dependency.tier.as_ref().zip(call.tier.as_ref())?;
        let of = format!(" of {}", dependency.name);
        let load = load / call.servers as f64;
        limit_of(tier.parts(), &of, outcome, load, times)
    })
}

/// Names what a request in progress holds.
fn each(outcome: &Outcome) -> &'static str {
    match outcome.mode {
        Mode::Sync => "thread",
        Mode::Async => "connection",
    }
}

fn with_retries(outcome: &Outcome) -> &'static str {
    if outcome.attempts > outcome.requests {
        " with all retries"
    } else {
        ""
    }
}

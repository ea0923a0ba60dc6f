//! The figures of a scenario as a table with a column for each service, for the terminal and for
//! the page.

use std::fmt::Write;

use uthread_report::results::significant;

use crate::outcome::{Level, Outcome, Spread, Tier};
use crate::scenario::Scenario;
use crate::simulated::Simulated;
use crate::words::{number, rate, size, time};

/// The percentiles of the wait to be accepted, which is a part of the latency.
const WAITS: [f64; 2] = [50.0, 99.0];

/// Describes the load in words, with the seed that repeats it.
pub(crate) fn load(scenario: &Scenario, outcomes: &[Outcome]) -> String {
    let offered = outcomes.first().map_or(0.0, |outcome| outcome.offered);
    let requests = crate::words::count(scenario.requests, "request");
    format!("{requests} at {}, seed {}", rate(offered), scenario.seed)
}

/// Returns rows of cells; the first row has the services, and the first cell of each the name of a
/// figure.
pub(crate) fn rows(outcomes: &[&Outcome]) -> Vec<Vec<String>> {
    let mut rows = Rows::of(outcomes);
    let level =
        |level: Level| format!("{}, at most {}", significant(level.mean), number(level.max));
    rows.add("", |outcome| outcome.service.clone());
    rows.add("rate of successes", |outcome| {
        rate(outcome.rate_steady.unwrap_or(outcome.rate))
    });
    rows.add("rate std deviation", |outcome| {
        outcome.rate_deviation.map_or("-".to_owned(), rate)
    });
    rows.add("rate with start and end", |outcome| rate(outcome.rate));
    rows.add("successes", |outcome| {
        let share = 100.0 * outcome.success();
        format!("{} ({share:.1} %)", number(outcome.succeeded))
    });
    if outcomes
        .iter()
        .any(|outcome| outcome.attempts > outcome.requests)
    {
        rows.add("attempts", |outcome| number(outcome.attempts));
    }
    if outcomes.iter().any(|outcome| outcome.wasted > 0) {
        rows.add("responses nobody waited for", |outcome| {
            number(outcome.wasted)
        });
    }
    if outcomes.iter().any(|outcome| outcome.hedged > 0) {
        rows.add("hedged calls", |outcome| number(outcome.hedged));
    }
    if outcomes.iter().any(|outcome| outcome.clients > 1) {
        rows.add("clients with failures", |outcome| {
            let (failed, all) = (outcome.clients_failed, outcome.clients);
            format!("{} of {}", number(failed), number(all))
        });
    }
    add_latencies(&mut rows);
    rows.add("in progress", |outcome| level(outcome.in_progress));
    rows.add("by Little's law", |outcome| significant(outcome.demand));
    rows.add("waiting", |outcome| level(outcome.waiting));
    let tiers = outcomes.iter().map(|outcome| &outcome.tiers);
    let tiers = tiers.max_by_key(|tiers| tiers.len());
    for (index, Tier { name, .. }) in tiers.into_iter().flatten().enumerate() {
        let mut add = |figure: &str, of: &dyn Fn(&Tier) -> String| {
            rows.add(&format!("{name}, {figure}"), |outcome| {
                outcome.tiers.get(index).map_or("-".to_owned(), of)
            });
        };
        add("in progress", &|tier| level(tier.in_progress));
        add("waiting", &|tier| level(tier.waiting));
        add("responses nobody waited for", &|tier| number(tier.wasted));
    }
    rows.add("memory, resident", |outcome| match outcome.measured {
        None => size(outcome.bytes as f64),
        Some(_) => "-".to_owned(),
    });
    rows.rows
}

/// Adds the rows on latencies and waits, which are those of successful requests.
fn add_latencies(rows: &mut Rows<'_>) {
    let most = rows
        .outcomes
        .iter()
        .max_by_key(|outcome| outcome.percentiles.len());
    for (index, known) in most
        .into_iter()
        .flat_map(|outcome| &outcome.percentiles)
        .enumerate()
    {
        rows.add(
            &format!("latency of successes, p{}", known.percent),
            |outcome| {
                let found = outcome.percentiles.get(index);
                found.map_or("-".to_owned(), |found| time(found.latency))
            },
        );
    }
    let mut add_spread = |name: &str, of: fn(Spread) -> f64| {
        rows.add(name, |outcome| {
            let spread = outcome.latency;
            spread.map_or("-".to_owned(), |spread| time(of(spread)))
        });
    };
    add_spread("latency of successes, mean", |spread| spread.mean);
    add_spread("latency of successes, std deviation", |spread| {
        spread.deviation
    });
    for percent in WAITS {
        let waited = |outcome: &Outcome| Some(outcome.percentile(percent)?.wait);
        let mut waits = rows.outcomes.iter().filter_map(|outcome| waited(outcome));
        if waits.any(|wait| wait > 0.0) {
            rows.add(&format!("wait of successes, p{percent}"), |outcome| {
                waited(outcome).map_or("-".to_owned(), time)
            });
        }
    }
}

/// The rows of a table with a column for each outcome.
struct Rows<'a> {
    outcomes: &'a [&'a Outcome],
    rows: Vec<Vec<String>>,
}

impl Rows<'_> {
    fn of<'a>(outcomes: &'a [&'a Outcome]) -> Rows<'a> {
        Rows {
            outcomes,
            rows: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, cell: impl Fn(&Outcome) -> String) {
        let cells = self.outcomes.iter().map(|outcome| cell(outcome));
        let row = std::iter::once(name.to_owned()).chain(cells);
        self.rows.push(row.collect());
    }
}

/// Returns the sentences on each service: its limit, Little's law, and why requests failed.
pub(crate) fn sentences(outcome: &Outcome) -> Vec<String> {
    let first = match &outcome.measured {
        None => model(outcome),
        Some(measured) if measured.scale == 1.0 => {
            format!("{}: all times were as in the scenario.", outcome.service)
        }
        Some(measured) => format!(
            "{}: all times were divided by {}, and the results are multiplied by it.",
            outcome.service, measured.scale
        ),
    };
    let failed = outcome.failed.iter();
    let failed =
        failed.map(|failed| format!("{} failed: {}.", number(failed.requests), failed.cause));
    std::iter::once(first).chain(failed).collect()
}

fn model(outcome: &Outcome) -> String {
    format!(
        "{}: {} By Little's law, {} of {} each need {} in progress; {} were on average.",
        outcome.service,
        outcome.limit,
        rate(outcome.load()),
        time(outcome.service_seconds),
        significant(outcome.demand),
        significant(outcome.in_progress.mean)
    )
}

/// Returns rows of cells with the deviations of real runs from the simulation; none without a real
/// run.
pub(crate) fn deviation_rows(simulated: &Simulated) -> Vec<Vec<String>> {
    let deviations = simulated.deviations();
    let most = deviations.iter().max_by_key(|(_, all)| all.len());
    let Some((_, most)) = most else {
        return Vec::new();
    };
    let head = deviations
        .iter()
        .map(|(measured, _)| measured.driver.clone());
    let head = std::iter::once("reality against the model".to_owned()).chain(head);
    let row = |figure: &str| {
        let cells = deviations.iter().map(|(_, all)| {
            let found = all.iter().find(|deviation| deviation.figure == figure);
            let error = found.and_then(|found| found.error);
            error.map_or("-".to_owned(), |error| format!("{:+.1} %", 100.0 * error))
        });
        let name = figure.replace("latency ", "latency of successes, ");
        std::iter::once(name).chain(cells).collect()
    };
    let rows = most.iter().map(|deviation| row(&deviation.figure));
    std::iter::once(head.collect()).chain(rows).collect()
}

/// Returns rows of cells as lines in which the cells of a column are below one another.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths = Vec::from_iter((0..columns).map(width));
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, &width)| format!("{cell:width$}"));
        let line = Vec::from_iter(cells).join("   ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Returns the results of a scenario as text.
pub(crate) fn text(simulated: &Simulated) -> String {
    let Simulated {
        scenario, outcomes, ..
    } = simulated;
    let mut text = format!("{}: {}\n", simulated.title(), load(scenario, outcomes));
    if !scenario.about.is_empty() {
        text += &format!("{}\n", scenario.about);
    }
    text.push('\n');
    let all = simulated.all();
    text += &aligned(&rows(&all));
    let deviations = deviation_rows(simulated);
    if !deviations.is_empty() {
        text += &format!("\n{}", aligned(&deviations));
    }
    for outcome in all {
        text += &format!("\n{}\n", sentences(outcome).join("\n  "));
    }
    for missing in &simulated.missing {
        text += &format!("\n{missing}\n");
    }
    text
}

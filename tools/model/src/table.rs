//! The figures of a scenario as a table with a column for each service, for the terminal and for the page.

use std::fmt::Write;

use uthread_report::results::significant;

use crate::outcome::{Level, Outcome, Spread};
use crate::scenario::Scenario;
use crate::words::{number, rate, size, time};

/// The percentiles of the wait to be accepted, which is a part of the latency.
const WAITS: [f64; 2] = [50.0, 99.0];

/// Describes the load in words.
pub(crate) fn load(scenario: &Scenario, outcomes: &[Outcome]) -> String {
    let offered = outcomes.first().map_or(0.0, |outcome| outcome.offered);
    let requests = crate::words::count(scenario.requests, "request");
    format!("{requests} at {}", rate(offered))
}

/// Returns rows of cells; the first row has the services, and the first cell of each the name of a figure.
pub(crate) fn rows(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut add = |name: &str, cell: &dyn Fn(&Outcome) -> String| {
        let cells = outcomes.iter().map(cell);
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    };
    let level =
        |level: Level| format!("{}, at most {}", significant(level.mean), number(level.max));
    add("", &|outcome| outcome.service.clone());
    add("rate", &|outcome| {
        rate(outcome.rate_steady.unwrap_or(outcome.rate))
    });
    add("rate with start and end", &|outcome| rate(outcome.rate));
    add("success", &|outcome| {
        format!("{:.1} %", 100.0 * outcome.success())
    });
    if outcomes
        .iter()
        .any(|outcome| outcome.attempts > outcome.requests)
    {
        add("attempts", &|outcome| number(outcome.attempts));
    }
    if outcomes.iter().any(|outcome| outcome.wasted > 0) {
        add("responses nobody waited for", &|outcome| {
            number(outcome.wasted)
        });
    }
    let most = outcomes
        .iter()
        .max_by_key(|outcome| outcome.percentiles.len());
    for (index, known) in most
        .into_iter()
        .flat_map(|outcome| &outcome.percentiles)
        .enumerate()
    {
        add(&format!("latency p{}", known.percent), &|outcome| {
            let found = outcome.percentiles.get(index);
            found.map_or("-".to_owned(), |found| time(found.latency))
        });
    }
    let mut add_spread = |name: &str, of: fn(Spread) -> f64| {
        add(name, &|outcome| {
            let spread = outcome.latency;
            spread.map_or("-".to_owned(), |spread| time(of(spread)))
        });
    };
    add_spread("latency mean", |spread| spread.mean);
    add_spread("latency std deviation", |spread| spread.deviation);
    for percent in WAITS {
        let waited = |outcome: &Outcome| Some(outcome.percentile(percent)?.wait);
        if outcomes.iter().filter_map(waited).any(|wait| wait > 0.0) {
            add(&format!("wait p{percent}"), &|outcome| {
                waited(outcome).map_or("-".to_owned(), time)
            });
        }
    }
    add("in progress", &|outcome| level(outcome.in_progress));
    add("by Little's law", &|outcome| significant(outcome.demand));
    add("waiting", &|outcome| level(outcome.waiting));
    add("memory", &|outcome| size(outcome.bytes as f64));
    rows
}

/// Returns the sentences on each service: its limit, Little's law, and why requests failed.
pub(crate) fn sentences(outcome: &Outcome) -> Vec<String> {
    let mut sentences = vec![format!(
        "{}: {} By Little's law, {} of {} each need {} in progress; {} were on average.",
        outcome.service,
        outcome.limit,
        rate(outcome.load()),
        time(outcome.service_seconds),
        significant(outcome.demand),
        significant(outcome.in_progress.mean)
    )];
    let failed = outcome.failed.iter();
    sentences.extend(
        failed.map(|failed| format!("{} failed: {}.", number(failed.requests), failed.cause)),
    );
    sentences
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
pub(crate) fn text(title: &str, scenario: &Scenario, outcomes: &[Outcome]) -> String {
    let mut text = format!("{title}: {}\n", load(scenario, outcomes));
    if !scenario.about.is_empty() {
        text += &format!("{}\n", scenario.about);
    }
    text.push('\n');
    let rows = rows(outcomes);
    text += &aligned(&rows);
    for outcome in outcomes {
        text += &format!("\n{}\n", sentences(outcome).join("\n  "));
    }
    text
}

//! The results as one HTML page: a table of each scenario, and plots of both services, and of their
//! real runs, over each other.

use maud::{Markup, html};
use uthread_report::page::{Page, Section, draw as draw_page};
use uthread_report::plot::{Curve, Plot, Scale};
use uthread_report::results::{Results, Study, Subject};

use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::series::Interval;
use crate::simulated::Simulated;
use crate::table;
use crate::timeline::PERCENTS;

const LEAD: &str = "The same load on a service with a pool of threads and on one with a fiber for each request, simulated in \
                    virtual time. A thread and a fiber do the same; the pool has only so many threads.";
/// Continues the lead of a page with real runs.
const LEAD_REAL: &str =
    " The same scenario also ran as real programs on loopback, with a driver each.";
/// Latencies that span more than this have a logarithmic axis.
const SPAN_MAX: f64 = 30.0;
/// Bytes in a MiB.
const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn draw(all: &[Simulated]) -> String {
    let results = Results {
        studies: all.iter().map(study).collect(),
        ..Results::default()
    };
    let body = html! {
        @for simulated in all { (figures(simulated)) }
    };
    let section = Section {
        id: "results",
        title: "Results",
        body,
    };
    let is_real = all.iter().any(|simulated| !simulated.real.is_empty());
    let lead = [LEAD, if is_real { LEAD_REAL } else { "" }].concat();
    let page = Page {
        title: "uthread model",
        lead: &lead,
        command: "uthread model",
        sections: vec![section],
    };
    draw_page(&page, &results)
}

fn figures(simulated: &Simulated) -> Markup {
    let deviations = table::deviation_rows(simulated);
    html! {
        h3 { (simulated.title()) }
        p { (table::load(&simulated.scenario, &simulated.outcomes)) "." }
        (cells(&table::rows(&simulated.all())))
        @if !deviations.is_empty() {
            p { "The deviations of reality, as shares of the simulated figures:" }
            (cells(&deviations))
        }
        @for missing in &simulated.missing { p { (missing) } }
    }
}

/// Draws rows of cells, of which the first row and the first column are heads.
fn cells(rows: &[Vec<String>]) -> Markup {
    let (head, body) = rows.split_at(1);
    html! {
        div .scroll {
            table {
                thead { @for row in head { tr { @for cell in row { th scope="col" { (cell) } } } } }
                tbody {
                    @for row in body {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @if index == 0 { th .stay scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the name of a curve.
fn label(outcome: &Outcome) -> &str {
    match outcome.measured {
        None => outcome.mode.name(),
        Some(_) => &outcome.service,
    }
}

fn study(simulated: &Simulated) -> Study {
    let outcomes = simulated.all();
    let about = &simulated.scenario.about;
    let words = [simulated.command.as_str(), simulated.title(), about];
    let notes = outcomes
        .iter()
        .map(|outcome| table::sentences(outcome).join(" "));
    let subjects = outcomes.iter().map(|outcome| match outcome.mode {
        Mode::Sync => Subject::peer(label(outcome), None, None),
        Mode::Async => Subject::ours(label(outcome)),
    });
    Study {
        plots: plots(&outcomes),
        ..Study::new(words, notes.collect(), subjects.collect(), Vec::new())
    }
}

fn plots(outcomes: &[&Outcome]) -> Vec<Plot> {
    let over_time = |title: &str, unit: &str, value: &dyn Fn(&Outcome, &Interval) -> f64| {
        let curve = |outcome: &&Outcome| Curve {
            name: label(outcome).to_owned(),
            points: points(outcome, |interval| value(outcome, interval)),
        };
        plot(
            title,
            scale("seconds"),
            scale(unit),
            outcomes.iter().map(curve).collect(),
        )
    };
    let rate = |name: &str, outcome: &Outcome, count: &dyn Fn(&Interval) -> u64| Curve {
        name: name.to_owned(),
        points: rates(outcome, count),
    };
    let responses = outcomes
        .iter()
        .map(|outcome| rate(label(outcome), outcome, &|interval| interval.succeeded));
    let mut rates = plot(
        "responses",
        scale("seconds"),
        scale("1/s"),
        responses.collect(),
    );
    // The longest time: arrivals are the same for all.
    let longest = outcomes
        .iter()
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let arrivals = longest.map(|outcome| rate("arrivals", outcome, &|interval| interval.arrived));
    rates.curves.extend(arrivals);
    let mut memory = over_time("memory of those in use", "MiB", &|outcome, interval| {
        interval.in_progress * outcome.bytes_each as f64 / MIB
    });
    let is_simulated = |name: &str| [Mode::Sync, Mode::Async].map(Mode::name).contains(&name);
    memory.curves.retain(|curve| is_simulated(&curve.name));
    let mut plots = vec![
        rates,
        by_percentile("latency of successes", outcomes, |outcome| {
            &outcome.distribution
        }),
        by_percentile("overhead: wait to be accepted", outcomes, |outcome| {
            &outcome.waits
        }),
        over_time("waiting to be accepted", "requests", &|_, interval| {
            interval.waiting
        }),
        over_time("in use", "threads or fibers", &|_, interval| {
            interval.in_progress
        }),
        memory,
    ];
    plots.extend((0..PERCENTS.len()).map(|index| percentile_over_time(index, outcomes)));
    plots
}

/// Draws a percentile of the windows of all outcomes.
fn percentile_over_time(index: usize, outcomes: &[&Outcome]) -> Plot {
    let curve = |outcome: &&Outcome| {
        let windows = outcome.timeline.iter();
        Curve {
            name: label(outcome).to_owned(),
            points: windows
                .map(|(at, latencies)| (*at, latencies[index]))
                .collect(),
        }
    };
    let curves = Vec::from_iter(outcomes.iter().map(curve));
    let title = format!("latency p{} over time", PERCENTS[index]);
    plot(&title, scale("seconds"), latency_scale(&curves), curves)
}

/// Returns the rate around each whole interval: twice a mean over a second. Requests come and go in
/// steps, and a count of intervals that are no multiple of a step would show a saw-tooth that is
/// not there.
fn rates(outcome: &Outcome, count: &dyn Fn(&Interval) -> u64) -> Vec<(f64, f64)> {
    let length = outcome.series.interval_ns as f64 / 1e9;
    let points = points(outcome, |interval| count(interval) as f64 / length);
    let half = (0.5 / length).round() as usize;
    let mean = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let around = |index: usize| {
            let around = index.saturating_sub(half)..(index + half + 1).min(points.len());
            let sum: f64 = points[around.clone()].iter().map(|(_, rate)| rate).sum();
            (points[index].0, sum / around.len() as f64)
        };
        (0..points.len()).map(around).collect()
    };
    mean(&mean(&points))
}

/// Returns a point for each whole interval, at its middle.
fn points(outcome: &Outcome, value: impl Fn(&Interval) -> f64) -> Vec<(f64, f64)> {
    let length = outcome.series.interval_ns as f64 / 1e9;
    let whole = outcome.series.intervals.len().saturating_sub(1);
    let intervals = outcome.series.intervals[..whole].iter().zip(0_u32..);
    intervals
        .map(|(interval, index)| ((f64::from(index) + 0.5) * length, value(interval)))
        .collect()
}

fn by_percentile(
    title: &str,
    outcomes: &[&Outcome],
    values: impl Fn(&Outcome) -> &[(f64, f64)],
) -> Plot {
    let curve = |outcome: &&Outcome| Curve {
        name: label(outcome).to_owned(),
        points: values(outcome).to_vec(),
    };
    let curves = Vec::from_iter(outcomes.iter().map(curve));
    plot(title, scale("percentile"), latency_scale(&curves), curves)
}

fn latency_scale(curves: &[Curve]) -> Scale {
    let values = || {
        let points = curves.iter().flat_map(|curve| &curve.points);
        points.map(|&(_, latency)| latency)
    };
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    Scale {
        is_log: least > 0.0 && most / least > SPAN_MAX,
        ..scale("seconds")
    }
}

fn plot(title: &str, x: Scale, y: Scale, curves: Vec<Curve>) -> Plot {
    Plot {
        title: title.to_owned(),
        x,
        y,
        is_scatter: false,
        curves,
    }
}

fn scale(name: &str) -> Scale {
    Scale {
        name: name.to_owned(),
        is_log: false,
    }
}

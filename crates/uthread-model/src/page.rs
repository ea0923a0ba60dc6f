//! The results as one HTML page: a table of each scenario, and plots of both services, and of their
//! real runs, over each other.

use maud::{Markup, html};
use uthread_report::page::{Page, Section, draw as draw_page};
use uthread_report::plot::{Curve, Plot, Scale};
use uthread_report::results::{Facts, Results, Study, Subject};

use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::series::{Interval, Series};
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

/// Draws the page, which has these facts: date, version and command.
pub(crate) fn draw(all: &[Simulated], facts: &Facts) -> String {
    let results = Results {
        studies: all.iter().map(|one| study(one, facts)).collect(),
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

fn study(simulated: &Simulated, facts: &Facts) -> Study {
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
        facts: facts.clone(),
        plots: plots(&outcomes),
        ..Study::new(words, notes.collect(), subjects.collect(), Vec::new())
    }
}

fn plots(outcomes: &[&Outcome]) -> Vec<Plot> {
    let curves = |points: &dyn Fn(&Outcome) -> Vec<(f64, f64)>| {
        let curve = |outcome: &&Outcome| curve(label(outcome), points(outcome));
        Vec::from_iter(outcomes.iter().map(curve))
    };
    let mut rates = curves(&|outcome| rate_line(&outcome.series, |interval| interval.succeeded));
    // The longest time: arrivals are the same for all.
    let longest = outcomes
        .iter()
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    rates.extend(longest.map(|outcome| {
        let points = rate_line(&outcome.series, |interval| interval.arrived);
        curve("arrivals", points)
    }));
    let by_percentile = |title, curves: Vec<Curve>| {
        let y = latency_scale(&curves);
        plot(title, scale("percent of the successes"), y, curves)
    };
    let over_time = |title, unit, curves| plot(title, scale("seconds"), scale(unit), curves);
    let timelines = timelines(outcomes);
    let timeline_scale = latency_scale(&timelines);
    vec![
        over_time("successes and arrivals", "1/s, means over a second", rates),
        by_percentile(
            "latency of successes",
            curves(&|outcome| outcome.distribution.clone()),
        ),
        by_percentile(
            "overhead of successes: wait to be accepted",
            curves(&|outcome| outcome.waits.clone()),
        ),
        plot(
            "latency of successes over time",
            scale("seconds"),
            timeline_scale,
            timelines,
        ),
        over_time(
            "waiting to be accepted",
            "requests",
            curves(&|outcome| level_line(outcome, |interval| interval.waiting)),
        ),
        over_time(
            "in use",
            "threads or fibers",
            curves(&|outcome| level_line(outcome, |interval| interval.in_progress)),
        ),
    ]
}

/// Returns percentiles of latencies over time: all of them for each of two services, and only the
/// last where real runs are beside them.
fn timelines(outcomes: &[&Outcome]) -> Vec<Curve> {
    let has_room = outcomes.len() <= 2;
    let shown = if has_room { 0 } else { PERCENTS.len() - 1 }..PERCENTS.len();
    let curve = |(outcome, index): (&&Outcome, usize)| {
        let windows = outcome.timeline.iter();
        let at = |latencies: Option<[f64; PERCENTS.len()]>| {
            latencies.map_or(f64::NAN, |latencies| latencies[index])
        };
        let points = windows.map(|(middle, latencies)| (*middle, at(*latencies)));
        let name = format!("{} p{}", label(outcome), PERCENTS[index]);
        curve(&name, points.collect())
    };
    let each = |outcome| shown.clone().map(move |index| (outcome, index));
    outcomes.iter().flat_map(each).map(curve).collect()
}

/// Returns the line of a rate: twice a mean over a second, from the first interval with a count to
/// the last. Requests come and go in steps, and a count of intervals that are no multiple of a step
/// would show a saw-tooth that is not there.
fn rate_line(series: &Series, count: impl Fn(&Interval) -> u64) -> Vec<(f64, f64)> {
    let length = series.interval_ns as f64 / 1e9;
    let rates = series.intervals.iter();
    let rates = Vec::from_iter(rates.map(|interval| count(interval) as f64 / length));
    let first = rates.iter().position(|rate| *rate > 0.0);
    let last = rates.iter().rposition(|rate| *rate > 0.0);
    let Some((first, last)) = first.zip(last) else {
        return Vec::new();
    };
    // Requests may begin and end in the midst of the outer intervals, whose rates are lower then.
    let is_part = |outer: usize, inner: usize| last - first > 1 && rates[outer] < rates[inner];
    let begin = first + usize::from(is_part(first, first + 1));
    let end = last + 1 - usize::from(is_part(last, last.saturating_sub(1)));
    let half = (0.5 / length).round() as usize;
    let means = means(&means(&rates[begin..end], half), half);
    let mut line = vec![(first as f64 * length, means[0])];
    let middles = (begin..end).map(|index| (index as f64 + 0.5) * length);
    line.extend(middles.zip(means.iter().copied()));
    line.extend(means.last().map(|&rate| ((last + 1) as f64 * length, rate)));
    line
}

/// Returns the mean of each value and `half` of its neighbours on either side. Near the ends the
/// same number of values is that much further on the other side.
fn means(values: &[f64], half: usize) -> Vec<f64> {
    let width = (2 * half + 1).min(values.len());
    let mean = |index: usize| {
        let start = index.saturating_sub(half).min(values.len() - width);
        values[start..start + width].iter().sum::<f64>() / width as f64
    };
    (0..values.len()).map(mean).collect()
}

/// Returns the line of a level: its mean at the middle of each interval, and zero at the beginning
/// and at the end of the last request.
fn level_line(outcome: &Outcome, value: impl Fn(&Interval) -> f64) -> Vec<(f64, f64)> {
    let length = outcome.series.interval_ns as f64 / 1e9;
    let intervals = outcome.series.intervals.iter().zip(0_u32..);
    let mean = |(interval, index): (&Interval, u32)| {
        let start = f64::from(index) * length;
        // The last interval ends with the last request.
        let within = length.min(outcome.seconds - start);
        let level = value(interval) * length / within;
        (within > 0.0).then_some((start + within / 2.0, level))
    };
    let mut line = vec![(0.0, 0.0)];
    line.extend(intervals.filter_map(mean));
    line.push((outcome.seconds, 0.0));
    line
}

fn curve(name: &str, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        name: name.to_owned(),
        points,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{simulate, stories};

    fn outcome(story: &str, mode: Mode) -> Outcome {
        simulate(&stories::find(story).unwrap(), mode).unwrap()
    }

    /// Checks that a line goes from and to these seconds, always at about this height.
    #[track_caller]
    fn check_flat(line: &[(f64, f64)], (start, end): (f64, f64), rate: f64) {
        let (first, last) = (line[0].0, line[line.len() - 1].0);
        // The length of an interval.
        assert!((first - start).abs() < 0.05, "starts at {first}");
        assert!((last - end).abs() < 0.05, "ends at {last}");
        assert!(line.is_sorted_by(|a, b| a.0 < b.0));
        for (at, found) in line {
            assert!((found / rate - 1.0).abs() < 0.03, "{found} at {at}");
        }
    }

    #[test]
    fn rates_begin_and_end_with_their_requests() {
        let [sync, fibers] = [Mode::Sync, Mode::Async].map(|mode| outcome("slower", mode));
        let arrivals = rate_line(&sync.series, |interval| interval.arrived);
        check_flat(&arrivals, (0.0, 10.0), 1000.0);
        let successes =
            |outcome: &Outcome| rate_line(&outcome.series, |interval| interval.succeeded);
        check_flat(&successes(&fibers), (0.06, 10.05), 1000.0);
        check_flat(&successes(&sync), (0.06, 12.05), 833.0);
    }

    #[test]
    fn a_burst_at_the_edge_is_part_of_the_rate() {
        let mut series = Series::new();
        for second in 0..4 {
            series.at(second * 1_000_000_000).arrived += 500;
        }
        let line = rate_line(&series, |interval| interval.arrived);
        let edges = [line[0], line[line.len() - 1]];
        assert!(edges.iter().all(|(_, rate)| *rate > 400.0), "{edges:?}");
        assert_eq!(rate_line(&series, |interval| interval.failed), []);
        let mut once = Series::new();
        once.at(0).arrived += 5;
        assert_eq!(
            rate_line(&once, |interval| interval.arrived)[0],
            (0.0, 500.0)
        );
    }

    #[test]
    fn levels_end_at_zero_and_keep_their_height_until_then() {
        let sync = outcome("slower", Mode::Sync);
        let line = level_line(&sync, |interval| interval.in_progress);
        assert_eq!(
            (line[0], line[line.len() - 1]),
            ((0.0, 0.0), (sync.seconds, 0.0))
        );
        assert!(line.is_sorted_by(|a, b| a.0 < b.0));
        let level_at = |second: f64| line.iter().rfind(|(at, _)| *at <= second).unwrap().1;
        assert!((level_at(6.0) - 50.0).abs() < 1e-6);
        // All threads are in use until the last requests: a mean over the time after them is lower.
        assert!(level_at(sync.seconds - 0.1) > 49.0);
    }

    #[test]
    fn the_page_has_each_chart_once() {
        let titles = |outcomes: &[&Outcome]| {
            let plots = plots(outcomes).into_iter();
            let mut titles = Vec::from_iter(plots.map(|plot| plot.title));
            titles.sort();
            titles
        };
        let [sync, fibers] = [Mode::Sync, Mode::Async].map(|mode| outcome("outage", mode));
        let titles = titles(&[&sync, &fibers]);
        assert_eq!(titles.len(), 6, "{titles:?}");
        let of_time = timelines(&[&sync, &fibers]);
        let names = Vec::from_iter(of_time.iter().map(|curve| &*curve.name));
        let expected = [
            "sync p50",
            "sync p90",
            "sync p99",
            "async p50",
            "async p90",
            "async p99",
        ];
        assert_eq!(names, expected);
        // Nothing has succeeded during the outage, and no line leads across it.
        assert!(
            of_time[0]
                .points
                .iter()
                .any(|(_, latency)| latency.is_nan())
        );
        let with_real = timelines(&[&sync, &fibers, &fibers]);
        assert!(with_real.iter().all(|curve| curve.name.ends_with(" p99")));
    }
}

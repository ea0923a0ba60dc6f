//! Tables of the results, as Markdown.

use crate::experiments::{Experiment, Series, WORKERS};

/// Returns a table of one workload.
pub(crate) fn table(experiment: &Experiment, series: &Series) -> String {
    let mut text = format!(
        "## {}\n\n| workers | {} per second | CPU time of one, µs | waiting for lines | busiest line | moves for |\n| ---: | ---: | ---: | ---: | --- | ---: |\n",
        experiment.name, experiment.operation
    );
    for (workers, outcome) in WORKERS.iter().zip(&series.outcomes) {
        text += &format!(
            "| {workers} | {} | {} | {:.0} % | {} | {:.0} % |\n",
            rate(outcome.rate),
            format_args!("{:.1}", outcome.cost_ns / 1e3),
            100.0 * outcome.waiting,
            outcome.busiest,
            100.0 * outcome.busy
        );
    }
    text += &match series.saturation() {
        Some(index) => format!("\nSaturates at {} workers.\n", WORKERS[index]),
        None => String::from("\nDoes not saturate.\n"),
    };
    text
}

/// Returns a table of one workload with remedies.
pub(crate) fn comparison(experiment: &Experiment, remedies: &[(&str, Series)]) -> String {
    let mut text = format!(
        "## {} with remedies: {} per second, and CPU time of one in µs\n\n| scheduler |",
        experiment.name, experiment.operation
    );
    let rule: String = WORKERS.iter().map(|_| " ---: |").collect();
    text += &WORKERS.map(|workers| format!(" {workers} |")).concat();
    text += &format!(" busiest line at the end |\n| --- |{rule} --- |\n");
    for (name, series) in remedies {
        let rates = series.outcomes.iter();
        let rates: String = rates
            .map(|outcome| format!(" {}, {:.1} |", rate(outcome.rate), outcome.cost_ns / 1e3))
            .collect();
        let last = &series.outcomes[WORKERS.len() - 1];
        let busy = 100.0 * last.busy;
        text += &format!("| {name} |{rates} {}, {busy:.0} % |\n", last.busiest);
    }
    text
}

/// Returns a rate with three digits.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 1e3 => format!("{rate:.0}"),
        rate if rate < 1e5 => format!("{:.1} k", rate / 1e3),
        rate if rate < 1e6 => format!("{:.0} k", rate / 1e3),
        rate if rate < 1e8 => format!("{:.2} M", rate / 1e6),
        rate => format!("{:.0} M", rate / 1e6),
    }
}

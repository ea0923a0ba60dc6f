//! How the figures came about, for readers who doubt them.

use maud::{Markup, html};

use crate::measure::ATTEMPTS_MAX;
use crate::measure::quiet::{OTHERS_SHARE_MAX, QUIET_FOR};
use crate::measure::stats::PAIRS_FOR_A_VERDICT;
use crate::results::{Results, Round, grouped};
use crate::study::FAILURES_MAX;

pub(super) fn draw(results: &Results) -> Markup {
    let words = [
        (
            "In quiet.",
            format!(
                "A measurement begins when other processes have used under {:.0} % of a CPU for {} ms, or right after an undisturbed \
                 one. If they, or the hypervisor, used more while it ran, it is repeated, at most {} times. What stays disturbed is \
                 counted in the tables.",
                OTHERS_SHARE_MAX * 100.0,
                QUIET_FOR.as_millis(),
                ATTEMPTS_MAX - 1
            ),
        ),
        (
            "In turn.",
            "Each round measures every subject once and starts one subject further, so that drift affects all alike. By default there \
             are 7 rounds."
                .to_owned(),
        ),
        (
            "In pairs.",
            format!(
                "A figure is the median of its rounds; the whiskers in the charts reach from the least to the most. A ratio is the \
                 median of the ratios within the rounds, in brackets its 95 % interval by bootstrap. An interval that includes 1 \
                 shows no difference; with fewer than {PAIRS_FOR_A_VERDICT} pairs there are too few rounds to tell."
            ),
        ),
        (
            "CPU",
            "of an operation is that of the server's whole tree of processes and threads, with the kernel's threads that work for it. \
             It says more than the rate where the load, and not the server, is the limit."
                .to_owned(),
        ),
        (
            "Latency",
            "in an open loop counts from the time at which a message was due, even if it could not be sent then. In a closed loop it \
             looks better than users would find it: a server that stalls gets fewer requests."
                .to_owned(),
        ),
        (
            "Targets:",
            "no worse is met unless the whole interval is on the wrong side of the bound; at least, at most and under are met when \
             the median reaches the bound. A target holds at each of its points, and its line shows the worst."
                .to_owned(),
        ),
        (
            "Gaps.",
            format!(
                "What could not be measured is not drawn: a line ends (\u{2020}), a bar is missing, and the table has the reason. A \
                 subject that failed in {FAILURES_MAX} rounds at a point is not tried there again."
            ),
        ),
    ];
    html! {
        p { (counts(results)) }
        ul { @for (lead, text) in words { li { b { (lead) } " " (text) } } }
    }
}

/// Counts the measurements, and those in doubt.
fn counts(results: &Results) -> String {
    let panels = results.studies.iter().flat_map(|study| &study.panels);
    let rounds = panels.flat_map(|panel| panel.rounds.iter().flatten().flatten());
    let rounds: Vec<&Round> = rounds.collect();
    if rounds.is_empty() {
        return "Nothing has been measured.".to_owned();
    }
    let count = |is_one: fn(&Round) -> bool| {
        grouped(rounds.iter().filter(|round| is_one(round)).count() as f64)
    };
    format!(
        "{} measurements; {} were disturbed by other processes, {} failed.",
        count(|_| true),
        count(Round::is_disturbed),
        count(|round| matches!(round, Round::Cannot(_)))
    )
}

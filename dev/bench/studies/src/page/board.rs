//! The targets with their verdicts: a line for each with its worst point, and all its points on
//! demand.

use maud::{Markup, html};
use uthread_report::measure::stats::Ratio;
use uthread_report::page::ratio_text;

use crate::targets::{Judged, Outcome, Verdict};

pub(super) fn draw(verdicts: &[Verdict]) -> Markup {
    let count = |outcome| {
        let verdicts = verdicts.iter();
        verdicts
            .filter(|verdict| verdict.outcome == outcome)
            .count()
    };
    html! {
        p .counts {
            "Of " (verdicts.len()) " targets: "
            @for outcome in [Outcome::Met, Outcome::Missed, Outcome::Unclear, Outcome::NotMeasured] {
                span .badge .(class(outcome)) { (count(outcome)) " " (outcome.name()) } " "
            }
        }
        div .board { @for verdict in verdicts { (row(verdict)) } }
    }
}

fn row(verdict: &Verdict) -> Markup {
    let target = verdict.target;
    let measured = verdict
        .points
        .iter()
        .filter(|judged| judged.ratio.is_some());
    let lead = if measured.count() > 1 { "worst: " } else { "" };
    let summary = html! {
        span .what { (target.what) }
        (badge(verdict.outcome))
        span .worst {
            @match verdict.worst() {
                Some(worst) => {
                    (lead) (figure(worst, target.unit()))
                    " at " (worst.point)
                    @if !worst.note.is_empty() { " " span .d { (worst.note) } }
                }
                None => span .d { "no such figures in these results" },
            }
        }
    };
    html! {
        @if verdict.points.len() <= 1 {
            div .target { (summary) }
        } @else {
            details .target {
                summary { (summary) }
                div .scroll {
                    table {
                        tbody {
                            @for judged in &verdict.points {
                                tr {
                                    th scope="row" { (judged.point) }
                                    td { (badge(judged.outcome)) }
                                    td { (figure(judged, target.unit())) " " span .d { (judged.note) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(judged: &Judged, unit: &str) -> Markup {
    html! {
        @if let Some(ratio) = judged.ratio {
            (judged.between) " " b { (shown(ratio, unit)) } " " (unit)
        }
    }
}

/// Formats a ratio to the third decimal, as a bound may be close, and a figure with a unit as
/// elsewhere.
fn shown(ratio: Ratio, unit: &str) -> String {
    match unit {
        "" => format!("{:.3} [{:.3}..{:.3}]", ratio.median, ratio.low, ratio.high),
        _ => ratio_text(ratio),
    }
}

fn badge(outcome: Outcome) -> Markup {
    html! { span .badge .(class(outcome)) { (outcome.name()) } }
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::Unclear | Outcome::NotMeasured => "unknown",
    }
}

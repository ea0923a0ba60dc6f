//! All figures of a panel: a row for each point and subject, with the median, the minimum, the
//! maximum and the ratio to the first subject in each cell.

use maud::{Markup, html};

use crate::measure::stats::{Ratio, Verdict};
use crate::results::{Better, Metric, Panel, Subject, significant};

pub(super) fn draw(panel: &Panel, subjects: &[Subject]) -> Markup {
    let present = || {
        subjects
            .iter()
            .enumerate()
            .filter(|(index, _)| panel.takes_part(*index))
    };
    html! {
        div .scroll {
            table {
                thead {
                    tr {
                        th scope="col" { (panel.axis) }
                        th .stay scope="col" { "subject" }
                        @for metric in &panel.metrics { th .n scope="col" { (metric_head(metric)) } }
                        th scope="col" { "rounds" }
                    }
                }
                @for (row, point) in panel.points.iter().enumerate() {
                    tbody {
                        @for (index, subject) in present() {
                            tr .ours[subject.is_ours] {
                                td { (point.label) }
                                th .stay scope="row" { (subject.name) }
                                @for metric in 0..panel.metrics.len() { (figure(panel, row, index, metric)) }
                                (rounds(panel, row, index))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Names a metric with its unit and its better direction.
pub(super) fn metric_head(metric: &Metric) -> Markup {
    let better = match metric.better {
        Better::Less => "less is better",
        Better::More => "more is better",
        Better::Neither => "",
    };
    html! {
        (metric.name) @if !metric.unit.is_empty() { ", " (metric.unit) }
        " " span .d { (better) }
    }
}

/// Draws the cell of a figure.
fn figure(panel: &Panel, point: usize, subject: usize, metric: usize) -> Markup {
    let Some(summary) = panel.summary(point, subject, metric) else {
        return html! { td .n .d { "\u{2013}" } };
    };
    let (min, max) = (significant(summary.min), significant(summary.max));
    // The first subject has no ratio to itself.
    let first = 0;
    let ratio = panel
        .ratio(point, metric, (subject, first))
        .filter(|_| subject != first);
    html! {
        td .n {
            (significant(summary.median)) " " span .d { "(" (min) ".." (max) ")" }
            @if let Some(ratio) = ratio {
                @let is_clear = ratio.verdict == Verdict::Difference;
                span .r .d[!is_clear] {
                    "\u{d7} " (ratio_text(ratio)) @if !is_clear { " " (ratio.verdict.name()) }
                }
            }
        }
    }
}

/// Formats a ratio: "1.12 [1.08..1.17]".
#[must_use]
pub fn ratio_text(ratio: Ratio) -> String {
    let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(significant);
    format!("{median} [{low}..{high}]")
}

/// Draws the cell with the numbers of the rounds, of the disturbed and of the failed ones.
fn rounds(panel: &Panel, point: usize, subject: usize) -> Markup {
    let all = panel.rounds(point, subject).len();
    let failures = panel.failures(point, subject);
    let taken = all - failures.values().sum::<usize>();
    let disturbed = panel.disturbed(point, subject);
    html! {
        td {
            (taken) @if taken < all { " of " (all) }
            @if disturbed > 0 { ", " (disturbed) " disturbed" }
            @for (reason, count) in failures { span .why { (count) " \u{d7} " (reason) } }
        }
    }
}

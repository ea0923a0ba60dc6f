//! All figures of a panel: a row for each point and subject, in each cell the median with the least and the most, and
//! the ratio to the first subject.

use std::fmt::Write;

use super::chart::named_unit;
use super::html::escape;
use crate::measure::stats::{Ratio, Verdict};
use crate::results::{Better, Metric, Panel, Subject, significant};

pub(super) fn draw(panel: &Panel, subjects: &[Subject]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    let head = |text: &str| format!("<th scope=\"col\">{}</th>", escape(text));
    html.push_str(&head(&panel.axis));
    html.push_str("<th scope=\"col\" class=\"stay\">subject</th>");
    html.extend(panel.metrics.iter().map(metric_head));
    html.push_str(&head("rounds"));
    html.push_str("</tr></thead>");
    for (point, at) in panel.points.iter().enumerate() {
        html.push_str("<tbody>");
        for (index, subject) in subjects
            .iter()
            .enumerate()
            .filter(|(index, _)| panel.takes_part(*index))
        {
            let row = if subject.is_ours {
                "<tr class=\"ours\">"
            } else {
                "<tr>"
            };
            html.push_str(row);
            write!(
                html,
                "<td>{}</td><th scope=\"row\" class=\"stay\">{}</th>",
                escape(&at.label),
                escape(&subject.name)
            )
            .expect("a string takes every write");
            html.extend((0..panel.metrics.len()).map(|metric| figure(panel, point, index, metric)));
            html.push_str(&rounds(panel, point, index));
            html.push_str("</tr>");
        }
        html.push_str("</tbody>");
    }
    html + "</table></div>"
}

fn metric_head(metric: &Metric) -> String {
    let mark = match metric.better {
        Better::Less => "<br/><span class=\"d\">less is better</span>",
        Better::More => "<br/><span class=\"d\">more is better</span>",
        Better::Neither => "",
    };
    format!(
        "<th scope=\"col\" class=\"n\">{}{mark}</th>",
        escape(&named_unit(metric))
    )
}

fn figure(panel: &Panel, point: usize, subject: usize, metric: usize) -> String {
    let Some(summary) = panel.summary(point, subject, metric) else {
        return "<td class=\"n d\">\u{2013}</td>".to_owned();
    };
    let (least, most) = (significant(summary.min), significant(summary.max));
    let ratio = match subject {
        0 => None,
        _ => panel.ratio(point, metric, (subject, 0)),
    };
    format!(
        "<td class=\"n\">{} <span class=\"d\">({least}..{most})</span>{}</td>",
        significant(summary.median),
        ratio.map(beside_the_first).unwrap_or_default()
    )
}

fn beside_the_first(ratio: Ratio) -> String {
    let (class, words) = match ratio.verdict {
        Verdict::Difference => ("r", ""),
        other => ("r d", other.name()),
    };
    format!(
        "<span class=\"{class}\">\u{00d7} {} {words}</span>",
        ratio_text(ratio)
    )
}

/// "1.12 [1.08..1.17]"
pub(super) fn ratio_text(ratio: Ratio) -> String {
    let Ratio {
        median, low, high, ..
    } = ratio;
    format!(
        "{} [{}..{}]",
        significant(median),
        significant(low),
        significant(high)
    )
}

/// How many there are, and what is to be said against them.
fn rounds(panel: &Panel, point: usize, subject: usize) -> String {
    let all = panel.rounds(point, subject).len();
    let failures = panel.failures(point, subject);
    let taken = all - failures.values().sum::<usize>();
    let mut text = if taken == all {
        format!("{all}")
    } else {
        format!("{taken} of {all}")
    };
    match panel.disturbed(point, subject) {
        0 => {}
        disturbed => text.push_str(&format!(", {disturbed} disturbed")),
    }
    let reasons = failures.iter().map(|(reason, count)| {
        format!(
            "<span class=\"why\">{count} \u{00d7} {}</span>",
            escape(reason)
        )
    });
    format!("<td>{text}{}</td>", reasons.collect::<String>())
}

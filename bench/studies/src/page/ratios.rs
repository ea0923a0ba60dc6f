//! One metric's ratios to the first subject, small enough to be read at a glance below its chart.

use super::html::escape;
use crate::measure::stats::{Ratio, Verdict};
use crate::results::{Panel, Subject, significant};

/// Nothing where there is no ratio at all.
pub(super) fn draw(panel: &Panel, metric: usize, subjects: &[Subject]) -> String {
    let Some((first, others)) = subjects.split_first() else {
        return String::new();
    };
    let rows = others.iter().zip(1..).filter_map(|(subject, index)| {
        let points = 0..panel.points.len();
        let ratios: Vec<Option<Ratio>> = points
            .map(|point| panel.ratio(point, metric, (index, 0)))
            .collect();
        let is_any = ratios.iter().any(Option::is_some);
        is_any.then(|| row(subject, &ratios))
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    let points = panel.points.iter();
    let head = points.map(|point| {
        format!(
            "<th scope=\"col\" class=\"n\">{}</th>",
            escape(&point.label)
        )
    });
    format!(
        "<details class=\"ratios\"><summary>Ratios to {}</summary><div class=\"scroll\"><table>\
         <thead><tr><th scope=\"col\" class=\"stay\">{}</th>{}</tr></thead><tbody>{rows}</tbody></table></div></details>",
        escape(&first.name),
        escape(&panel.axis),
        head.collect::<String>()
    )
}

fn row(subject: &Subject, ratios: &[Option<Ratio>]) -> String {
    let cell = |ratio: &Option<Ratio>| match ratio {
        None => "<td class=\"n d\">\u{2013}</td>".to_owned(),
        Some(ratio) => {
            let class = if ratio.verdict == Verdict::Difference {
                "n"
            } else {
                "n d"
            };
            let text = significant(ratio.median);
            format!(
                "<td class=\"{class}\" title=\"{}\">{text}</td>",
                ratio.verdict.name()
            )
        }
    };
    let class = if subject.is_ours {
        " class=\"ours\""
    } else {
        ""
    };
    let cells: String = ratios.iter().map(cell).collect();
    format!(
        "<tr{class}><th scope=\"row\" class=\"stay\">{}</th>{cells}</tr>",
        escape(&subject.name)
    )
}

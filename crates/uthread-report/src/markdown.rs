//! A study as Markdown: its notes, and a table for each panel.

use crate::measure::stats::{Ratio, Verdict};
use crate::results::{Metric, Panel, Study, significant};

/// Formats a study with the medians of its rounds; a drawn metric also has the ratio to the first
/// subject.
#[must_use]
pub fn show(study: &Study) -> String {
    let mut text = format!("\n# {}\n\n", study.title);
    text.extend(study.notes.iter().map(|note| format!("- {note}\n")));
    for subject in &study.subjects {
        if let Some(reason) = &subject.missing {
            text += &format!("- {} is missing: {reason}\n", subject.name);
        }
    }
    for panel in &study.panels {
        text += &show_panel(study, panel);
    }
    text
}

fn show_panel(study: &Study, panel: &Panel) -> String {
    let mut head = vec![panel.axis.clone(), String::new()];
    for Metric { name, unit, .. } in &panel.metrics {
        let comma = if unit.is_empty() { "" } else { ", " };
        head.push(format!("{name}{comma}{unit}"));
    }
    let mut rows = vec![head];
    let mut remarks = String::new();
    for (point, of_point) in panel.points.iter().enumerate() {
        for (subject, named) in study.subjects.iter().enumerate() {
            let name = &named.name;
            for (reason, count) in panel.failures(point, subject) {
                remarks += &format!("- {} {name}: {count} x {reason}\n", of_point.label);
            }
            let disturbed = panel.disturbed(point, subject);
            if disturbed > 0 {
                remarks += &format!("- {} {name}: {disturbed} x disturbed\n", of_point.label);
            }
            let mut cells = vec![of_point.label.clone(), name.clone()];
            for metric in 0..panel.metrics.len() {
                cells.push(show_cell(panel, point, subject, metric));
            }
            if cells[2..].iter().any(|cell| !cell.is_empty()) {
                rows.push(cells);
            }
        }
    }
    let title = match panel.title.as_str() {
        "" => String::new(),
        title => format!("\n## {title}\n"),
    };
    let space = if remarks.is_empty() { "" } else { "\n" };
    format!("{title}\n{}{space}{remarks}", align(&rows))
}

fn show_cell(panel: &Panel, point: usize, subject: usize, metric: usize) -> String {
    let Some(summary) = panel.summary(point, subject, metric) else {
        return String::new();
    };
    let median = significant(summary.median);
    if subject == 0 || !panel.metrics[metric].is_drawn {
        return median;
    }
    let ratio = panel.ratio(point, metric, (subject, 0));
    ratio.map_or(median.clone(), |ratio| {
        format!("{median} {}", show_ratio(ratio))
    })
}

fn show_ratio(ratio: Ratio) -> String {
    let Ratio {
        median, low, high, ..
    } = ratio;
    let sign = match ratio.verdict {
        Verdict::Difference => "x",
        Verdict::NoDifference => "=",
        Verdict::TooFewRounds => "?",
    };
    format!("{sign}{median:.2} [{low:.2}..{high:.2}]")
}

/// Lays the rows out as a Markdown table, each column as wide as its widest cell.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    let rule = vec!["---".to_owned(); columns];
    let (head, body) = rows.split_at(rows.len().min(1));
    for row in head.iter().chain([&rule]).chain(body) {
        let cells = row.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        text += &format!("| {} |\n", padded.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::taken;
    use crate::results::{Better, Point, Round, Subject};

    #[test]
    fn a_table_has_medians_ratios_and_what_is_missing() {
        let metrics = vec![
            Metric::new("rate", "1/s", Better::More).drawn(),
            Metric::new("memory", "", Better::Less),
        ];
        let mut panel = Panel::new("plain", "connections", vec![Point::number(10.0)], metrics);
        let rounds = |rate: f64| vec![taken(&[rate, 7.0]); 6];
        let cannot = vec![Round::Cannot("no threads".to_owned())];
        panel.rounds = vec![vec![rounds(1000.0), rounds(500.0), cannot, Vec::new()]];
        let subjects = vec![
            Subject::ours("uthread"),
            Subject::peer("tokio", None, None),
            Subject::peer("may", None, None),
            Subject::peer("go", None, Some("install golang".to_owned())),
        ];
        let notes = vec!["A note.".to_owned()];
        let study = Study::new(["echo", "Echo", ""], notes, subjects, vec![panel]);
        let expected = "
# Echo

- A note.
- go is missing: install golang

## plain

| connections |         | rate, 1/s              | memory |
| ---         | ---     | ---                    | ---    |
| 10          | uthread | 1,000                  | 7.00   |
| 10          | tokio   | 500 x0.50 [0.50..0.50] | 7.00   |

- 10 uthread: 6 x disturbed
- 10 tokio: 6 x disturbed
- 10 may: 1 x no threads
";
        assert_eq!(show(&study), expected);
    }
}

//! A few figures for the repository's README, as the lines of a Markdown table.
//!
//! They are written into the folder of a report. `summary.json` lists them.

use serde::Deserialize;
use uthread_report::facts::COMMAND;
use uthread_report::measure::stats::Verdict;
use uthread_report::results::{Facts, Panel, Results, Study, significant};

use crate::targets;

/// A subject that bounds the others and is no peer.
const FLOOR: &str = "floor";

#[derive(Deserialize)]
struct Headline {
    what: String,
    study: String,
    /// Prefix of the title of its panel.
    #[serde(default)]
    panel: String,
    point: String,
    metric: String,
}

fn headlines() -> Vec<Headline> {
    serde_json::from_str(include_str!("summary.json")).expect("a test parses it")
}

/// Returns the lines of the table. A headline without a figure of ours, or of a peer in the same
/// rounds, has none.
pub(crate) fn markdown(results: &Results) -> Vec<String> {
    let mut shown: Vec<&Study> = Vec::new();
    let mut rows = Vec::new();
    for headline in headlines() {
        if let Some((study, row)) = headline.row(results) {
            rows.push(row);
            if shown.iter().all(|other| other.name != study.name) {
                shown.push(study);
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let head = [
        "| | uthread | best peer | uthread / peer |",
        "| --- | --- | --- | --- |",
    ];
    let facts = when_and_where(&shown);
    let facts = format!("Medians, with the ratio's 95 % interval. {facts}");
    let mut lines = head.map(str::to_owned).to_vec();
    lines.extend(rows);
    lines.extend([String::new(), facts]);
    lines
}

/// Describes date, build and machine, once if they are the same for all studies. The command says
/// where the report was written, and which of its studies were.
fn when_and_where(studies: &[&Study]) -> String {
    let mut groups: Vec<(Facts, Vec<&str>)> = Vec::new();
    for study in studies {
        let name = study.name.as_str();
        let mut facts = study.facts.clone();
        facts.retain(|(name, _)| name != COMMAND);
        match groups.iter_mut().find(|(known, _)| *known == facts) {
            Some((_, names)) => names.push(name),
            None => groups.push((facts, vec![name])),
        }
    }
    let is_one = groups.len() == 1;
    let sentence = |(facts, names): (Facts, Vec<&str>)| {
        let facts = facts.iter().map(|(name, value)| format!("{name} {value}"));
        let facts = facts.collect::<Vec<_>>().join(", ");
        if is_one {
            format!("Conditions: {facts}.")
        } else {
            format!("Conditions for {}: {facts}.", names.join(", "))
        }
    };
    let sentences: Vec<String> = groups.into_iter().map(sentence).collect();
    sentences.join(" ")
}

impl Headline {
    /// Returns the row with its study.
    fn row<'a>(&self, results: &'a Results) -> Option<(&'a Study, String)> {
        let study = results.study(&self.study)?;
        let mut panels = study
            .panels
            .iter()
            .filter(|panel| panel.title.starts_with(&self.panel));
        let row = panels.find_map(|panel| self.row_of(study, panel))?;
        Some((study, row))
    }

    fn row_of(&self, study: &Study, panel: &Panel) -> Option<String> {
        let point = panel
            .points
            .iter()
            .position(|point| point.label == self.point)?;
        let metric = panel.metric(&self.metric)?;
        let peers = (0..study.subjects.len()).filter(|&index| {
            let subject = &study.subjects[index];
            !subject.is_ours && subject.name != FLOOR
        });
        let peer = targets::best(panel, point, metric, peers)?;
        let ours = study.subject(targets::OURS)?;
        let ratio = panel.ratio(point, metric, (ours, peer))?;
        let unit = &panel.metrics[metric].unit;
        let median = |subject| Some(significant(panel.summary(point, subject, metric)?.median));
        let doubt = match ratio.verdict {
            Verdict::Difference => String::new(),
            other => format!(", {}", other.name()),
        };
        Some(format!(
            "| {}, {unit} | {} | {}: {} | {} [{}..{}]{doubt} |",
            self.what,
            median(ours)?,
            study.subjects[peer].name,
            median(peer)?,
            significant(ratio.median),
            significant(ratio.low),
            significant(ratio.high)
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::sample::{COMMITTED, committed};

    #[test]
    fn the_lines_of_a_report_are_found_again() {
        // The committed report has the lines that the program wrote when it was measured.
        let committed_lines = fs::read_to_string(Path::new(COMMITTED).join("summary.md")).unwrap();
        let lines = markdown(&committed());
        assert_eq!(lines.len(), headlines().len() + 4);
        assert_eq!(lines.join("\n") + "\n", committed_lines);
    }

    #[test]
    fn a_headline_without_figures_has_no_line_and_each_day_its_facts() {
        assert!(markdown(&Results::default()).is_empty());
        let mut results = committed();
        results
            .studies
            .retain(|study| ["echo", "http"].contains(&study.name.as_str()));
        let [echo, http] = &mut results.studies[..] else {
            panic!("both were measured");
        };
        let day = |day: &str| {
            let facts = [("date", day), (COMMAND, "uthread-bench report")];
            facts
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec()
        };
        (echo.facts, http.facts) = (day("2026-11-22"), day("2026-11-23"));
        let lines = markdown(&results);
        assert_eq!(lines.len(), 2 + 2 + 2, "{lines:?}");
        let facts = "Medians, with the ratio's 95 % interval. Conditions for echo: date 2026-11-22. Conditions for http: date 2026-11-23.";
        assert_eq!(lines.last().unwrap(), facts);
    }
}

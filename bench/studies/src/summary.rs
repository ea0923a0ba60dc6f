//! The few figures for the repository's README, as the lines of a Markdown table.
//!
//! They are written into the JSON of a report, and `cargo xtask figures` compares them with what the README says.

use crate::measure::stats::Verdict;
use crate::results::{Facts, Panel, Results, Study, significant};
use crate::targets;

/// It bounds the others, and is no peer.
const FLOOR: &str = "floor";

struct Headline {
    what: &'static str,
    study: &'static str,
    /// How the title of its panel begins.
    panel: &'static str,
    point: &'static str,
    metric: &'static str,
}

const HEADLINES: &[Headline] = &[
    headline(
        "echo of 16 bytes, 1 connection: CPU",
        "echo",
        "",
        "1",
        "CPU",
    ),
    headline(
        "echo of 16 bytes, 1,000 connections: CPU",
        "echo",
        "",
        "1,000",
        "CPU",
    ),
    headline(
        "echo of 16 bytes, 15,000 connections: CPU",
        "echo",
        "",
        "15,000",
        "CPU",
    ),
    headline(
        "echo of 16 bytes, 1,000 connections: most to least served",
        "echo",
        "",
        "1,000",
        "fairness",
    ),
    headline(
        "the same after 20 us of computing: answers",
        "compute",
        "20 us",
        "1,000",
        "rate",
    ),
    headline(
        "file of 1 KiB over HTTP, 64 connections: CPU",
        "http",
        "files by size",
        "1 KiB",
        "CPU",
    ),
    headline(
        "file of 1 MiB over HTTP, 64 connections: CPU",
        "http",
        "files by size",
        "1 MiB",
        "CPU",
    ),
    headline(
        "random reads of 4 KiB from disk, 16 at a time",
        "disk",
        "random",
        "16",
        "rate",
    ),
    headline(
        "echo at a fifth of capacity: p50",
        "latency",
        "",
        "20 %",
        "p50",
    ),
    headline(
        "echo at a fifth of capacity: p99.9",
        "latency",
        "",
        "20 %",
        "p99.9",
    ),
];

const fn headline(
    what: &'static str,
    study: &'static str,
    panel: &'static str,
    point: &'static str,
    metric: &'static str,
) -> Headline {
    Headline {
        what,
        study,
        panel,
        point,
        metric,
    }
}

/// What has no figure of ours, or of a peer in the same rounds, has no line.
pub(crate) fn markdown(results: &Results) -> Vec<String> {
    let mut shown: Vec<&Study> = Vec::new();
    let mut rows = Vec::new();
    for headline in HEADLINES {
        let Some((study, row)) = headline.row(results) else {
            continue;
        };
        rows.push(row);
        if shown.iter().all(|other| other.name != study.name) {
            shown.push(study);
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let head = [
        "| | uthread | best peer | uthread / peer |",
        "| --- | --- | --- | --- |",
    ]
    .map(str::to_owned);
    let when = format!(
        "Medians, with the ratio's 95 % interval. {}",
        when_and_where(&shown)
    );
    head.into_iter()
        .chain(rows)
        .chain([String::new(), when])
        .collect()
}

/// The facts, once where they are the same for all, else with the studies that they are of.
fn when_and_where(studies: &[&Study]) -> String {
    let mut groups: Vec<(&Facts, Vec<&str>)> = Vec::new();
    for study in studies {
        let name = study.name.as_str();
        match groups.iter_mut().find(|(facts, _)| **facts == study.facts) {
            Some((_, names)) => names.push(name),
            None => groups.push((&study.facts, vec![name])),
        }
    }
    let is_one = groups.len() == 1;
    let sentence = |(facts, names): (&Facts, Vec<&str>)| {
        let facts = facts.iter().map(|(name, value)| format!("{name} {value}"));
        let facts = facts.collect::<Vec<_>>().join(", ");
        match is_one {
            true => format!("They are of {facts}."),
            false => format!("Those of {} are of {facts}.", names.join(", ")),
        }
    };
    let sentences: Vec<String> = groups.into_iter().map(sentence).collect();
    sentences.join(" ")
}

impl Headline {
    /// With the study that it is from.
    fn row<'a>(&self, results: &'a Results) -> Option<(&'a Study, String)> {
        let study = results.study(self.study)?;
        let mut panels = study
            .panels
            .iter()
            .filter(|panel| panel.title.starts_with(self.panel));
        let row = panels.find_map(|panel| self.row_of(study, panel))?;
        Some((study, row))
    }

    fn row_of(&self, study: &Study, panel: &Panel) -> Option<String> {
        let point = panel
            .points
            .iter()
            .position(|point| point.label == self.point)?;
        let metric = panel.metric(self.metric)?;
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
    use super::*;
    use crate::results::tests::taken;
    use crate::results::{Better, Metric, Point, Round, Subject};

    fn facts(day: &str) -> Facts {
        [("date", day), ("kernel", "6.18")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }

    /// Server CPU at 1,000 connections: ours, the floor and two peers.
    fn results(peer: &[Round]) -> Results {
        let metrics = vec![Metric::new("CPU", "us per operation", Better::Less)];
        let mut panel = Panel::new("a panel", "connections", vec![Point::number(1e3)], metrics);
        let around = |median: f64| -> Vec<Round> {
            (0..7)
                .map(|index| taken(&[median + f64::from(index) / 1e3]))
                .collect()
        };
        panel.rounds = vec![vec![around(8.0), around(7.0), around(12.0), peer.to_vec()]];
        let peer = |name| Subject::peer(name, None, None);
        let study = Study {
            name: "echo".to_owned(),
            title: String::new(),
            question: String::new(),
            facts: facts("2026-11-22"),
            notes: Vec::new(),
            subjects: vec![
                Subject::ours("uthread"),
                peer(FLOOR),
                peer("go"),
                peer("tokio"),
            ],
            panels: vec![panel],
        };
        Results {
            studies: vec![study],
            ..Results::default()
        }
    }

    #[test]
    fn ours_stands_beside_the_best_peer() {
        let check = |peer: &[Round], row: &str| {
            let lines = markdown(&results(peer));
            let expected = [
                "| | uthread | best peer | uthread / peer |",
                "| --- | --- | --- | --- |",
                row,
                "",
                "Medians, with the ratio's 95 % interval. They are of date 2026-11-22, kernel 6.18.",
            ];
            assert_eq!(lines, expected);
        };
        let what = "| echo of 16 bytes, 1,000 connections: CPU, us per operation | 8.00 |";
        let ten: Vec<Round> = vec![taken(&[10.0]); 7];
        check(&ten, &format!("{what} tokio: 10.0 | 0.80 [0.80..0.80] |"));
        check(
            &ten[..2],
            &format!("{what} tokio: 10.0 | 0.80 [0.80..0.80], too few rounds to tell |"),
        );
        check(&[], &format!("{what} go: 12.0 | 0.67 [0.67..0.67] |"));
    }

    #[test]
    fn studies_of_different_days_have_their_own() {
        let mut merged = results(&[]);
        let [mut http, mut compute] = [merged.studies[0].clone(), merged.studies[0].clone()];
        http.name = "http".to_owned();
        http.facts = facts("2026-11-23");
        http.panels[0].title = "files by size".to_owned();
        http.panels[0].points[0].label = "1 KiB".to_owned();
        // Without a row in the table its facts are not told.
        compute.name = "compute".to_owned();
        compute.facts = facts("2026-11-24");
        merged.studies.extend([http, compute]);
        let lines = markdown(&merged);
        assert_eq!(lines.len(), 2 + 2 + 2);
        let expected = "Medians, with the ratio's 95 % interval. Those of echo are of date 2026-11-22, kernel 6.18. Those of http are of date 2026-11-23, kernel 6.18.";
        assert_eq!(lines[5], expected);
    }

    #[test]
    fn without_figures_there_is_no_table() {
        assert!(markdown(&Results::default()).is_empty());
        let mut results = results(&[]);
        results.studies[0].panels[0].rounds.clear();
        assert!(markdown(&results).is_empty());
    }
}

//! The results of the studies as data: enough to draw the page again, to judge the targets and to check a claim.
//!
//! A study compares several subjects. Each of its panels varies one thing from point to point. In each round, every subject
//! is measured once at each point, so that figures of the same round and point make a pair.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::quiet::Usage;
use crate::measure::stats::{self, Ratio, Summary};

pub(crate) type Facts = Vec<(String, String)>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Lines of the table in the repository's README; `cargo xtask figures` compares both.
    #[serde(default)]
    pub(crate) summary: Vec<String>,
    pub(crate) studies: Vec<Study>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Study {
    /// The command that runs it alone.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) question: String,
    /// Date, build and machine, as names and values in the order to be shown. Empty until something was measured.
    pub(crate) facts: Facts,
    /// Details of the measurement, beyond those of all studies.
    pub(crate) notes: Vec<String>,
    /// The others are compared with the first.
    pub(crate) subjects: Vec<Subject>,
    pub(crate) panels: Vec<Panel>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    pub(crate) version: Option<String>,
    /// Why it was not measured, and what to install.
    pub(crate) missing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The quantity that varies from point to point: "connections".
    pub(crate) axis: String,
    pub(crate) points: Vec<Point>,
    pub(crate) metrics: Vec<Metric>,
    /// Bounds that no subject can pass.
    pub(crate) limits: Vec<Limit>,
    /// `[point][subject][round]`
    pub(crate) rounds: Vec<Vec<Vec<Round>>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) label: String,
    /// The position on the axis; points without one are names.
    pub(crate) value: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// `true` if the page has a chart of it. The tables have all metrics.
    pub(crate) is_drawn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Better {
    Less,
    More,
    /// The metric explains others and has no better direction.
    Neither,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) name: String,
    /// Index into the panel's metrics.
    pub(crate) metric: usize,
    /// One for each point.
    pub(crate) figures: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Round {
    Taken {
        /// One for each metric; `None` where a metric does not apply or was not measured in this round.
        figures: Vec<Option<f64>>,
        usage: Usage,
    },
    /// The measurement failed, for this reason.
    Cannot(String),
}

impl Results {
    pub(crate) fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|study| study.name == name)
    }

    /// Returns the facts that all measured studies share, if they are the same.
    pub(crate) fn common_facts(&self) -> Option<&Facts> {
        let facts = self.studies.iter().map(|study| &study.facts);
        let mut facts = facts.filter(|facts| !facts.is_empty());
        let first = facts.next()?;
        facts.all(|others| others == first).then_some(first)
    }
}

impl Study {
    /// Describes a study before anything was measured.
    pub(crate) fn new(
        [name, title, question]: [&str; 3],
        notes: Vec<String>,
        subjects: Vec<Subject>,
        panels: Vec<Panel>,
    ) -> Study {
        Study {
            name: name.to_owned(),
            title: title.to_owned(),
            question: question.to_owned(),
            facts: Vec::new(),
            notes,
            subjects,
            panels,
        }
    }

    pub(crate) fn subject(&self, name: &str) -> Option<usize> {
        let mut subjects = self.subjects.iter();
        subjects.position(|subject| subject.name == name)
    }

    /// Counts the rounds of all points and subjects.
    pub(crate) fn measurements(&self) -> usize {
        let points = self.panels.iter().flat_map(|panel| &panel.rounds);
        points.flatten().map(Vec::len).sum()
    }
}

impl Subject {
    pub(crate) fn ours(name: &str) -> Subject {
        Subject {
            is_ours: true,
            ..Subject::peer(name, None, None)
        }
    }

    pub(crate) fn peer(name: &str, version: Option<String>, missing: Option<String>) -> Subject {
        Subject {
            name: name.to_owned(),
            version,
            missing,
            ..Subject::default()
        }
    }
}

impl Point {
    pub(crate) fn number(value: f64) -> Point {
        Point {
            label: grouped(value),
            value: Some(value),
        }
    }

    /// Returns a point for each of these numbers.
    pub(crate) fn numbers(values: &[u32]) -> Vec<Point> {
        let values = values.iter().map(|&value| f64::from(value));
        values.map(Point::number).collect()
    }

    pub(crate) fn name(label: &str) -> Point {
        Point {
            label: label.to_owned(),
            value: None,
        }
    }
}

impl Metric {
    pub(crate) fn new(name: &str, unit: &str, better: Better) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            is_drawn: false,
        }
    }

    pub(crate) fn drawn(self) -> Metric {
        Metric {
            is_drawn: true,
            ..self
        }
    }
}

impl Panel {
    /// Describes a panel before anything was measured.
    pub(crate) fn new(title: &str, axis: &str, points: Vec<Point>, metrics: Vec<Metric>) -> Panel {
        Panel {
            title: title.to_owned(),
            axis: axis.to_owned(),
            points,
            metrics,
            limits: Vec::new(),
            rounds: Vec::new(),
        }
    }

    pub(crate) fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    /// Describes a point in words: "1 connection", "10,000 connections", "queue depth 32", "20 % of capacity", "16 at a time".
    pub(crate) fn place(&self, point: usize) -> String {
        let (axis, label) = (&self.axis, &self.points[point].label);
        match (axis.strip_suffix('s'), &**label) {
            _ if axis.is_empty() => label.clone(),
            (Some(one), "1") => format!("{label} {one}"),
            (None, _) if !axis.starts_with("of ") && axis != "at a time" => {
                format!("{axis} {label}")
            }
            _ => format!("{label} {axis}"),
        }
    }

    pub(crate) fn rounds(&self, point: usize, subject: usize) -> &[Round] {
        let of_point = self.rounds.get(point);
        of_point
            .and_then(|subjects| subjects.get(subject))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns whether the subject has rounds at any point.
    pub(crate) fn takes_part(&self, subject: usize) -> bool {
        (0..self.points.len()).any(|point| !self.rounds(point, subject).is_empty())
    }

    /// Summarises the rounds that have this figure.
    pub(crate) fn summary(&self, point: usize, subject: usize, metric: usize) -> Option<Summary> {
        let rounds = self.rounds(point, subject).iter();
        let known: Vec<f64> = rounds.filter_map(|round| round.figure(metric)).collect();
        stats::summarise(&known)
    }

    /// Computes the ratio of two subjects over the rounds in which both have this figure.
    pub(crate) fn ratio(
        &self,
        point: usize,
        metric: usize,
        (above, below): (usize, usize),
    ) -> Option<Ratio> {
        let above = self.rounds(point, above).iter();
        let pairs = above
            .zip(self.rounds(point, below))
            .filter_map(|(above, below)| Some((above.figure(metric)?, below.figure(metric)?)));
        stats::paired_ratio(&pairs.collect::<Vec<_>>())
    }

    pub(crate) fn disturbed(&self, point: usize, subject: usize) -> usize {
        let rounds = self.rounds(point, subject).iter();
        rounds.filter(|round| round.is_disturbed()).count()
    }

    /// Returns the reasons of failed rounds and how many rounds each one has.
    pub(crate) fn failures(&self, point: usize, subject: usize) -> BTreeMap<&str, usize> {
        let mut failures = BTreeMap::new();
        for round in self.rounds(point, subject) {
            if let Round::Cannot(reason) = round {
                *failures.entry(reason.as_str()).or_default() += 1;
            }
        }
        failures
    }
}

impl Round {
    pub(crate) fn figure(&self, metric: usize) -> Option<f64> {
        match self {
            Round::Taken { figures, .. } => figures.get(metric).copied().flatten(),
            Round::Cannot(_) => None,
        }
    }

    pub(crate) fn is_disturbed(&self) -> bool {
        matches!(self, Round::Taken { usage, .. } if usage.is_disturbed())
    }
}

/// Formats a figure with three significant digits, or with all digits before the point, in groups.
pub(crate) fn significant(figure: f64) -> String {
    match figure.abs() {
        small if small < 10.0 => format!("{figure:.2}"),
        middle if middle < 100.0 => format!("{figure:.1}"),
        _ => grouped(figure),
    }
}

/// Formats a whole number with commas between its thousands.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    match number < 0.0 {
        true => format!("-{text}"),
        false => text,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the report in the repository.
    pub(crate) fn committed() -> Results {
        let json = include_str!("../../../docs/results/report.json");
        serde_json::from_str(json).unwrap()
    }

    pub(crate) fn taken(figures: &[f64]) -> Round {
        Round::Taken {
            figures: figures.iter().map(|&figure| Some(figure)).collect(),
            usage: Usage::default(),
        }
    }

    #[test]
    fn failed_rounds_are_left_out_and_counted_by_reason() {
        let metrics = vec![Metric::new("rate", "1/s", Better::More)];
        let mut panel = Panel::new("", "connections", vec![Point::number(1e4)], metrics);
        let cannot = || Round::Cannot("no threads".to_owned());
        let ours = [10.0, 20.0, 30.0].map(|rate| taken(&[rate])).to_vec();
        panel.rounds = vec![vec![ours, vec![cannot(), taken(&[10.0]), cannot()]]];
        assert_eq!(panel.summary(0, 0, 0).unwrap().median, 20.0);
        assert_eq!(panel.summary(0, 1, 0).unwrap().median, 10.0);
        assert_eq!(panel.ratio(0, 0, (1, 0)).unwrap().median, 0.5);
        assert_eq!(panel.failures(0, 1), BTreeMap::from([("no threads", 2)]));
        assert_eq!(
            (panel.summary(0, 2, 0), panel.summary(1, 0, 0)),
            (None, None)
        );
    }

    #[test]
    fn a_point_has_a_name_in_words() {
        let check = |axis: &str, point: Point, expected: &str| {
            let panel = Panel::new("", axis, vec![point], Vec::new());
            assert_eq!(panel.place(0), expected);
        };
        check("connections", Point::number(1.0), "1 connection");
        check("connections", Point::number(1e4), "10,000 connections");
        check("queue depth", Point::number(32.0), "queue depth 32");
        check("of capacity", Point::name("20 %"), "20 % of capacity");
        check("at a time", Point::number(16.0), "16 at a time");
        check("", Point::name("as it is"), "as it is");
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let check = |figure, expected: &str| assert_eq!(significant(figure), expected);
        check(0.0, "0.00");
        check(1.234, "1.23");
        check(12.34, "12.3");
        check(123.4, "123");
        check(1234.5, "1,234");
        check(1_234_567.0, "1,234,567");
        check(-1234.0, "-1,234");
    }
}

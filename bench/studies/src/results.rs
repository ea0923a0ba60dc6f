//! What the studies found, as data: enough to draw the page again, to judge the targets and to check a claim.
//!
//! A study asks one question of several subjects. Its panels vary one thing each, from point to point; in each round of
//! each point every subject is measured once, so that figures of one round and point make a pair.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::quiet::Usage;
use crate::measure::stats::{self, Ratio, Summary};

pub(crate) type Facts = Vec<(String, String)>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The lines of the table in the repository's README, which a check compares with it.
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
    /// When it was measured, of what build and on what machine: name and value, in the order to be shown. Empty until it is.
    pub(crate) facts: Facts,
    /// How it was measured, beyond what holds for all.
    pub(crate) notes: Vec<String>,
    /// Ours that the others stand beside is the first.
    pub(crate) subjects: Vec<Subject>,
    pub(crate) panels: Vec<Panel>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    pub(crate) version: Option<String>,
    /// Why it was not measured, and what to install to have it.
    pub(crate) missing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// What differs from point to point: "connections".
    pub(crate) axis: String,
    pub(crate) points: Vec<Point>,
    pub(crate) metrics: Vec<Metric>,
    /// What no subject can surpass.
    pub(crate) limits: Vec<Limit>,
    /// `[point][subject][round]`
    pub(crate) rounds: Vec<Vec<Vec<Round>>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) label: String,
    /// Its place on the axis; without, the points are names.
    pub(crate) value: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// Whether the page has a chart of it; all are in its tables.
    pub(crate) is_drawn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Better {
    Less,
    More,
    /// It explains others, and is no merit.
    Neither,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) name: String,
    /// Its place in the panel's metrics.
    pub(crate) metric: usize,
    /// One for each point.
    pub(crate) figures: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Round {
    Taken {
        /// One for each metric; `None` where it does not apply or was not taken in this round.
        figures: Vec<Option<f64>>,
        usage: Usage,
    },
    /// It was asked, and could not: why.
    Cannot(String),
}

impl Results {
    pub(crate) fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|study| study.name == name)
    }

    /// Those of all studies that were measured, if they are the same.
    pub(crate) fn common_facts(&self) -> Option<&Facts> {
        let facts = self.studies.iter().map(|study| &study.facts);
        let mut facts = facts.filter(|facts| !facts.is_empty());
        let first = facts.next()?;
        facts.all(|others| others == first).then_some(first)
    }
}

impl Study {
    pub(crate) fn subject(&self, name: &str) -> Option<usize> {
        let mut subjects = self.subjects.iter();
        subjects.position(|subject| subject.name == name)
    }

    /// How many rounds of all cells there are.
    pub(crate) fn measurements(&self) -> usize {
        let points = self.panels.iter().flat_map(|panel| &panel.rounds);
        points.flatten().map(Vec::len).sum()
    }
}

impl Subject {
    pub(crate) fn ours(name: &str) -> Subject {
        Subject {
            name: name.to_owned(),
            is_ours: true,
            version: None,
            missing: None,
        }
    }

    pub(crate) fn peer(name: &str, version: Option<String>, missing: Option<String>) -> Subject {
        Subject {
            name: name.to_owned(),
            is_ours: false,
            version,
            missing,
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
    /// Before anything was measured.
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

    /// A point in words: "1 connection", "10,000 connections", "queue depth 32", "20 % of capacity",
    /// "16 at a time".
    pub(crate) fn place(&self, point: usize) -> String {
        let (axis, label) = (&self.axis, &self.points[point].label);
        match (axis.strip_suffix('s'), label.as_str()) {
            (_, _) if axis.is_empty() => label.clone(),
            (Some(one), "1") => format!("{label} {one}"),
            (Some(_), _) => format!("{label} {axis}"),
            (None, _) if axis.starts_with("of ") || axis == "at a time" => {
                format!("{label} {axis}")
            }
            (None, _) => format!("{axis} {label}"),
        }
    }

    pub(crate) fn rounds(&self, point: usize, subject: usize) -> &[Round] {
        let of_point = self.rounds.get(point);
        of_point
            .and_then(|subjects| subjects.get(subject))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether it was asked at any point.
    pub(crate) fn takes_part(&self, subject: usize) -> bool {
        (0..self.points.len()).any(|point| !self.rounds(point, subject).is_empty())
    }

    /// Of the rounds that have this figure.
    pub(crate) fn summary(&self, point: usize, subject: usize, metric: usize) -> Option<Summary> {
        let rounds = self.rounds(point, subject).iter();
        let known: Vec<f64> = rounds.filter_map(|round| round.figure(metric)).collect();
        stats::summarise(&known)
    }

    /// Of the rounds in which both have this figure.
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

    /// Why there are rounds without figures, and how many for each reason.
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

/// A figure with as many digits as it deserves: three, and all of those before the point, in groups.
pub(crate) fn significant(figure: f64) -> String {
    let decimals = match figure.abs() {
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    match decimals {
        0 => grouped(figure),
        _ => format!("{figure:.decimals$}"),
    }
}

/// A whole number, its thousands apart.
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

    pub(crate) fn taken(figures: &[f64]) -> Round {
        Round::Taken {
            figures: figures.iter().map(|&figure| Some(figure)).collect(),
            usage: Usage::default(),
        }
    }

    /// A panel of one point with one metric.
    fn panel(subjects: Vec<Vec<Round>>) -> Panel {
        let metrics = vec![Metric::new("rate", "1/s", Better::More)];
        let mut panel = Panel::new("", "connections", vec![Point::number(1e4)], metrics);
        panel.rounds = vec![subjects];
        panel
    }

    #[test]
    fn rounds_that_failed_are_left_out_and_named_once() {
        let cannot = || Round::Cannot("no threads".to_owned());
        let ours = [10.0, 20.0, 30.0].map(|rate| taken(&[rate])).to_vec();
        let panel = panel(vec![ours, vec![cannot(), taken(&[10.0]), cannot()]]);
        assert_eq!(panel.summary(0, 0, 0).unwrap().median, 20.0);
        assert_eq!(panel.summary(0, 1, 0).unwrap().median, 10.0);
        assert_eq!(panel.ratio(0, 0, (1, 0)).unwrap().median, 0.5);
        assert_eq!(panel.failures(0, 1), BTreeMap::from([("no threads", 2)]));
        assert!(panel.failures(0, 0).is_empty());
        assert_eq!(panel.summary(0, 2, 0), None);
        assert_eq!(panel.summary(1, 0, 0), None);
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
    fn what_is_written_is_read_again() {
        let results = Results {
            summary: vec!["| a |".to_owned()],
            studies: vec![Study {
                name: "echo".to_owned(),
                title: "Echo".to_owned(),
                question: "How?".to_owned(),
                facts: vec![("kernel".to_owned(), "6.18".to_owned())],
                notes: Vec::new(),
                subjects: vec![Subject::ours("uthread")],
                panels: vec![panel(vec![vec![
                    taken(&[0.1]),
                    Round::Cannot("x".to_owned()),
                ]])],
            }],
        };
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }

    #[test]
    fn figures_have_the_digits_they_deserve() {
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

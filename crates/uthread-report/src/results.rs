//! The results of the studies as data: enough to draw the page again, to judge the targets and to
//! check a claim.
//!
//! A study compares several subjects. Each of its panels varies one thing from point to point. In
//! each round, every subject is measured once at each point, so that figures of the same round and
//! point make a pair.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::stats::{self, Ratio, Summary};
use crate::plot::Plot;

/// Names and values, in the order to be shown.
pub type Facts = Vec<(String, String)>;

/// All studies of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// In the order of the page.
    pub studies: Vec<Study>,
}

/// A study: its plan, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The command that runs it alone.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// Date, build and machine, as names and values in the order to be shown. Empty until something
    /// was measured.
    pub facts: Facts,
    /// Details of the measurement, beyond those of all studies.
    pub notes: Vec<String>,
    /// The others are compared with the first.
    pub subjects: Vec<Subject>,
    /// Its parts, each of which varies one thing.
    pub panels: Vec<Panel>,
    /// Drawings that are no charts of a panel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<Plot>,
}

/// A program or technique that is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Its name in tables and drawings.
    pub name: String,
    /// `true` if it is uthread.
    pub is_ours: bool,
    /// Its version, if it is a program of others.
    pub version: Option<String>,
    /// Why it was not measured, and what to install.
    pub missing: Option<String>,
}

/// A part of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// The quantity that varies from point to point: "connections".
    pub axis: String,
    /// The values that it has.
    pub points: Vec<Point>,
    /// The figures of each measurement.
    pub metrics: Vec<Metric>,
    /// Bounds that no subject can pass.
    pub limits: Vec<Limit>,
    /// `[point][subject][round]`
    pub rounds: Vec<Vec<Vec<Round>>>,
}

/// A value of the quantity that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The value in words.
    pub label: String,
    /// The position on the axis; points without one are names.
    pub value: Option<f64>,
}

/// A kind of figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its unit; empty for a number.
    pub unit: String,
    /// Its better direction.
    pub better: Better,
    /// `true` if the page has a chart of it. The tables have all metrics.
    pub is_drawn: bool,
}

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// The metric explains others and has no better direction.
    Neither,
}

/// A bound that no subject can pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// Index into the panel's metrics.
    pub metric: usize,
    /// One for each point.
    pub figures: Vec<f64>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Round {
    /// It succeeded.
    Taken {
        /// One for each metric; `None` where a metric does not apply or was not measured in this
        /// round.
        figures: Vec<Option<f64>>,
        /// `true` if others used the CPUs meanwhile.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_disturbed: bool,
    },
    /// The measurement failed, for this reason.
    Cannot(String),
}

impl Results {
    /// Returns the study of that name.
    #[must_use]
    pub fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|study| study.name == name)
    }

    /// Returns the facts that all measured studies share, if they are the same.
    #[must_use]
    pub fn common_facts(&self) -> Option<&Facts> {
        let facts = self.studies.iter().map(|study| &study.facts);
        let mut facts = facts.filter(|facts| !facts.is_empty());
        let first = facts.next()?;
        facts.all(|others| others == first).then_some(first)
    }
}

impl Study {
    /// Describes a study before anything was measured.
    #[must_use]
    pub fn new(
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
            plots: Vec::new(),
        }
    }

    /// Returns the index of the subject of that name.
    #[must_use]
    pub fn subject(&self, name: &str) -> Option<usize> {
        let mut subjects = self.subjects.iter();
        subjects.position(|subject| subject.name == name)
    }

    /// Counts the rounds of all points and subjects.
    #[must_use]
    pub fn measurements(&self) -> usize {
        let points = self.panels.iter().flat_map(|panel| &panel.rounds);
        points.flatten().map(Vec::len).sum()
    }
}

impl Subject {
    /// Describes a subject of uthread.
    #[must_use]
    pub fn ours(name: &str) -> Subject {
        Subject {
            is_ours: true,
            ..Subject::peer(name, None, None)
        }
    }

    /// Describes another subject, or one that is missing.
    #[must_use]
    pub fn peer(name: &str, version: Option<String>, missing: Option<String>) -> Subject {
        Subject {
            name: name.to_owned(),
            version,
            missing,
            ..Subject::default()
        }
    }
}

impl Point {
    /// Returns a point with a position on the axis.
    #[must_use]
    pub fn number(value: f64) -> Point {
        Point {
            label: grouped(value),
            value: Some(value),
        }
    }

    /// Returns a point for each of these numbers.
    #[must_use]
    pub fn numbers(values: &[u32]) -> Vec<Point> {
        let values = values.iter().map(|&value| f64::from(value));
        values.map(Point::number).collect()
    }

    /// Returns a point without a position on the axis.
    #[must_use]
    pub fn name(label: &str) -> Point {
        Point {
            label: label.to_owned(),
            value: None,
        }
    }
}

impl Metric {
    /// Describes a metric that is in the tables only.
    #[must_use]
    pub fn new(name: &str, unit: &str, better: Better) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            is_drawn: false,
        }
    }

    /// Adds a chart of it to the page.
    #[must_use]
    pub fn drawn(self) -> Metric {
        Metric {
            is_drawn: true,
            ..self
        }
    }
}

impl Panel {
    /// Describes a panel before anything was measured.
    #[must_use]
    pub fn new(title: &str, axis: &str, points: Vec<Point>, metrics: Vec<Metric>) -> Panel {
        Panel {
            title: title.to_owned(),
            axis: axis.to_owned(),
            points,
            metrics,
            limits: Vec::new(),
            rounds: Vec::new(),
        }
    }

    /// Returns the index of the metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    /// Describes a point in words: "1 connection", "10,000 connections", "queue depth 32", "20 % of
    /// capacity", "16 at a time".
    #[must_use]
    pub fn place(&self, point: usize) -> String {
        let (axis, label) = (&self.axis, &self.points[point].label);
        match (axis.strip_suffix('s'), &**label) {
            _ if axis.is_empty() => label.clone(),
            (Some(one), "1") if one.ends_with("ie") => {
                format!("{label} {}y", &one[..one.len() - 2])
            }
            (Some(one), "1") => format!("{label} {one}"),
            (None, _) if !axis.starts_with("of ") && axis != "at a time" => {
                format!("{axis} {label}")
            }
            _ => format!("{label} {axis}"),
        }
    }

    /// Returns the measurements of a subject at a point.
    #[must_use]
    pub fn rounds(&self, point: usize, subject: usize) -> &[Round] {
        let of_point = self.rounds.get(point);
        of_point
            .and_then(|subjects| subjects.get(subject))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns whether the subject has rounds at any point.
    #[must_use]
    pub fn takes_part(&self, subject: usize) -> bool {
        (0..self.points.len()).any(|point| !self.rounds(point, subject).is_empty())
    }

    /// Summarises the rounds that have this figure.
    #[must_use]
    pub fn summary(&self, point: usize, subject: usize, metric: usize) -> Option<Summary> {
        let rounds = self.rounds(point, subject).iter();
        let known: Vec<f64> = rounds.filter_map(|round| round.figure(metric)).collect();
        stats::summarise(&known)
    }

    /// Computes the ratio of two subjects over the rounds in which both have this figure.
    #[must_use]
    pub fn ratio(
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

    /// Counts the disturbed measurements of a subject at a point.
    #[must_use]
    pub fn disturbed(&self, point: usize, subject: usize) -> usize {
        let rounds = self.rounds(point, subject).iter();
        rounds.filter(|round| round.is_disturbed()).count()
    }

    /// Returns the reasons of failed rounds and how many rounds each one has.
    #[must_use]
    pub fn failures(&self, point: usize, subject: usize) -> BTreeMap<&str, usize> {
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
    /// Returns the figure of a metric, if the measurement has one.
    #[must_use]
    pub fn figure(&self, metric: usize) -> Option<f64> {
        match self {
            Round::Taken { figures, .. } => figures.get(metric).copied().flatten(),
            Round::Cannot(_) => None,
        }
    }

    /// Returns `true` if the measurement succeeded, but was disturbed.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        matches!(
            self,
            Round::Taken {
                was_disturbed: true,
                ..
            }
        )
    }
}

/// Formats a figure with three significant digits, or with all digits before the point, in groups.
#[must_use]
pub fn significant(figure: f64) -> String {
    match figure.abs() {
        small if small < 10.0 => format!("{figure:.2}"),
        middle if middle < 100.0 => format!("{figure:.1}"),
        _ => grouped(figure),
    }
}

/// Formats a whole number with commas between its thousands.
#[must_use]
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Formats a number of things: "1 round", "25,600 requests".
#[must_use]
pub fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(number as f64))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// Returns the files of the report in the repository, one for each study.
    pub(crate) fn committed_files() -> Vec<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/report");
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        files
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }

    pub(crate) fn committed() -> Results {
        let parse = |text: String| serde_json::from_str::<Results>(&text).unwrap().studies;
        let studies = committed_files().into_iter().flat_map(parse).collect();
        Results { studies }
    }

    /// Returns a disturbed round.
    pub(crate) fn taken(figures: &[f64]) -> Round {
        Round::Taken {
            figures: figures.iter().map(|&figure| Some(figure)).collect(),
            was_disturbed: true,
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
        check("capabilities", Point::number(1.0), "1 capability");
        check("queue depth", Point::number(32.0), "queue depth 32");
        check("of capacity", Point::name("20 %"), "20 % of capacity");
        check("at a time", Point::number(16.0), "16 at a time");
        check("", Point::name("as it is"), "as it is");
    }

    #[test]
    fn counted_things_have_their_plural() {
        let counts = [1, 3100].map(|threads| counted(threads, "thread"));
        assert_eq!(counts, ["1 thread", "3,100 threads"]);
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

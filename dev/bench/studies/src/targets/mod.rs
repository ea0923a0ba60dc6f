//! The bounds that the figures have to keep, as data (`targets.json`), and whether they do.
//!
//! Each target compares ours with others in the same rounds of the same study, at each of its
//! points. One rule holds for all, on the 95 % interval of the ratio or of the figure: the target
//! is met if the interval does not reach further than [`MARGIN`] beyond the bound, missed if all of
//! the interval is beyond the bound, and else not measured well enough to tell.

mod judge;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::LazyLock;

use serde::Deserialize;
use uthread_report::measure::stats::Ratio;
use uthread_report::results::Results;

pub(crate) use judge::best;

/// Our subject in all targets that name no other.
pub(crate) const OURS: &str = "uthread";

static TARGETS: LazyLock<Vec<Target>> =
    LazyLock::new(|| serde_json::from_str(include_str!("targets.json")).expect("a test parses it"));

#[derive(Deserialize)]
pub(crate) struct Target {
    /// The line on the page.
    pub(crate) what: String,
    study: String,
    /// Prefix of the titles of its panels; empty for all of the study.
    #[serde(default)]
    panel: String,
    /// The labels of its points; empty for all of the panel.
    #[serde(default)]
    points: Vec<String>,
    metric: String,
    /// Our subject.
    #[serde(default = "ours")]
    subject: String,
    beside: Beside,
    goal: Goal,
}

/// The subjects of the comparison.
#[derive(Clone, Debug, Deserialize)]
enum Beside {
    /// The ratio of ours to this subject.
    Below(String),
    /// The ratio of this subject to ours.
    Above(String),
    /// The ratio of ours to each of these; the worst decides.
    Each(Vec<String>),
    /// The ratio of ours to the one of these with the best median at the point.
    Best(Vec<String>),
    /// Ours alone, in this unit.
    Nobody(String),
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// How far an interval may reach beyond the bound of a target that is met: what rounds on such
/// machines can tell apart.
const MARGIN: f64 = 1.05;

/// The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Met,
    /// The interval is too wide to tell.
    Unclear,
    NotMeasured,
    Missed,
}

pub(crate) struct Verdict {
    pub(crate) target: &'static Target,
    /// Missed if one point is missed, else not measured if one is not.
    pub(crate) outcome: Outcome,
    /// Empty where the study, the panel, its points or the metric are not in the results.
    pub(crate) points: Vec<Judged>,
}

/// A target at one point.
pub(crate) struct Judged {
    pub(crate) point: String,
    pub(crate) outcome: Outcome,
    /// "uthread / go"
    pub(crate) between: String,
    pub(crate) ratio: Option<Ratio>,
    /// Why there is no ratio, or what it leaves out.
    pub(crate) note: String,
}

fn ours() -> String {
    OURS.to_owned()
}

pub(crate) fn judge(results: &Results) -> Vec<Verdict> {
    TARGETS.iter().map(|target| target.judge(results)).collect()
}

impl Target {
    /// Returns the unit of a figure that is no ratio.
    pub(crate) fn unit(&self) -> &str {
        match &self.beside {
            Beside::Nobody(unit) => unit,
            _ => "",
        }
    }
}

impl Goal {
    fn outcome(self, ratio: Ratio) -> Outcome {
        let (is_beyond, is_near) = match self {
            Goal::AtMost(bound) => (ratio.low > bound, ratio.high <= bound * MARGIN),
            Goal::AtLeast(bound) => (ratio.high < bound, ratio.low >= bound / MARGIN),
        };
        match (is_beyond, is_near) {
            (true, _) => Outcome::Missed,
            (false, true) => Outcome::Met,
            (false, false) => Outcome::Unclear,
        }
    }

    /// Returns how far the median is on the wrong side of the bound: over 1 if it is.
    fn badness(self, ratio: Ratio) -> f64 {
        match self {
            Goal::AtMost(bound) => ratio.median / bound,
            Goal::AtLeast(bound) => bound / ratio.median,
        }
    }
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Unclear => "not measured well enough",
            Outcome::NotMeasured => "not measured",
            Outcome::Missed => "missed",
        }
    }
}

impl Verdict {
    /// Returns the point that is closest to being missed, or farthest beyond.
    pub(crate) fn worst(&self) -> Option<&Judged> {
        let goal = self.target.goal;
        self.points.iter().max_by(|a, b| a.order(b, goal))
    }
}

impl Judged {
    /// Orders the worse last.
    fn order(&self, other: &Judged, goal: Goal) -> Ordering {
        let badness = |judged: &Judged| judged.ratio.map_or(0.0, |ratio| goal.badness(ratio));
        let by_outcome = self.outcome.cmp(&other.outcome);
        by_outcome.then(badness(self).total_cmp(&badness(other)))
    }
}

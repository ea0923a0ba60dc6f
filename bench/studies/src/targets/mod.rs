//! What the figures have to be, as data, and whether they are.
//!
//! Each target sets ours beside others, in the same rounds of the same study, and is judged at each of its points. Two
//! rules: *no worse* is met unless the whole interval of the ratio lies on the wrong side of the bound; *at least*, *at
//! most* and *under* are met when the median reaches the bound.

mod judge;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::measure::stats::Ratio;
use crate::results::Results;

pub(crate) use judge::best;

/// Ours that all targets are about.
pub(crate) const OURS: &str = "uthread";
const RUNTIMES: &[&str] = &["tokio", "go", "monoio", "compio", "may"];

pub(crate) struct Target {
    /// In one line, as the page shows it.
    pub(crate) what: &'static str,
    pub(crate) study: &'static str,
    /// How the titles of its panels begin; empty for all of the study.
    pub(crate) panel: &'static str,
    /// The labels of its points; empty for all of the panel.
    pub(crate) points: &'static [&'static str],
    pub(crate) metric: &'static str,
    pub(crate) beside: Beside,
    pub(crate) goal: Goal,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside {
    /// The ratio of ours to this subject.
    Below(&'static str),
    /// The ratio of this subject to ours.
    Above(&'static str),
    /// The ratio of ours to each of these; the worst decides.
    Each(&'static [&'static str]),
    /// The ratio of ours to whichever of these has the best median at the point.
    Best(&'static [&'static str]),
    /// Ours alone, in this unit.
    Nobody(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Met unless the whole interval is above.
    NoMoreThan(f64),
    /// The others by the median.
    AtMost(f64),
    Under(f64),
    AtLeast(f64),
}

/// The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Met,
    NotMeasured,
    Missed,
}

pub(crate) struct Verdict {
    pub(crate) target: &'static Target,
    /// Of all its points: missed where one is missed, else not measured where one is not.
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

pub(crate) const TARGETS: &[Target] = &[
    Target {
        what: "Echo: server CPU per echo no worse than in any other runtime",
        study: "echo",
        panel: "",
        points: &[],
        metric: "CPU",
        beside: Beside::Each(RUNTIMES),
        goal: Goal::NoMoreThan(1.0),
    },
    Target {
        what: "Echo: server CPU per echo within 5 % of a bare epoll loop",
        study: "echo",
        panel: "",
        points: &[],
        metric: "CPU",
        beside: Beside::Below("floor"),
        goal: Goal::AtMost(1.05),
    },
    Target {
        what: "Echo: the most served connection under 2 times the least, where each got 30 answers on the average",
        study: "echo",
        panel: "",
        points: &[],
        metric: "fairness",
        beside: Beside::Nobody("times"),
        goal: Goal::Under(2.0),
    },
    Target {
        what: "Computing echo: at least 1.2 times the rate of the best other runtime",
        study: "compute",
        panel: "",
        points: &[],
        metric: "rate",
        beside: Beside::Best(RUNTIMES),
        goal: Goal::AtLeast(1.2),
    },
    Target {
        what: "Computing echo: p99.9 no worse than the best other runtime's",
        study: "compute",
        panel: "",
        points: &[],
        metric: "p99.9",
        beside: Beside::Best(RUNTIMES),
        goal: Goal::NoMoreThan(1.0),
    },
    Target {
        what: "HTTP, 1 KiB: at least 1.3 times nginx per CPU second",
        study: "http",
        panel: "files by size",
        points: &["1 KiB"],
        metric: "CPU",
        beside: Beside::Above("nginx"),
        goal: Goal::AtLeast(1.3),
    },
    Target {
        what: "HTTP, 1 KiB: at least 1.5 times static-web-server per CPU second",
        study: "http",
        panel: "files by size",
        points: &["1 KiB"],
        metric: "CPU",
        beside: Beside::Above("static-web-server"),
        goal: Goal::AtLeast(1.5),
    },
    Target {
        what: "HTTP, 16 KiB and 1 MiB: server CPU per request no worse than nginx",
        study: "http",
        panel: "files by size",
        points: &["16 KiB", "1 MiB"],
        metric: "CPU",
        beside: Beside::Below("nginx"),
        goal: Goal::NoMoreThan(1.0),
    },
    Target {
        what: "Disk: at least 0.95 of fio's io_uring at each depth",
        study: "disk",
        panel: "",
        points: &[],
        metric: "rate",
        beside: Beside::Below("fio io_uring"),
        goal: Goal::AtLeast(0.95),
    },
    Target {
        what: "Threads: spawn and join in at most 120 ns each",
        study: "threads",
        panel: "spawn",
        points: &[],
        metric: "time",
        beside: Beside::Nobody("ns"),
        goal: Goal::AtMost(120.0),
    },
    Target {
        what: "Threads: at most 5,000 bytes each, of a million that sleep",
        study: "threads",
        panel: "",
        points: &["1,000,000"],
        metric: "memory",
        beside: Beside::Nobody("B"),
        goal: Goal::AtMost(5_000.0),
    },
    Target {
        what: "Threads: a yield among 2 in at most 15 ns",
        study: "threads",
        panel: "yield",
        points: &["2"],
        metric: "time",
        beside: Beside::Nobody("ns"),
        goal: Goal::AtMost(15.0),
    },
    Target {
        what: "Threads: a yield among 10,000 in at most 45 ns",
        study: "threads",
        panel: "yield",
        points: &["10,000"],
        metric: "time",
        beside: Beside::Nobody("ns"),
        goal: Goal::AtMost(45.0),
    },
    latency(
        "Echo at 20 % of capacity: p50 no worse than the best other runtime's",
        "p50",
    ),
    latency(
        "Echo at 20 % of capacity: p99 no worse than the best other runtime's",
        "p99",
    ),
    latency(
        "Echo at 20 % of capacity: p99.9 no worse than the best other runtime's",
        "p99.9",
    ),
];

pub(crate) fn judge(results: &Results) -> Vec<Verdict> {
    TARGETS.iter().map(|target| target.judge(results)).collect()
}

const fn latency(what: &'static str, metric: &'static str) -> Target {
    Target {
        what,
        study: "latency",
        panel: "",
        points: &["20 %"],
        metric,
        beside: Beside::Best(RUNTIMES),
        goal: Goal::NoMoreThan(1.0),
    }
}

impl Target {
    /// What the ratio is in, where it is none.
    pub(crate) fn unit(&self) -> &'static str {
        match self.beside {
            Beside::Nobody(unit) => unit,
            _ => "",
        }
    }
}

impl Goal {
    pub(crate) fn bound(self) -> f64 {
        match self {
            Goal::NoMoreThan(bound)
            | Goal::AtMost(bound)
            | Goal::Under(bound)
            | Goal::AtLeast(bound) => bound,
        }
    }

    pub(crate) fn wants_less(self) -> bool {
        !matches!(self, Goal::AtLeast(_))
    }

    fn is_met_by(self, ratio: Ratio) -> bool {
        match self {
            Goal::NoMoreThan(bound) => ratio.low <= bound,
            Goal::AtMost(bound) => ratio.median <= bound,
            Goal::Under(bound) => ratio.median < bound,
            Goal::AtLeast(bound) => ratio.median >= bound,
        }
    }

    /// Over 1 where the median is on the wrong side of the bound: the more, the farther.
    fn badness(self, ratio: Ratio) -> f64 {
        match self.wants_less() {
            true => ratio.median / self.bound(),
            false => self.bound() / ratio.median,
        }
    }
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::NotMeasured => "not measured",
            Outcome::Missed => "missed",
        }
    }
}

impl Verdict {
    /// Where it is closest to being missed, or farthest beyond.
    pub(crate) fn worst(&self) -> Option<&Judged> {
        let goal = self.target.goal;
        self.points.iter().max_by(|a, b| a.order(b, goal))
    }
}

impl Judged {
    /// The worse is the greater.
    fn order(&self, other: &Judged, goal: Goal) -> Ordering {
        let badness = |judged: &Judged| judged.ratio.map_or(0.0, |ratio| goal.badness(ratio));
        let by_outcome = self.outcome.cmp(&other.outcome);
        by_outcome.then(badness(self).total_cmp(&badness(other)))
    }
}

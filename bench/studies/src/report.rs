//! What a study found, as a table for people and as JSON for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::measure::rounds::Taken;
use crate::measure::stats::{self, Ratio, Summary, Verdict};
use crate::say::{self, say};

/// A name is at most "ping-pong, 2 workers, ns"; a cell "1234567 (1234567..1234567)".
const NAME_WIDTH: usize = 30;
const CELL_WIDTH: usize = 32;

pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
}

impl Metric {
    pub(crate) const fn new(name: &'static str, decimals: usize) -> Metric {
        Metric { name, decimals }
    }
}

pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) metrics: &'static [Metric],
    pub(crate) subjects: Vec<String>,
    /// `[subject][round]`
    pub(crate) taken: Vec<Vec<Taken>>,
    /// Which subjects are set beside which: `(above, below)`, as in a fraction.
    pub(crate) comparisons: Vec<(usize, usize)>,
}

impl Table {
    pub(crate) fn ratio(&self, metric: usize, (above, below): (usize, usize)) -> Option<Ratio> {
        let figures = |subject: usize| {
            self.taken[subject]
                .iter()
                .map(move |taken| taken.figures[metric])
        };
        stats::paired_ratio(&figures(above).zip(figures(below)).collect::<Vec<_>>())
    }

    pub(crate) fn print(&self) {
        say!("\n{}", self.title);
        say::out(format_args!("{:NAME_WIDTH$}", ""));
        self.subjects
            .iter()
            .for_each(|subject| say::out(format_args!("{subject:>CELL_WIDTH$}")));
        say!("");
        for (index, metric) in self.metrics.iter().enumerate() {
            say::out(format_args!("  {:<1$}", metric.name, NAME_WIDTH - 2));
            for subject in 0..self.subjects.len() {
                let cell = self
                    .summary(index, subject)
                    .map(|summary| show_summary(summary, metric.decimals));
                say::out(format_args!(
                    "{:>CELL_WIDTH$}",
                    cell.unwrap_or_else(|| "-".to_owned())
                ));
            }
            say!("");
        }
        for &(above, below) in &self.comparisons {
            say!(
                "  {} / {}, with 95 % interval",
                self.subjects[above],
                self.subjects[below]
            );
            for (index, metric) in self.metrics.iter().enumerate() {
                if let Some(ratio) = self.ratio(index, (above, below)) {
                    say!(
                        "    {:<1$}{2}",
                        metric.name,
                        NAME_WIDTH - 4,
                        show_ratio(ratio)
                    );
                }
            }
        }
        for (subject, taken) in self.subjects.iter().zip(&self.taken) {
            let disturbed = taken
                .iter()
                .filter(|taken| taken.usage.is_disturbed())
                .count();
            if disturbed > 0 {
                say!(
                    "  disturbed by other processes: {disturbed} of {} rounds of {subject}",
                    taken.len()
                );
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let rounds = |subject: usize| -> Vec<Value> {
            let taken = self.taken[subject].iter();
            taken
                .map(|taken| named_figures(self.metrics, taken))
                .collect()
        };
        let subjects: Vec<Value> = (0..self.subjects.len())
            .map(|subject| json!({ "name": self.subjects[subject], "rounds": rounds(subject) }))
            .collect();
        let ratios = self.comparisons.iter().flat_map(|&pair| {
            self.metrics
                .iter()
                .enumerate()
                .filter_map(move |(index, metric)| {
                    let ratio = self.ratio(index, pair)?;
                    let (above, below) = (&self.subjects[pair.0], &self.subjects[pair.1]);
                    Some(ratio_to_json(metric, above, below, ratio))
                })
        });
        json!({ "title": self.title, "subjects": subjects, "ratios": ratios.collect::<Vec<_>>() })
    }

    fn summary(&self, metric: usize, subject: usize) -> Option<Summary> {
        let figures = self.taken[subject]
            .iter()
            .map(|taken| taken.figures[metric]);
        stats::summarise(
            &figures
                .filter(|figure| !figure.is_nan())
                .collect::<Vec<_>>(),
        )
    }
}

/// One round's figures by their names.
pub(crate) fn named_figures(metrics: &[Metric], taken: &Taken) -> Value {
    let figures: serde_json::Map<String, Value> = metrics
        .iter()
        .zip(&taken.figures)
        .map(|(metric, &figure)| (metric.name.to_owned(), json!(figure)))
        .collect();
    json!({ "figures": figures, "window": taken.usage.to_json() })
}

pub(crate) fn ratio_to_json(metric: &Metric, above: &str, below: &str, ratio: Ratio) -> Value {
    json!({
        "metric": metric.name,
        "above": above,
        "below": below,
        "median": ratio.median,
        "low": ratio.low,
        "high": ratio.high,
        "verdict": ratio.verdict.name(),
    })
}

pub(crate) fn write_json(path: Option<&Path>, value: &Value) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(value)?;
    fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
}

fn show_ratio(ratio: Ratio) -> String {
    let verdict = match ratio.verdict {
        Verdict::Difference => String::new(),
        other => format!("  {}", other.name()),
    };
    format!(
        "{:.3}  [{:.3}..{:.3}]{verdict}",
        ratio.median, ratio.low, ratio.high
    )
}

fn show_summary(summary: Summary, decimals: usize) -> String {
    let Summary { median, min, max } = summary;
    format!("{median:.decimals$} ({min:.decimals$}..{max:.decimals$})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::proc::Cpu;
    use crate::measure::quiet::Usage;

    const METRICS: &[Metric] = &[Metric::new("rate", 0), Metric::new("memory", 1)];

    fn table() -> Table {
        let usage = Usage {
            server: Cpu::default(),
            others_share: 0.0,
            steal_share: 0.0,
            quiet_before: true,
        };
        let taken = |rates: [f64; 3]| {
            rates
                .map(|rate| Taken {
                    figures: vec![rate, f64::NAN],
                    usage,
                })
                .to_vec()
        };
        Table {
            title: "a title".to_owned(),
            metrics: METRICS,
            subjects: vec!["one".to_owned(), "two".to_owned()],
            taken: vec![taken([20.0, 22.0, 21.0]), taken([10.0, 11.0, 10.5])],
            comparisons: vec![(0, 1)],
        }
    }

    #[test]
    fn a_metric_that_does_not_apply_has_neither_summary_nor_ratio() {
        let table = table();
        assert_eq!(
            table.summary(0, 0),
            Some(Summary {
                median: 21.0,
                min: 20.0,
                max: 22.0
            })
        );
        assert_eq!(table.summary(1, 0), None);
        assert_eq!(table.ratio(0, (0, 1)).unwrap().median, 2.0);
        assert_eq!(table.ratio(1, (0, 1)), None);
    }

    #[test]
    fn json_holds_every_round_and_ratio() {
        let json = table().to_json();
        assert_eq!(
            json["subjects"][1]["rounds"][2]["figures"],
            json!({ "rate": 10.5, "memory": null })
        );
        assert_eq!(
            json["subjects"][0]["rounds"][0]["window"]["disturbed"],
            json!(false)
        );
        assert_eq!(json["ratios"].as_array().unwrap().len(), 1);
        assert_eq!(json["ratios"][0]["median"], json!(2.0));
    }

    #[test]
    fn a_ratio_is_shown_with_its_verdict() {
        let show = |verdict| {
            show_ratio(Ratio {
                median: 1.0,
                low: 0.9,
                high: 1.1,
                verdict,
            })
        };
        assert_eq!(show(Verdict::Difference), "1.000  [0.900..1.100]");
        assert_eq!(
            show(Verdict::NoDifference),
            "1.000  [0.900..1.100]  no difference"
        );
        assert_eq!(
            show(Verdict::TooFewRounds),
            "1.000  [0.900..1.100]  too few rounds to tell"
        );
    }
}

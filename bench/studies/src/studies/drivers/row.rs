//! What came of one subject, in all rounds.

use anyhow::{Error, Result};
use serde_json::{Value, json};

use super::page::significant;
use super::subject::Subject;
use crate::load::Report;
use crate::measure::held::Held;
use crate::measure::quiet::Usage;
use crate::measure::rounds::Taken;
use crate::measure::stats::{self, Ratio, Summary};
use crate::report::{Metric, named_figures, ratio_to_json};

pub(super) const METRICS: &[Metric] = &[
    Metric::new("answers/s", 0),
    Metric::new("server CPU us/answer", 2),
    Metric::new("of it user", 2),
    Metric::new("of it system", 2),
    Metric::new("server CPUs busy", 2),
    Metric::new("p50 us", 0),
    Metric::new("p99 us", 0),
    Metric::new("RSS B/connection", 0),
    Metric::new("kernel B/connection", 0),
    Metric::new("of it stacks", 0),
    Metric::new("of it page tables", 0),
    Metric::new("of it slab", 0),
    Metric::new("no longer available B/connection", 0),
];

// Places in `METRICS`.
pub(super) const RATE: usize = 0;
pub(super) const CPU_US: usize = 1;
pub(super) const BUSY: usize = 4;
pub(super) const P50_US: usize = 5;
pub(super) const P99_US: usize = 6;
pub(super) const RSS_BYTES: usize = 7;
pub(super) const KERNEL_BYTES: usize = 8;

/// Of a reason, which has to fit under a table.
const REASON_CHARS_MAX: usize = 300;

pub(super) struct Row {
    pub(super) subject: Subject,
    /// How the driver was set up, as soon as it is known.
    pub(super) driver: Option<String>,
    /// What was measured, or why nothing was.
    pub(super) rounds: Vec<Result<Taken, String>>,
}

impl Row {
    pub(super) fn new(subject: Subject) -> Row {
        Row {
            subject,
            driver: None,
            rounds: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, result: Result<Taken>) {
        self.rounds.push(result.map_err(|error| reason(&error)));
    }

    /// Of the rounds that have a figure.
    pub(super) fn summary(&self, metric: usize) -> Option<Summary> {
        let figures = self.taken().map(|taken| taken.figures[metric]);
        let known: Vec<f64> = figures.filter(|figure| !figure.is_nan()).collect();
        stats::summarise(&known)
    }

    /// Of the rounds that have both figures.
    pub(super) fn ratio(&self, metric: usize, below: &Row) -> Option<Ratio> {
        let rounds = self.rounds.iter().zip(&below.rounds);
        let pairs = rounds.filter_map(|(above, below)| {
            let (above, below) = (above.as_ref().ok()?, below.as_ref().ok()?);
            Some((above.figures[metric], below.figures[metric]))
        });
        stats::paired_ratio(&pairs.collect::<Vec<_>>())
    }

    pub(super) fn disturbed(&self) -> usize {
        let disturbed = self.taken().filter(|taken| taken.usage.is_disturbed());
        disturbed.count()
    }

    /// Why there are rounds without figures, and how many for each reason.
    pub(super) fn failures(&self) -> Vec<(&str, usize)> {
        let mut failures: Vec<(&str, usize)> = Vec::new();
        for reason in self.rounds.iter().filter_map(|round| round.as_ref().err()) {
            match failures.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => failures.push((reason, 1)),
            }
        }
        failures
    }

    /// For whoever watches the study.
    pub(super) fn show_last(&self) -> String {
        match self.rounds.last() {
            None => String::new(),
            Some(Err(reason)) => format!("cannot: {reason}"),
            Some(Ok(taken)) => {
                let [rate, cpu_us] =
                    [RATE, CPU_US].map(|metric| significant(taken.figures[metric]));
                format!("{rate} answers/s, {cpu_us} us each")
            }
        }
    }

    fn taken(&self) -> impl Iterator<Item = &Taken> {
        self.rounds.iter().filter_map(|round| round.as_ref().ok())
    }

    fn to_json(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| match round {
            Ok(taken) => named_figures(METRICS, taken),
            Err(reason) => json!({ "cannot": reason }),
        });
        json!({
            "name": self.subject.driver.to_string(),
            "driver": self.driver,
            "rounds": rounds.collect::<Vec<_>>(),
        })
    }
}

/// The drivers of one program at one number of connections, each beside the first.
pub(super) fn to_json(group: &[Row]) -> Value {
    let Some((first, others)) = group.split_first() else {
        return Value::Null;
    };
    let ratios = others.iter().flat_map(|row| {
        METRICS.iter().enumerate().filter_map(|(index, metric)| {
            let ratio = row.ratio(index, first)?;
            let name = |row: &Row| row.subject.driver.to_string();
            Some(ratio_to_json(metric, &name(row), &name(first), ratio))
        })
    });
    json!({
        "program": first.subject.program.to_string(),
        "connections": first.subject.connections,
        "subjects": group.iter().map(Row::to_json).collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
    })
}

/// In the order of `METRICS`.
pub(super) fn figures(
    report: &Report,
    usage: &Usage,
    memory: [&Held; 2],
    connections: u32,
) -> Vec<f64> {
    let per_answer_us = |ns: f64| ns / 1e3 / report.answered as f64;
    let (user_ns, system_ns) = usage.server.split_ns();
    let cpu_us = per_answer_us(usage.server.total_ns() as f64);
    let mut figures = vec![
        report.per_second,
        cpu_us,
        per_answer_us(user_ns),
        per_answer_us(system_ns),
        report.per_second * cpu_us / 1e6,
        report.p50_us,
        report.p99_us,
    ];
    let [before, after] = memory;
    figures.extend(after.since(before, connections));
    figures
}

/// In one line.
fn reason(error: &Error) -> String {
    let text = format!("{error:#}");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::measure::proc::Cpu;
    use crate::studies::drivers::subject::Program;
    use uthread::Driver;

    /// A row whose only figure is the rate; `None` where it could not be measured.
    pub(in crate::studies::drivers) fn row(driver: Driver, rates: &[Option<f64>]) -> Row {
        let mut row = Row::new(Subject {
            program: Program::Echo,
            connections: 1000,
            driver,
        });
        for rate in rates {
            row.add(
                rate.map(taken)
                    .ok_or_else(|| anyhow::anyhow!("no\n  threads")),
            );
        }
        row
    }

    fn taken(rate: f64) -> Taken {
        let mut figures = vec![f64::NAN; METRICS.len()];
        figures[RATE] = rate;
        Taken {
            figures,
            usage: Usage {
                server: Cpu::default(),
                others_share: 0.0,
                steal_share: 0.0,
                quiet_before: true,
            },
        }
    }

    #[test]
    fn rounds_that_failed_are_left_out_and_named_once() {
        let uring = row(Driver::Uring, &[Some(10.0), Some(20.0), Some(30.0)]);
        let threads = row(Driver::Threads, &[None, Some(10.0), None]);
        assert_eq!(threads.failures(), [("no threads", 2)]);
        assert_eq!(uring.failures(), []);
        assert_eq!(threads.summary(RATE).unwrap().median, 10.0);
        assert_eq!(threads.summary(P50_US), None);
        assert_eq!(threads.ratio(RATE, &uring).unwrap().median, 0.5);
        assert_eq!(row(Driver::Epoll, &[None]).ratio(RATE, &uring), None);
    }

    #[test]
    fn json_holds_every_round_and_ratio() {
        let group = [
            row(Driver::Uring, &[Some(10.0), Some(20.0)]),
            row(Driver::Threads, &[None, Some(10.0)]),
        ];
        let json = to_json(&group);
        assert_eq!(json["connections"], 1000);
        let rounds = &json["subjects"][1]["rounds"];
        assert_eq!(rounds[0]["cannot"], "no threads");
        assert_eq!(rounds[1]["figures"]["answers/s"], 10.0);
        assert_eq!(json["ratios"][0]["above"], "threads");
        assert_eq!(json["ratios"][0]["median"], 0.5);
    }
}

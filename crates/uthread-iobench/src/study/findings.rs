//! Findings beside the tables: distributions of latency, and the depth from which a ring wins.

use std::collections::BTreeMap;

use uthread_report::measure::stats::{Ratio, Verdict, summarise};
use uthread_report::plot::{Curve, Plot, Scale};
use uthread_report::results::{Round, Study};
use uthread_report::study::Cell;

use crate::tally::{ABOVE_MIN, Latencies, PERCENTILES};
use crate::technique::Technique;

/// The distribution of latencies of each measurement, by point and subject.
#[derive(Default)]
pub(super) struct Distributions(BTreeMap<(usize, usize), Vec<Latencies>>);

impl Distributions {
    pub(super) fn add(&mut self, cell: Cell, latencies: &Latencies) {
        let rounds = self.0.entry((cell.point, cell.subject)).or_default();
        rounds.push(latencies.clone());
    }

    /// Returns the medians of all rounds as points: latency and percent of the requests that took
    /// no longer.
    fn curve(&self, point: usize, subject: usize) -> Option<Vec<(f64, f64)>> {
        let rounds = self.0.get(&(point, subject))?;
        let median = |percent: f64| {
            let all = rounds.iter().flat_map(Latencies::known);
            let known = all.filter(|(known, _)| *known == percent);
            let summary = summarise(&known.map(|(_, latency)| latency).collect::<Vec<_>>())?;
            // A logarithmic axis has no zero.
            (summary.median > 0.0).then_some((summary.median, percent))
        };
        let curve: Vec<_> = PERCENTILES.into_iter().filter_map(median).collect();
        (!curve.is_empty()).then_some(curve)
    }
}

/// Adds plots and a note to the results of a scenario.
pub(super) fn complete(study: &mut Study, distributions: &Distributions) {
    let panel = &study.panels[0];
    let ends = [0, panel.points.len().saturating_sub(1)];
    let mut plots = Vec::new();
    for (index, &point) in ends.iter().enumerate() {
        if index == 0 || point != ends[0] {
            plots.extend(distribution(study, distributions, point));
        }
    }
    let notes = [crossing(study), too_few(study)];
    study.plots = plots;
    study.notes.extend(notes.into_iter().flatten());
}

/// Names the percentiles without a figure, as too few requests were measured.
fn too_few(study: &Study) -> Option<String> {
    let panel = &study.panels[0];
    let rounds = || panel.rounds.iter().flatten().flatten();
    let is_absent = |metric: usize| rounds().all(|round| round.figure(metric).is_none());
    let metrics = panel.metrics.iter().enumerate();
    let absent =
        metrics.filter(|(index, metric)| metric.name.contains("lat p") && is_absent(*index));
    let names: Vec<String> = absent
        .map(|(_, metric)| format!("`{}`", metric.name))
        .collect();
    let was_measured = rounds().any(|round| matches!(round, Round::Taken { .. }));
    (was_measured && !names.is_empty()).then(|| {
        format!(
            "Left out: {}, which fewer than {ABOVE_MIN} requests of a measurement exceed.",
            names.join(", ")
        )
    })
}

fn distribution(study: &Study, distributions: &Distributions, point: usize) -> Option<Plot> {
    let curve = |(index, name): (usize, &String)| {
        let points = distributions.curve(point, index)?;
        Some(Curve {
            name: name.clone(),
            points,
        })
    };
    let names = study.subjects.iter().map(|subject| &subject.name);
    let curves: Vec<Curve> = names.enumerate().filter_map(curve).collect();
    (!curves.is_empty()).then(|| Plot {
        title: format!("lat at {}", study.panels[0].place(point)),
        x: Scale {
            name: "lat, usec".to_owned(),
            is_log: true,
        },
        y: Scale {
            name: "percent of the reads".to_owned(),
            is_log: false,
        },
        is_scatter: false,
        curves,
    })
}

/// Describes from which depth on the ring answers more requests than blocking calls do, and how it
/// compares one at a time.
fn crossing(study: &Study) -> Option<String> {
    let panel = &study.panels[0];
    let metric = panel.metric("IOPS")?;
    let pread = study.subject(Technique::Pread.name())?;
    let ring = study.subject(Technique::Ring.name())?;
    let ratio = |point| panel.ratio(point, metric, (ring, pread));
    let first = ratio(0)?;
    let start = format!(
        "At {} the ring answers {} times the requests of `pread`",
        panel.place(0),
        words(first)
    );
    let wins = (0..panel.points.len()).find(|&point| ratio(point).is_some_and(is_more));
    let best = (0..panel.points.len())
        .filter_map(|point| Some((point, ratio(point)?)))
        .max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    Some(match wins {
        None => format!("{start}, and at no other point more with certainty."),
        Some(point) => format!(
            "{start}. It wins from {} on, where the ratio is {}; the highest ratio is {} at {}.",
            panel.place(point),
            ratio(point).map(words)?,
            words(best.1),
            panel.place(best.0)
        ),
    })
}

/// Returns whether the whole interval is above 1.
fn is_more(ratio: Ratio) -> bool {
    ratio.low > 1.0 && ratio.verdict != Verdict::NoDifference
}

fn words(ratio: Ratio) -> String {
    let Ratio {
        median, low, high, ..
    } = ratio;
    let few = match ratio.verdict {
        Verdict::TooFewRounds => ", too few rounds to tell",
        _ => "",
    };
    format!("{median:.2} [{low:.2}..{high:.2}{few}]")
}

#[cfg(test)]
mod tests {
    use uthread_report::results::{Better, Metric, Panel, Point, Subject};

    use super::*;

    /// Returns a study with these rates of `pread` and the ring at each depth, in six rounds.
    fn study(rates: &[(f64, f64)]) -> Study {
        let points = (1..=rates.len()).map(|depth| Point::number(depth as f64));
        let metrics = vec![Metric::new("IOPS", "", Better::More)];
        let mut panel = Panel::new("", "iodepth", points.collect(), metrics);
        let rounds = |rate: f64| {
            let taken = |_| Round::Taken {
                figures: vec![Some(rate)],
                was_disturbed: false,
            };
            (0..6).map(taken).collect::<Vec<_>>()
        };
        panel.rounds = rates
            .iter()
            .map(|&(pread, ring)| vec![rounds(pread), rounds(ring)])
            .collect();
        let names = [Technique::Pread, Technique::Ring].map(Technique::name);
        let subjects = names.map(|name| Subject::peer(name, None, None)).to_vec();
        Study::new(["s", "", ""], Vec::new(), subjects, vec![panel])
    }

    #[test]
    fn the_depth_at_which_a_ring_wins_is_named() {
        let found = crossing(&study(&[
            (100.0, 90.0),
            (100.0, 100.0),
            (100.0, 250.0),
            (100.0, 200.0),
        ]));
        assert_eq!(
            found.unwrap(),
            "At iodepth 1 the ring answers 0.90 [0.90..0.90] times the requests of `pread`. It wins from iodepth 3 on, where the \
             ratio is 2.50 [2.50..2.50]; the highest ratio is 2.50 [2.50..2.50] at iodepth 3."
        );
        let found = crossing(&study(&[(100.0, 90.0), (100.0, 99.0)])).unwrap();
        assert!(
            found.ends_with("at no other point more with certainty."),
            "{found}"
        );
        assert_eq!(crossing(&study(&[])), None);
    }

    #[test]
    fn percentiles_without_a_figure_are_named() {
        let mut study = study(&[(100.0, 90.0)]);
        assert_eq!(too_few(&study), None);
        let panel = &mut study.panels[0];
        panel
            .metrics
            .push(Metric::new("lat p99", "usec", Better::Less));
        panel
            .metrics
            .push(Metric::new("lat p99.9", "usec", Better::Less));
        for round in panel.rounds.iter_mut().flatten().flatten() {
            if let Round::Taken { figures, .. } = round {
                figures.extend([Some(1.0), None]);
            }
        }
        let note = "Left out: `lat p99.9`, which fewer than 10 requests of a measurement exceed.";
        assert_eq!(too_few(&study).as_deref(), Some(note));
        study.panels[0].rounds.clear();
        assert_eq!(too_few(&study), None, "nothing was measured");
    }

    #[test]
    fn a_distribution_has_the_medians_of_the_rounds() {
        let mut distributions = Distributions::default();
        let cell = Cell {
            panel: 0,
            point: 1,
            subject: 1,
            round: 0,
        };
        for factor in [1.0, 3.0, 2.0] {
            let percentiles_us = PERCENTILES.map(|percent| percent * factor).to_vec();
            distributions.add(
                cell,
                &Latencies {
                    count: 10_000,
                    mean_us: 1.0,
                    deviation_us: 1.0,
                    percentiles_us,
                },
            );
        }
        let mut study = study(&[(100.0, 90.0), (100.0, 99.0)]);
        complete(&mut study, &distributions);
        // Nothing is known of the first point.
        assert_eq!(study.plots.len(), 1);
        let curves = &study.plots[0].curves;
        assert_eq!((curves.len(), &*curves[0].name), (1, "ring"));
        assert_eq!(curves[0].points[6], (100.0, 50.0));
        let last = curves[0].points.last();
        assert_eq!(last, Some(&(2.0 * 99.9, 99.9)), "too few for 99.99 %");
        assert_eq!(study.notes.len(), 1);
    }
}

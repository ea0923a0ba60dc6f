//! The distribution of the response times at one point of a panel, as a panel by percentile.

use crate::results::{Better, Metric, Panel, Point, Round};

/// Fewer percentiles show no distribution.
const PERCENTILES_MIN: usize = 4;
/// The name of the greatest, which is the last percentile.
const MAXIMUM: &str = "max";

/// Returns a panel whose points are the percentiles among the metrics, or `None` with too few of
/// them. They are equally far apart: each has about a tenth of the answers of the one before above
/// it.
pub(super) fn of_point(panel: &Panel, point: usize) -> Option<Panel> {
    let subjects = panel.rounds.get(point)?;
    let is_known = |metric| {
        let mut rounds = subjects.iter().flatten();
        rounds.any(|round| round.figure(metric).is_some())
    };
    let labels = panel.metrics.iter().map(|metric| label(&metric.name));
    let labels = labels.enumerate().filter_map(|(metric, label)| {
        let label = label.filter(|_| is_known(metric))?;
        Some((metric, label))
    });
    let labels: Vec<(usize, &str)> = labels.collect();
    if labels.len() < PERCENTILES_MIN {
        return None;
    }
    let points = labels
        .iter()
        .enumerate()
        .map(|(position, (_, label))| Point {
            label: (*label).to_owned(),
            value: Some(position as f64),
        });
    let metric = Metric::new("", &panel.metrics[labels[0].0].unit, Better::Less);
    let title = panel.place(point);
    let mut by_percentile = Panel::new(&title, "percentile", points.collect(), vec![metric]);
    let rounds = |metric| {
        let of_subject =
            |rounds: &Vec<Round>| rounds.iter().map(|round| of(round, metric)).collect();
        subjects.iter().map(of_subject).collect()
    };
    by_percentile.rounds = labels.iter().map(|(metric, _)| rounds(*metric)).collect();
    Some(by_percentile)
}

/// Returns the label of a metric that is a percentile: `99.9` of `p99.9`.
fn label(metric: &str) -> Option<&str> {
    let number = metric.strip_prefix('p');
    let number = number.filter(|number| number.parse::<f64>().is_ok());
    number.or((metric == MAXIMUM).then_some(MAXIMUM))
}

/// Returns a round with this figure only.
fn of(round: &Round, metric: usize) -> Round {
    match round {
        Round::Taken { was_disturbed, .. } => Round::Taken {
            figures: vec![round.figure(metric)],
            was_disturbed: *was_disturbed,
        },
        Round::Cannot(_) => round.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::taken;

    #[test]
    fn the_metrics_that_are_percentiles_become_points() {
        let names = ["rate", "p50", "p99.9", "page", "p99.999", "max"];
        let metrics = names.map(|name| Metric::new(name, "us", Better::Less));
        let points = vec![Point::number(10.0)];
        let mut panel = Panel::new("", "connections", points, metrics.into());
        assert_eq!(of_point(&panel, 0), None, "nothing was measured");
        let cannot = Round::Cannot("no port".to_owned());
        let ours = vec![taken(&[7.0, 1.0, 2.0, 8.0, 3.0, 4.0]), cannot.clone()];
        panel.rounds = vec![vec![ours, vec![taken(&[7.0, 5.0])]]];
        let by = of_point(&panel, 0).unwrap();
        let labels: Vec<&str> = by.points.iter().map(|point| &*point.label).collect();
        assert_eq!(labels, ["50", "99.9", "99.999", "max"]);
        assert_eq!((&*by.title, &*by.metrics[0].unit), ("10 connections", "us"));
        assert_eq!(by.rounds(1, 0), [taken(&[2.0]), cannot]);
        assert_eq!(by.summary(3, 0, 0).unwrap().median, 4.0);
        let second = [0, 1].map(|point| by.summary(point, 1, 0).map(|of| of.median));
        assert_eq!(second, [Some(5.0), None]);
        panel.metrics.pop();
        assert_eq!(of_point(&panel, 0), None, "three are too few");
    }
}

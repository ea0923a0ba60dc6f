//! Merges new results with the studies of an earlier report.

use crate::results::Study;

/// Returns each study once, in this order, and others last. A measured study replaces the earlier one; after an interrupted run,
/// only if it has at least as many measurements.
pub(crate) fn merge(
    earlier: Vec<Study>,
    found: Vec<Study>,
    was_stopped: bool,
    order: &[String],
) -> Vec<Study> {
    let mut merged = earlier;
    for study in found {
        let place = merged.iter_mut().find(|other| other.name == study.name);
        match place {
            None => merged.push(study),
            Some(other) => {
                let is_enough = match was_stopped {
                    true => study.measurements() >= other.measurements(),
                    false => study.measurements() > 0 || other.measurements() == 0,
                };
                if is_enough {
                    *other = study;
                }
            }
        }
    }
    let place = |study: &Study| order.iter().position(|name| *name == study.name);
    merged.sort_by_key(|study| place(study).unwrap_or(order.len()));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::taken;
    use crate::results::{Better, Metric, Panel, Point};

    /// Returns a study with this many rounds of one figure.
    fn study(name: &str, rounds: usize, figure: f64) -> Study {
        let metrics = vec![Metric::new("rate", "1/s", Better::More)];
        let mut panel = Panel::new("", "", vec![Point::name("all")], metrics);
        panel.rounds = vec![vec![vec![taken(&[figure]); rounds]]];
        Study::new([name, "", ""], Vec::new(), Vec::new(), vec![panel])
    }

    const EARLIER: [(&str, usize, f64); 3] = [("gone", 7, 1.0), ("http", 7, 1.0), ("echo", 7, 1.0)];

    #[track_caller]
    fn check(found: &[(&str, usize, f64)], was_stopped: bool, expected: &[(&str, usize, f64)]) {
        let studies = |list: &[(&str, usize, f64)]| -> Vec<Study> {
            let each = list.iter();
            each.map(|&(name, rounds, figure)| study(name, rounds, figure))
                .collect()
        };
        let order = ["echo", "latency", "http", "disk"].map(str::to_owned);
        let merged = merge(studies(&EARLIER), studies(found), was_stopped, &order);
        assert_eq!(merged, studies(expected));
    }

    #[test]
    fn measured_studies_replace_earlier_ones_and_the_others_stay() {
        check(
            &[("latency", 2, 2.0), ("http", 2, 2.0)],
            false,
            &[
                ("echo", 7, 1.0),
                ("latency", 2, 2.0),
                ("http", 2, 2.0),
                ("gone", 7, 1.0),
            ],
        );
        check(&[], false, &[EARLIER[2], EARLIER[1], EARLIER[0]]);
    }

    #[test]
    fn an_unmeasured_study_replaces_only_an_unmeasured_one() {
        check(
            &[("echo", 0, 2.0), ("disk", 0, 2.0)],
            false,
            &[
                ("echo", 7, 1.0),
                ("http", 7, 1.0),
                ("disk", 0, 2.0),
                ("gone", 7, 1.0),
            ],
        );
    }

    #[test]
    fn an_interrupted_study_replaces_none_with_more_measurements() {
        check(
            &[("echo", 6, 2.0), ("http", 7, 2.0), ("disk", 1, 2.0)],
            true,
            &[
                ("echo", 7, 1.0),
                ("http", 7, 2.0),
                ("disk", 1, 2.0),
                ("gone", 7, 1.0),
            ],
        );
    }
}

//! Merges new results with the studies of an earlier report.

use uthread_report::results::Study;

/// Returns each study once, in this order, and others last. A measured study replaces the earlier
/// one; after an interrupted run, only if it has at least as many measurements.
pub(crate) fn merge(
    mut merged: Vec<Study>,
    found: Vec<Study>,
    was_stopped: bool,
    order: &[String],
) -> Vec<Study> {
    for study in found {
        let Some(other) = merged.iter_mut().find(|other| other.name == study.name) else {
            merged.push(study);
            continue;
        };
        let (now, before) = (study.measurements(), other.measurements());
        if now >= before || (!was_stopped && now > 0) {
            *other = study;
        }
    }
    let place = |study: &Study| order.iter().position(|name| *name == study.name);
    merged.sort_by_key(|study| place(study).unwrap_or(order.len()));
    merged
}

#[cfg(test)]
mod tests {
    use uthread_report::results::{Better, Metric, Panel, Point};

    use super::*;
    use crate::sample::taken;

    /// Returns studies, each with so many rounds of one figure: `echo 7 1`.
    fn studies(list: &str) -> Vec<Study> {
        let study = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let (rounds, figure) = (words[1].parse().unwrap(), words[2].parse().unwrap());
            let metrics = vec![Metric::new("rate", "1/s", Better::More)];
            let mut panel = Panel::new("", "", vec![Point::name("all")], metrics);
            panel.rounds = vec![vec![vec![taken(&[figure]); rounds]]];
            Study::new([words[0], "", ""], Vec::new(), Vec::new(), vec![panel])
        };
        let words = list.split(", ").filter(|words| !words.is_empty());
        words.map(study).collect()
    }

    #[test]
    fn measured_studies_replace_earlier_ones_in_the_order_of_the_page() {
        let earlier = "gone 7 1, http 7 1, echo 7 1";
        let cases = [
            (
                "latency 2 2, http 2 2",
                false,
                "echo 7 1, latency 2 2, http 2 2, gone 7 1",
            ),
            ("", false, "echo 7 1, http 7 1, gone 7 1"),
            // An unmeasured study replaces only an unmeasured one.
            (
                "echo 0 2, disk 0 2",
                false,
                "echo 7 1, http 7 1, disk 0 2, gone 7 1",
            ),
            // An interrupted study replaces none with more measurements.
            (
                "echo 6 2, http 7 2, disk 1 2",
                true,
                "echo 7 1, http 7 2, disk 1 2, gone 7 1",
            ),
        ];
        let order = ["echo", "latency", "http", "disk"].map(str::to_owned);
        for (found, was_stopped, expected) in cases {
            let merged = merge(studies(earlier), studies(found), was_stopped, &order);
            assert_eq!(merged, studies(expected), "{found}");
        }
    }
}

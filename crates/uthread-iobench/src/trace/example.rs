//! One batch to read in full: ten normal requests and then an urgent one, with the times at which
//! the kernel took them, as text and as a plot.

use std::fmt::Write;

use uthread_report::plot::{Curve, Plot, Scale};

use super::tag::{Class, Tag};

/// The finding without an example: a slow machine takes several calls, as a worker submits what has
/// waited for long.
const SPLIT: &str = "The example was not recorded: this machine is too slow to request its eleven entries within the time after which a \
                     worker submits them.";

/// The entries of each subject in the kernel's order, with microseconds since the first. None if
/// the worker has not submitted them by one call.
#[derive(Default)]
pub(super) struct Example {
    pub(super) subjects: [Vec<(Tag, f64)>; 2],
}

impl Example {
    /// Returns a table: a row for each place in the kernel's order, with the request's place in the
    /// program's.
    pub(super) fn text(&self, names: [&str; 2]) -> String {
        let mut text = String::from(
            "ten normal requests, then an urgent one: in the order in which the kernel took them, with the time since the first\n",
        );
        let [left, right] = names;
        let _ = writeln!(text, "  {:>5}  {left:<28}{right}", "place");
        let rows = self.subjects.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..rows {
            let [left, right] = [0, 1].map(|subject| self.cell(subject, row));
            let line = format!("  {:>5}  {left:<28}{right}", row + 1);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    fn cell(&self, subject: usize, row: usize) -> String {
        let Some((tag, at)) = self.subjects[subject].get(row) else {
            return String::new();
        };
        format!("{} {:<3} {at:>5.0} us", tag.class.name(), tag.sequence + 1)
    }

    /// Draws the time at which the kernel took each request, of both subjects. The urgent one is the
    /// last in the program's order. None if there is no example.
    pub(super) fn plot(&self, names: [&str; 2]) -> Option<Plot> {
        if self.subjects.iter().any(Vec::is_empty) {
            return None;
        }
        let curve = |(entries, name): (&Vec<(Tag, f64)>, &str)| {
            let place = |tag: &Tag| f64::from(tag.sequence) + 1.0;
            Curve {
                name: name.to_owned(),
                points: entries.iter().map(|(tag, at)| (*at, place(tag))).collect(),
            }
        };
        let scale = |name: &str| Scale {
            name: name.to_owned(),
            is_log: false,
        };
        Some(Plot {
            title: "ten normal requests, then an urgent one".to_owned(),
            x: scale("time since the kernel took the first, us"),
            y: scale("place in the program's order, of which 11 is urgent"),
            is_scatter: true,
            curves: self.subjects.iter().zip(names).map(curve).collect(),
        })
    }

    /// Says how far ahead of the others the urgent request was taken, of each subject, or why there
    /// is no example.
    pub(super) fn finding(&self, names: [&str; 2]) -> String {
        let place = |subject: usize| {
            let entries = &self.subjects[subject];
            let urgent = |(tag, _): &(Tag, f64)| tag.class == Class::Urgent;
            let place = entries.iter().position(urgent)?;
            let ahead = entries.last()?.1 - entries[place].1;
            Some((place + 1, entries.len(), ahead))
        };
        let (Some((first, of, ahead)), Some((last, ..))) = (place(0), place(1)) else {
            return SPLIT.to_owned();
        };
        let [ordered, control] = names;
        format!(
            "Of {of} requests in one call, of which the last was urgent, the kernel took that one as number {first} with {ordered}, \
             {ahead:.0} us before the last, and as number {last} with {control}."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Batch;
    use super::*;

    #[test]
    fn the_urgent_request_is_seen_to_overtake() {
        let batch = Batch::example();
        let taken = |order: &[usize]| -> Vec<(Tag, f64)> {
            let entries = order.iter().zip(0..);
            entries
                .map(|(&index, at)| (batch.tag(index), f64::from(at)))
                .collect()
        };
        let ordered: Vec<usize> = std::iter::once(10).chain(0..10).collect();
        let control: Vec<usize> = (0..11).collect();
        let example = Example {
            subjects: [taken(&ordered), taken(&control)],
        };
        let text = example.text(["a", "b"]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows.len(), 11);
        assert!(
            rows[0].contains("urgent 11") && rows[0].contains("normal 1 "),
            "{text}"
        );
        assert!(rows[10].ends_with("urgent 11     10 us"), "{text}");
        let finding = example.finding(["a", "b"]);
        let expected = "as number 1 with a, 10 us before the last, and as number 11 with b.";
        assert!(finding.ends_with(expected), "{finding}");
        let plot = example.plot(["a", "b"]).unwrap();
        let urgent = |curve: usize| {
            plot.curves[curve]
                .points
                .iter()
                .find(|(_, place)| *place == 11.0)
        };
        assert_eq!(
            [urgent(0), urgent(1)],
            [Some(&(0.0, 11.0)), Some(&(10.0, 11.0))]
        );
        assert_eq!(Example::default().finding(["a", "b"]), SPLIT);
        assert_eq!(Example::default().plot(["a", "b"]), None);
    }
}

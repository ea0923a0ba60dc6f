//! The scatter plot: for every entry its place in the program's order, and that in the kernel's.

use std::fmt::Write;

use uthread_report::plot::{Curve, Plot, Scale};

use super::tag::{Class, Tag};

/// Number of system calls that are drawn: more fill the plot.
const FLUSHES_MAX: usize = 50;
/// Size of the plot in a terminal.
const COLUMNS: usize = 64;
const ROWS: usize = 16;

/// The entries of the first system calls of each subject: class, place in the kernel's order, and
/// in the program's.
#[derive(Default)]
pub(super) struct Scatter {
    subjects: [Vec<Vec<(Class, usize, usize)>>; 2],
}

impl Scatter {
    /// Adds the entries of a system call, in the kernel's order.
    pub(super) fn add(&mut self, subject: usize, flush: &[Tag]) {
        let flushes = &mut self.subjects[subject];
        if flushes.len() >= FLUSHES_MAX {
            return;
        }
        let rank = |tag: &Tag| {
            flush
                .iter()
                .filter(|other| other.sequence < tag.sequence)
                .count()
        };
        let places = flush.iter().enumerate();
        flushes.push(
            places
                .map(|(place, tag)| (tag.class, place, rank(tag)))
                .collect(),
        );
    }

    /// Returns a plot for each subject.
    pub(super) fn plots(&self, names: [&str; 2]) -> Vec<Plot> {
        let subjects = self.subjects.iter().zip(names);
        subjects
            .map(|(flushes, name)| plot(flushes, name))
            .collect()
    }

    /// Draws the longest call of the ordered ones in letters: a column for each place in the
    /// kernel's order.
    pub(super) fn text(&self) -> String {
        let longest = self.subjects[0].iter().max_by_key(|flush| flush.len());
        let Some(flush) = longest else {
            return String::new();
        };
        let mut rows = vec![vec![' '; COLUMNS]; ROWS];
        for &(class, place, index) in flush {
            let letter = match class {
                Class::Urgent => 'U',
                Class::Normal => 'n',
                Class::Background => '.',
            };
            let scaled = |value: usize, size: usize| value * size / flush.len();
            rows[ROWS - 1 - scaled(index, ROWS)][scaled(place, COLUMNS)] = letter;
        }
        let mut text = String::from(
            "place in the program's order (up), in the kernel's (right); U urgent, n normal, . background\n",
        );
        for row in rows {
            let row: String = row.into_iter().collect();
            let _ = writeln!(text, "  |{}", row.trim_end());
        }
        text + "  +" + &"-".repeat(COLUMNS)
    }
}

fn plot(flushes: &[Vec<(Class, usize, usize)>], name: &str) -> Plot {
    let curve = |class: Class| {
        let entries = flushes.iter().flatten().filter(|(of, ..)| *of == class);
        Curve {
            name: class.name().to_owned(),
            points: entries
                .map(|&(_, place, index)| (place as f64, index as f64))
                .collect(),
        }
    };
    let scale = |name: &str| Scale {
        name: name.to_owned(),
        is_log: false,
    };
    Plot {
        title: name.to_owned(),
        x: scale("place in the kernel's order"),
        y: scale("place in the program's order"),
        is_scatter: true,
        curves: Class::ALL.map(curve).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::{batch, flushed, in_order_of_class};
    use super::*;

    #[test]
    fn urgent_entries_are_on_the_left() {
        let batch = batch("nbnbnunu");
        let mut scatter = Scatter::default();
        scatter.add(0, &flushed(&batch, &[&in_order_of_class(&batch)])[0]);
        let plots = scatter.plots(["priorities", "control"]);
        let urgent = &plots[0].curves[0];
        assert_eq!(
            (&*urgent.name, &urgent.points[..]),
            ("urgent", &[(0.0, 5.0), (1.0, 7.0)][..])
        );
        assert!(plots[1].curves.iter().all(|curve| curve.points.is_empty()));
        let text = scatter.text();
        let columns = |letter: char| {
            let lines = text.lines().skip(1);
            lines
                .filter_map(|line| line.find(letter))
                .collect::<Vec<_>>()
        };
        assert!(
            columns('U').iter().max() < columns('n').iter().min(),
            "{text}"
        );
        assert!(
            columns('n').iter().max() < columns('.').iter().min(),
            "{text}"
        );
    }
}

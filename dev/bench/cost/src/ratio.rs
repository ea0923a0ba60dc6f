//! Times an operation against its floor, in slices that alternate, in one process.

use std::time::Instant;

use crate::{floor, operations};

/// Number of slices of each; the median counts.
const SLICES: usize = 41;

/// Number of operations in a slice: about a millisecond.
const SLICE_OPERATIONS: usize = 20_000;

/// An operation, and the operations that together are its floor.
pub(crate) struct Pair {
    name: &'static str,
    operation: fn(usize),
    floors: &'static [fn(usize)],
}

const PAIRS: [Pair; 2] = [
    Pair {
        name: "yield",
        operation: operations::yields,
        floors: &[floor::switches],
    },
    Pair {
        name: "spawn",
        operation: operations::spawns,
        floors: &[floor::switches, floor::allocations],
    },
];

impl Pair {
    pub(crate) fn by_name(name: &str) -> Option<&'static Pair> {
        PAIRS.iter().find(|pair| pair.name == name)
    }

    /// Prints the nanoseconds of the operation and of its floor, and the ratio of both.
    pub(crate) fn print_ratio(&self) {
        let (mut operations, mut floors, mut ratios) = (vec![], vec![], vec![]);
        for _ in 0..SLICES {
            let operation = time(self.operation);
            let floor: f64 = self.floors.iter().map(|floor| time(*floor)).sum();
            operations.push(operation);
            floors.push(floor);
            ratios.push(operation / floor);
        }
        let [operation, floor, ratio] = [operations, floors, ratios].map(median);
        println!("{operation:.1} {floor:.1} {ratio:.2}");
    }
}

/// Returns the nanoseconds of one operation.
fn time(repeat: fn(usize)) -> f64 {
    let begin = Instant::now();
    repeat(SLICE_OPERATIONS);
    begin.elapsed().as_nanos() as f64 / SLICE_OPERATIONS as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

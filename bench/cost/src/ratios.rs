//! Times operations against their floors, in slices that alternate, in one process.

use std::time::Instant;

use uthread::Runtime;

use crate::{floor, operations};

/// Number of slices of each; the median counts.
const SLICES: usize = 41;

/// Number of operations in a slice: about a millisecond.
const SLICE_OPERATIONS: usize = 20_000;

/// An operation with its floor and the largest ratio that the project accepts.
struct Pair {
    name: &'static str,
    operation: fn(usize),
    floors: &'static [fn(usize)],
    bound: f64,
}

const PAIRS: [Pair; 2] = [
    Pair {
        name: "yield",
        operation: operations::yields,
        floors: &[floor::switches],
        bound: 2.5,
    },
    Pair {
        name: "spawn",
        operation: operations::spawns,
        floors: &[floor::switches, floor::allocations],
        bound: 3.0,
    },
];

/// Prints a line for each pair: name, nanoseconds of the operation and of its floor, ratio, bound.
pub(crate) fn print(runtime: &Runtime) {
    for Pair {
        name,
        operation,
        floors,
        bound,
    } in &PAIRS
    {
        runtime.run(|| {
            let (mut operations, mut floors_ns, mut ratios) = (vec![], vec![], vec![]);
            for _ in 0..SLICES {
                let nanoseconds = time(*operation);
                let floor: f64 = floors.iter().map(|floor| time(*floor)).sum();
                operations.push(nanoseconds);
                floors_ns.push(floor);
                ratios.push(nanoseconds / floor);
            }
            let (operation, floor) = (median(operations), median(floors_ns));
            let ratio = median(ratios);
            println!("{name} {operation:.1} {floor:.1} {ratio:.2} {bound:.1}");
        });
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

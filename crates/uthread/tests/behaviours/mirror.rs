//! One program, compiled with `std::thread` and with `uthread::thread`: it uses every name of the
//! former, and expects the same results of both.

mod of_std;
mod of_uthread;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, ON_A_THREAD, behaviours};

behaviours![
    (EVERYWHERE, [a_program_of_threads_runs_on_fibers]),
    (ON_A_THREAD, [program_runs_on_the_threads_of_std]),
];

fn a_program_of_threads_runs_on_fibers(place: Place) {
    place.run(of_uthread::program::run);
}

fn program_runs_on_the_threads_of_std(place: Place) {
    place.run(of_std::program::run);
}

//! Properties of fibers that are handed to the workers in turn, as those of connections are.

use std::sync::{Arc, Mutex};

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sched::caller::spawn;
use crate::sched::shared::SharePolicy;
use crate::sched::worker::{Worker, current};
use crate::thread::{JoinHandle, spawn};

const WORKERS: usize = 3;

/// Spawns a fiber that serves a connection, until it has been served.
fn serve(mut choices: Choices) -> JoinHandle<usize> {
    spawn::spread_next();
    spawn(move || {
        let worker = current::with_worker(Worker::index).expect("a fiber runs on a worker");
        (0..choices.below(4)).for_each(|_| dawdle(&mut choices));
        worker
    })
}

#[test]
fn workers_get_equally_many_connections() {
    const EACH: usize = 7;
    under_seeds(|seed| {
        let simulation = Simulation::with_sharing(seed, WORKERS, SharePolicy::Never);
        let counts = simulation.run(move || {
            let mut choices = Choices(seed * 7);
            let mut connections = Vec::new();
            for index in 0..(EACH * WORKERS) as u64 {
                connections.push(serve(Choices(seed + index)));
                (0..choices.below(3)).for_each(|_| dawdle(&mut choices));
            }
            let mut counts = [0; WORKERS];
            for connection in connections {
                counts[connection.join().unwrap()] += 1;
            }
            counts
        });
        assert_eq!(counts, [EACH; WORKERS]);
    });
}

#[test]
fn no_connection_is_lost_when_the_runtime_ends() {
    under_seeds(|seed| {
        let mut simulation = Simulation::new(seed, WORKERS);
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::clone(&connections);
        simulation.spawn(move || {
            let mut choices = Choices(seed * 7);
            for index in 0..30 {
                let connection = serve(Choices(seed + index));
                accepted.lock().unwrap().push(connection);
                if choices.below(3) == 0 {
                    dawdle(&mut choices);
                }
            }
        });
        simulation.step_some(100);
        simulation.shut_down();
        for connection in connections.lock().unwrap().drain(..) {
            assert!(connection.is_finished(), "its joiner would wait forever");
        }
    });
}

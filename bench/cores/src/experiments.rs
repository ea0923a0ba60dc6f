//! The runs of each workload, at each number of workers, without and with remedies.

use crate::loads::{Accepts, Injected, Light, Locks, PingPong, Saturated, Spawns, Tree};
use crate::machine::{Machine, Outcome};
use crate::memory::{Costs, Memory};
use crate::runtime::{Remedy, Runtime};
use crate::scheduler::{Load, Scheduler};

/// Numbers of workers.
pub(crate) const WORKERS: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// Virtual time of a run, in nanoseconds: some hundred operations of each worker.
pub(crate) const TIME_NS: u64 = 6_000_000;

/// The seed of each run.
pub(crate) const SEED: u64 = 42;

/// Factor by which a workload that scales gains at least if the workers double.
pub(crate) const SCALING_MIN: f64 = 1.4;

/// The scheduler as it is, before, and with remedies, with a name for the tables.
pub(crate) const REMEDIES: [(&str, Remedy); 4] = [
    ("as it is", AS_IT_IS),
    (
        "without a look at a deque before it is pinned",
        Remedy {
            pins_empty: true,
            ..AS_IT_IS
        },
    ),
    (
        "one `Idle` per 16 workers",
        Remedy {
            group: 16,
            ..AS_IT_IS
        },
    ),
    (
        "and a hint in place of scans",
        Remedy {
            group: 16,
            has_hint: true,
            ..AS_IT_IS
        },
    ),
];

const AS_IT_IS: Remedy = Remedy {
    pins_empty: false,
    group: 0,
    has_hint: false,
};

/// A workload.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// The operation that is counted.
    pub(crate) operation: &'static str,
    load: fn(&mut Memory, usize) -> Box<dyn Load>,
    /// Number of threads outside of the workers.
    outside: fn(usize) -> usize,
}

/// All workloads.
pub(crate) const ALL: [Experiment; 8] = [
    Experiment {
        name: "echo, light",
        operation: "messages",
        load: |_, workers| Box::new(Light::new(workers, SEED)),
        outside: |_| 0,
    },
    Experiment {
        name: "echo, saturated",
        operation: "messages",
        load: |_, _| Box::new(Saturated),
        outside: |_| 0,
    },
    Experiment {
        name: "fork and join",
        operation: "parts",
        load: |_, _| Box::new(Tree::default()),
        outside: |_| 0,
    },
    Experiment {
        name: "spawns from outside",
        operation: "fibers",
        load: |_, _| Box::new(Injected),
        outside: |workers| workers.div_ceil(2),
    },
    Experiment {
        name: "channel between workers",
        operation: "messages",
        load: |memory, workers| Box::new(PingPong::new(memory, workers)),
        outside: |_| 0,
    },
    Experiment {
        name: "spawn and join",
        operation: "fibers",
        load: |_, workers| Box::new(Spawns::new(workers)),
        outside: |_| 0,
    },
    Experiment {
        name: "accepted connections",
        operation: "connections",
        load: |_, _| Box::new(Accepts),
        outside: |_| 0,
    },
    Experiment {
        name: "contended locks",
        operation: "handovers",
        load: |memory, workers| Box::new(Locks::new(memory, workers)),
        outside: |_| 0,
    },
];

impl Experiment {
    /// Runs the workload on this number of workers for the virtual time `time`, in nanoseconds.
    pub(crate) fn run(&self, workers: usize, costs: Costs, remedy: Remedy, time: u64) -> Outcome {
        let mut memory = Memory::new(costs);
        let runtime = Runtime::new(&mut memory, workers, remedy);
        let load = (self.load)(&mut memory, workers);
        let mut scheduler = Scheduler::new(runtime, load, workers);
        let cores = workers + (self.outside)(workers);
        Machine::new(memory, cores).run(&mut scheduler, time)
    }

    /// Runs the workload on each number of workers.
    pub(crate) fn series(&self, costs: Costs, remedy: Remedy) -> Series {
        let outcomes = WORKERS.map(|workers| self.run(workers, costs, remedy, TIME_NS));
        Series { outcomes }
    }
}

/// Outcomes of a workload at each of [`WORKERS`].
pub(crate) struct Series {
    pub(crate) outcomes: [Outcome; WORKERS.len()],
}

impl Series {
    /// Returns the index of the first number of workers from which twice as many gain less than
    /// [`SCALING_MIN`].
    pub(crate) fn saturation(&self) -> Option<usize> {
        let pairs = self.outcomes.windows(2);
        pairs
            .into_iter()
            .position(|pair| pair[1].rate < SCALING_MIN * pair[0].rate)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::machine::{Next, Step, Workload};
    use crate::memory::{Kind, Line};

    const COSTS: Costs = Costs {
        load_ns: 100,
        rmw_ns: 100,
        owned_rmw_ns: 5,
    };
    const SHORT_NS: u64 = 400_000;

    #[test]
    fn a_run_depends_on_the_seed_alone() {
        for experiment in &ALL {
            let run = || experiment.run(8, COSTS, REMEDIES[0].1, SHORT_NS);
            assert_eq!(run(), run(), "{}", experiment.name);
        }
    }

    #[test]
    fn each_workload_makes_progress_with_each_remedy() {
        for experiment in &ALL {
            for (name, remedy) in REMEDIES {
                let outcome = experiment.run(32, COSTS, remedy, 2 * SHORT_NS);
                assert!(outcome.rate > 50_000.0, "{}, {name}", experiment.name);
            }
        }
    }

    #[test]
    fn a_worker_alone_waits_for_no_line() {
        for index in [0, 1, 2, 5] {
            let outcome = ALL[index].run(1, COSTS, REMEDIES[0].1, 20 * SHORT_NS);
            assert!(outcome.waiting < 1e-9, "{}: {outcome:?}", ALL[index].name);
        }
    }

    /// Cores that modify one line without pause.
    struct Counting(Line);

    impl Workload for Counting {
        fn next(&mut self, _: usize, _: u64, program: &mut VecDeque<Step>) -> Next {
            program.extend([Step::Access(self.0, Kind::Modify), Step::Done]);
            Next::Go
        }
    }

    #[test]
    fn a_line_that_all_modify_limits_the_machine() {
        for cores in [2, 16, 256] {
            let mut memory = Memory::new(COSTS);
            let line = memory.add("counter");
            let outcome = Machine::new(memory, cores).run(&mut Counting(line), SHORT_NS);
            assert!((outcome.rate / 1e7 - 1.0).abs() < 0.02, "{outcome:?}");
            assert_eq!(outcome.busiest, "counter");
            assert!(outcome.busy > 0.98, "{outcome:?}");
        }
    }
}

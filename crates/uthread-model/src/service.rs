//! The state of a simulated service: what it has, and the jobs that wait for it.

use std::collections::VecDeque;

use crate::dependency::Dependency;
use crate::mode::Mode;
use crate::scenario::Scenario;
use crate::values::nanos;

pub(crate) struct Service {
    /// Maximum number of jobs in progress: threads, or connections.
    pub(crate) slots: u64,
    pub(crate) in_progress: u64,
    /// Jobs that wait to be accepted.
    pub(crate) queue: VecDeque<usize>,
    pub(crate) queue_max: u64,
    pub(crate) shed_after: u64,
    /// CPU time of a job.
    pub(crate) work: u64,
    pub(crate) cpus_free: u64,
    /// Jobs that wait for a CPU.
    pub(crate) for_cpu: VecDeque<usize>,
    pub(crate) dependencies: Vec<Dependency>,
}

impl Service {
    /// Prepares the first request.
    ///
    /// # Errors
    ///
    /// The errors of reading a file of latencies.
    ///
    /// # Panics
    ///
    /// Panics if the scenario has no service of this mode.
    pub(crate) fn new(scenario: &Scenario, mode: Mode) -> anyhow::Result<Service> {
        let slots = match mode {
            Mode::Sync => scenario.sync.map(|sync| sync.threads),
            Mode::Async => scenario
                .fibers
                .map(|fibers| fibers.connections.unwrap_or(u64::MAX)),
        };
        let given = &scenario.service;
        let dependencies = scenario.dependencies.iter().map(Dependency::new);
        Ok(Service {
            slots: slots.expect("the scenario has a service of this mode"),
            in_progress: 0,
            queue: VecDeque::new(),
            queue_max: given.queue.unwrap_or(u64::MAX),
            shed_after: given.shed_after.map_or(u64::MAX, nanos),
            work: nanos(given.work),
            cpus_free: given.cpus.unwrap_or(1),
            for_cpu: VecDeque::new(),
            dependencies: dependencies.collect::<anyhow::Result<_>>()?,
        })
    }
}

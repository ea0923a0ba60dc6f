//! The state of the simulated services: what each has, and the jobs that wait for it.

use std::collections::VecDeque;

use crate::dependency::Dependency;
use crate::mode::Mode;
use crate::outcome::{Level, Tier};
use crate::scenario::{self, Parts};
use crate::series::{Gauge, Series};
use crate::times::Times;
use crate::values::nanos;

pub(crate) struct Service {
    /// Index of its levels.
    levels: usize,
    /// Maximum number of jobs in progress: threads, or connections.
    pub(crate) slots: u64,
    pub(crate) in_progress: u64,
    /// Jobs that wait to be accepted.
    pub(crate) queue: VecDeque<usize>,
    pub(crate) queue_max: u64,
    /// Time for which each job has the queue alone.
    pub(crate) queue_cost: u64,
    /// The time from which on no job has it.
    pub(crate) queue_free: u64,
    pub(crate) shed_after: u64,
    /// CPU time of a job.
    pub(crate) work: u64,
    pub(crate) cpus_free: u64,
    /// Jobs that wait for a CPU.
    pub(crate) for_cpu: VecDeque<usize>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// The levels of the servers of a tier together.
struct Levels {
    /// The names of the dependencies that lead to it; empty for the service that clients call.
    name: String,
    series: Series,
    in_progress: u64,
    waiting: u64,
    wasted: u64,
}

/// All tiers, and after them the service that clients call, whose levels are the first.
pub(crate) struct Services {
    pub(crate) all: Vec<Service>,
    levels: Vec<Levels>,
    mode: Mode,
}

impl Services {
    /// Prepares the first request.
    ///
    /// # Errors
    ///
    /// The errors of reading a file of latencies.
    pub(crate) fn new(parts: Parts<'_>, mode: Mode) -> anyhow::Result<Services> {
        let mut services = Services {
            all: Vec::new(),
            levels: Vec::new(),
            mode,
        };
        services.add(parts, "")?;
        Ok(services)
    }

    /// Adds the tiers below a service, and then itself; returns its index.
    fn add(&mut self, parts: Parts<'_>, name: &str) -> anyhow::Result<usize> {
        let levels = self.levels_of(name);
        let mut dependencies = Vec::new();
        for given in parts.dependencies {
            let separator = if name.is_empty() { "" } else { "/" };
            let name = format!("{name}{separator}{}", given.name);
            let add = |tier: &scenario::Tier| self.add(tier.parts(), &name);
            dependencies.push(Dependency::new(given, add)?);
        }
        let given = parts.service;
        self.all.push(Service {
            levels,
            slots: parts.slots(self.mode).unwrap_or(u64::MAX),
            in_progress: 0,
            queue: VecDeque::new(),
            queue_max: given.queue.unwrap_or(u64::MAX),
            queue_cost: nanos(parts.queue_cost(self.mode)),
            queue_free: 0,
            shed_after: given.shed_after.map_or(u64::MAX, nanos),
            work: nanos(given.work),
            cpus_free: given.cpus.unwrap_or(1),
            for_cpu: VecDeque::new(),
            dependencies,
        });
        Ok(self.all.len() - 1)
    }

    /// Returns the index of the levels with this name, which servers of a tier share.
    fn levels_of(&mut self, name: &str) -> usize {
        let known = self.levels.iter().position(|levels| levels.name == name);
        known.unwrap_or_else(|| {
            self.levels.push(Levels {
                name: name.to_owned(),
                series: Series::new(),
                in_progress: 0,
                waiting: 0,
                wasted: 0,
            });
            self.levels.len() - 1
        })
    }

    /// Returns the index of the service that clients call.
    pub(crate) fn root(&self) -> usize {
        self.all.len() - 1
    }

    /// Returns a dependency of a service.
    pub(crate) fn dependency(&mut self, service: usize, place: usize) -> &mut Dependency {
        &mut self.all[service].dependencies[place]
    }

    /// Adds to the number of jobs in progress.
    pub(crate) fn add_in_progress(&mut self, service: usize, now: u64, more: i64) {
        let service = &mut self.all[service];
        let levels = &mut self.levels[service.levels];
        for level in [&mut service.in_progress, &mut levels.in_progress] {
            *level = level.wrapping_add_signed(more);
        }
        let in_progress = levels.in_progress;
        levels.series.set(Gauge::InProgress, now, in_progress);
    }

    /// Adds a job to the queue.
    pub(crate) fn enqueue(&mut self, service: usize, now: u64, job: usize) {
        let service = &mut self.all[service];
        service.queue.push_back(job);
        let levels = &mut self.levels[service.levels];
        levels.waiting += 1;
        levels.series.set(Gauge::Waiting, now, levels.waiting);
    }

    /// Removes the job that has waited longest.
    pub(crate) fn dequeue(&mut self, service: usize, now: u64) -> Option<usize> {
        let service = &mut self.all[service];
        let job = service.queue.pop_front()?;
        let levels = &mut self.levels[service.levels];
        levels.waiting -= 1;
        levels.series.set(Gauge::Waiting, now, levels.waiting);
        Some(job)
    }

    /// Counts a response of a tier for which no caller waited any more.
    pub(crate) fn wasted(&mut self, service: usize) {
        let service = &self.all[service];
        self.levels[service.levels].wasted += 1;
    }

    /// Returns the counts over time of the service that clients call.
    pub(crate) fn series(&mut self) -> &mut Series {
        &mut self.levels[0].series
    }

    /// Returns the times of a service without waiting and outside of spikes.
    pub(crate) fn times(&self, service: usize) -> Times {
        let service = &self.all[service];
        let calls = service.dependencies.iter();
        let calls = calls.map(|dependency| dependency.times(|tier| self.times(tier)));
        Times::new(service.work as f64 / 1e9, calls.collect())
    }

    /// Ends all levels. Returns the counts of the service that clients call, and the tiers below.
    pub(crate) fn end(self, now: u64) -> (Series, Vec<Tier>) {
        let mut levels = self.levels.into_iter();
        let mut root = levels.next().expect("there is a service").series;
        root.end(now);
        let tier = |mut levels: Levels| {
            // It may work on when no client waits any more.
            let end = now.max(levels.series.changed());
            levels.series.end(end);
            Tier {
                in_progress: Level::of(&levels.series, Gauge::InProgress, end),
                waiting: Level::of(&levels.series, Gauge::Waiting, end),
                wasted: levels.wasted,
                name: levels.name,
            }
        };
        (root, levels.map(tier).collect())
    }
}

//! What a [`Watch`](crate::Watch) sees of a process.

use std::time::Duration;

use serde::Serialize;

use crate::model::State;
use crate::report::in_ms;

/// A process at one time, and what it has done since the sample before.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The id of the process.
    pub pid: i32,
    /// The time since the sample before, or since the watch began, in seconds.
    pub seconds: f64,
    /// Number of CPUs that the process has used in that time, on average.
    pub cpus: f64,
    /// Number of looks in that time, from which the shares of time are.
    pub looks: u32,
    /// The workers, runtime by runtime.
    pub workers: Vec<Worker>,
    /// The started fibers of all workers.
    pub fibers: States,
    /// The places where fibers were spawned, the one with the most fibers first.
    pub sites: Vec<Site>,
    /// Number of fibers whose memory made no sense, mostly as they were starting or ending. They
    /// are missing.
    pub dropped: usize,
    /// Why other fibers are missing, if some are.
    pub problems: Vec<String>,
}

/// A worker.
#[derive(Debug, Clone, Serialize)]
pub struct Worker {
    /// The number of its runtime, from 0 on.
    pub runtime: usize,
    /// Its index in the runtime.
    pub index: u64,
    /// What it does.
    pub activity: Activity,
    /// The id of the fiber that it runs, if it runs one.
    pub running: Option<u64>,
    /// Where that fiber was spawned.
    pub spawned_at: Option<String>,
    /// The share of time in which it ran fibers, from 0 to 1. One that a fiber blocks runs it.
    pub busy: f64,
    /// The share of time in which it slept, from 0 to 1.
    pub idle: f64,
    /// The fibers that it has started. The number of operations in flight is that of fibers that
    /// wait for one.
    pub fibers: States,
    /// What it has counted since it started.
    pub total: Counts<u64>,
    /// How the counts have grown, per second.
    pub per_second: Counts<f64>,
}

/// What a worker does; see [`Worker::activity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// It runs a fiber.
    Running,
    /// It looks for work, or enters the kernel.
    Awake,
    /// It sleeps until there is work.
    Asleep,
}

/// The fibers that were spawned at one place.
#[derive(Debug, Clone, Serialize)]
pub struct Site {
    /// The file, the line and the column.
    pub spawned_at: String,
    /// Number of fibers that ran, on average: by a worker, or on a thread that they keep, as their
    /// worker was taken from them. It also counts fibers that have ended.
    pub busy: f64,
    /// The fibers.
    pub fibers: States,
    /// The least time for which the one that waits for longest has been suspended, as
    /// [`Member::suspended_for`](crate::Member::suspended_for) has it; in JSON as `longest_wait_ms`,
    /// in milliseconds. `None` if none waits, or they may have run until just now.
    #[serde(rename = "longest_wait_ms", serialize_with = "in_ms")]
    pub longest_wait: Option<Duration>,
}

/// Numbers of fibers by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct States {
    /// They run.
    pub running: usize,
    /// They wait for their turn.
    pub ready: usize,
    /// They wait for another fiber, a thread or a time.
    pub parked: usize,
    /// They wait for an operation of the kernel.
    pub operation: usize,
    /// They have not begun, and have a stack.
    pub new: usize,
    /// They never run again: their runtime was dropped.
    pub abandoned: usize,
}

/// The counters of a worker; those of `WorkerMetrics` in `uthread::runtime` have the same names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts<N> {
    /// Fibers started.
    pub fibers: N,
    /// Fibers ended.
    pub ended: N,
    /// Switches to a fiber.
    pub switches: N,
    /// Times that it stole new fibers from another worker.
    pub steals: N,
    /// Times that it took new fibers that were spawned outside of the workers.
    pub injected: N,
    /// System calls of the driver.
    pub enters: N,
    /// Operations submitted to the kernel.
    pub submissions: N,
    /// Operations whose results it collected.
    pub completions: N,
    /// Times that a fiber kept it from others for long.
    pub stalls: N,
    /// Sleeps.
    pub sleeps: N,
    /// Nanoseconds of the sleeps that have ended.
    pub idle_ns: N,
}

impl States {
    /// Returns the number of all of them.
    #[must_use]
    pub fn sum(&self) -> usize {
        let waiting = self.parked + self.operation + self.abandoned;
        self.running + self.ready + self.new + waiting
    }

    pub(crate) fn add(&mut self, other: States) {
        self.running += other.running;
        self.ready += other.ready;
        self.parked += other.parked;
        self.operation += other.operation;
        self.new += other.new;
        self.abandoned += other.abandoned;
    }

    /// Counts a fiber. Returns `None` if its state makes no sense.
    pub(crate) fn count(&mut self, state: State) -> Option<()> {
        let number = match state {
            State::Running { .. } => &mut self.running,
            // It waits for its worker, too.
            State::Ready | State::Alone => &mut self.ready,
            State::Parked => &mut self.parked,
            State::Operation => &mut self.operation,
            State::New => &mut self.new,
            State::Abandoned => &mut self.abandoned,
            // Only a dump tells these apart from others.
            State::Unknown | State::Dedicated | State::Moving => return None,
        };
        *number += 1;
        Some(())
    }
}

impl<N: Copy> Counts<N> {
    /// Applies a function to the counts of two moments.
    pub(crate) fn zip<R>(self, other: Counts<N>, apply: impl Fn(N, N) -> R) -> Counts<R> {
        Counts {
            fibers: apply(self.fibers, other.fibers),
            ended: apply(self.ended, other.ended),
            switches: apply(self.switches, other.switches),
            steals: apply(self.steals, other.steals),
            injected: apply(self.injected, other.injected),
            enters: apply(self.enters, other.enters),
            submissions: apply(self.submissions, other.submissions),
            completions: apply(self.completions, other.completions),
            stalls: apply(self.stalls, other.stalls),
            sleeps: apply(self.sleeps, other.sleeps),
            idle_ns: apply(self.idle_ns, other.idle_ns),
        }
    }
}

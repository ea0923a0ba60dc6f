//! The loop of a worker, on the lines of a simulated runtime: `tick` of sched/worker/mod.rs, with
//! its batches.

use std::collections::VecDeque;

use crate::machine::{Next, Step, Workload};
use crate::runtime::{Calls, Runtime};

/// `BATCH_FIBERS` of worker/batch.rs.
const BATCH_FIBERS: u64 = 64;

/// `NEW_FIBER_TURN` of worker/queues/pick.rs.
const NEW_FIBER_TURN: u64 = 4;

/// Mail with a new fiber that was handed to a worker. Any other mail is a ready fiber.
pub(crate) const NEW: u64 = u64::MAX;

/// The fibers of a workload. A fiber is a number.
pub(crate) trait Load {
    /// Appends the fibers that completions and timers have made ready until `now`.
    fn poll(&mut self, _core: usize, _now: u64, _ready: &mut VecDeque<u64>) {}

    /// Returns when the next completion ends a sleep.
    fn next_event(&self, _core: usize) -> Option<u64> {
        None
    }

    /// Returns the time for which a fiber works in its next turn, in nanoseconds.
    fn work_ns(&self, fiber: u64) -> u64;

    /// Makes the calls of a fiber after that work, at the end of its turn. Appends what is ready
    /// afterwards on this worker.
    fn run(&mut self, calls: &mut Calls<'_>, core: usize, fiber: u64, ready: &mut VecDeque<u64>);

    /// Does one turn of a thread outside of the workers.
    fn run_outside(&mut self, _calls: &mut Calls<'_>) {}
}

#[derive(Default)]
struct Worker {
    ready: VecDeque<u64>,
    /// Number of fibers that it has run.
    switches: u64,
    /// Number of fibers until the next look at the driver and the inbox.
    left: u64,
    has_announced: bool,
    running: Option<u64>,
}

/// The workers of a runtime with a load.
pub(crate) struct Scheduler {
    runtime: Runtime,
    load: Box<dyn Load>,
    workers: Vec<Worker>,
}

impl Scheduler {
    pub(crate) fn new(runtime: Runtime, load: Box<dyn Load>, workers: usize) -> Scheduler {
        Scheduler {
            runtime,
            load,
            workers: (0..workers).map(|_| Worker::default()).collect(),
        }
    }
}

impl Workload for Scheduler {
    fn next(&mut self, core: usize, now: u64, program: &mut VecDeque<Step>) -> Next {
        let mut calls = self.runtime.on(core, program);
        let Some(worker) = self.workers.get_mut(core) else {
            self.load.run_outside(&mut calls);
            return Next::Go;
        };
        let load = &mut *self.load;
        if let Some(fiber) = worker.running.take() {
            load.run(&mut calls, core, fiber, &mut worker.ready);
            return Next::Go;
        }
        if std::mem::take(&mut worker.has_announced) {
            calls.wake_up();
        }
        let is_over = worker.left == 0 || worker.ready.is_empty() && !calls.has_new();
        if is_over {
            calls.look_around(!worker.ready.is_empty());
            for mail in calls.take_mail() {
                if mail == NEW {
                    calls.count_handed_taken();
                }
                worker.ready.push_back(mail);
            }
            load.poll(core, now, &mut worker.ready);
            worker.left = BATCH_FIBERS;
        }
        if worker.ready.is_empty() && !calls.has_new() {
            worker.left = 0;
            if let Some(fiber) = calls.search() {
                calls.work(load.work_ns(fiber));
                worker.running = Some(fiber);
                return Next::Go;
            }
            worker.has_announced = true;
            let sleeps = calls.announce_sleep();
            return if sleeps {
                Next::Sleep(load.next_event(core))
            } else {
                Next::Go
            };
        }
        calls.end_search();
        worker.left -= 1;
        worker.switches += 1;
        let is_turn_of_new = worker.switches.is_multiple_of(NEW_FIBER_TURN) && calls.has_new();
        let ready = if is_turn_of_new {
            None
        } else {
            worker.ready.pop_front()
        };
        worker.running = ready.or_else(|| calls.pop_newest());
        calls.work(worker.running.map_or(0, |fiber| load.work_ns(fiber)));
        Next::Go
    }
}

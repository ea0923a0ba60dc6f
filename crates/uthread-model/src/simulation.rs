//! The simulation: requests arrive, wait, call dependencies and end, in virtual time.
//!
//! Requests of clients and jobs of the service are separate: a client that gives up leaves its job
//! behind, and may send the request again.

use std::collections::VecDeque;

use anyhow::ensure;
use fastrand::Rng;
use slab::Slab;
use uthread_resilience::{Budget, Retry};

use crate::arrivals::Source;
use crate::dependency::{Call, Dependency};
use crate::events::Events;
use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::{Client, Scenario};
use crate::series::{Gauge, Series};
use crate::tally::{Failure, Tally};
use crate::values::nanos;

/// A hundred years in nanoseconds, after which a simulation ends: 64 bits have room for a further
/// event, and nobody waits longer.
const TIME_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;
/// Maximum time between two attempts, a year: no sum of times exceeds 64 bits.
const BACKOFF_MAX: u64 = TIME_MAX / 100;

/// Simulates a scenario in this mode.
///
/// # Errors
///
/// The errors of reading a file of the scenario, and a simulated time of more than a hundred years.
///
/// # Panics
///
/// Panics if the scenario has no service of this mode.
///
/// ```
/// use uthread_model::{Mode, Scenario, simulate};
///
/// let scenario = Scenario::parse(
///     r#"
///     requests = 10_000
///     arrivals = { kind = "leaky-bucket", rate = 1000 }
///     dependencies = [{ latency = "60ms*10" }]
///     sync = { threads = 50 }
///     "#,
/// )?;
/// let outcome = simulate(&scenario, Mode::Sync)?;
/// // 50 threads that are busy for 60 ms each, from the first arrival on.
/// assert_eq!(outcome.rate.round(), 830.0);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn simulate(scenario: &Scenario, mode: Mode) -> anyhow::Result<Outcome> {
    let mut simulation = Simulation::new(scenario, mode)?;
    simulation.run()?;
    Ok(simulation.outcome(scenario, mode))
}

/// Returns the nanoseconds that a client waits before it tries a request again that it has retried
/// so often.
pub(crate) fn backoff(client: &Client, retries: u64, rng: &mut Rng) -> u64 {
    let retry = Retry::new(client.retries).backoff(client.backoff);
    nanos(retry.pause(retries, rng.f64())).min(BACKOFF_MAX)
}

/// Returns the budget of all clients, which saves what they do not use.
pub(crate) fn budget(client: &Client) -> Option<Budget> {
    let share = client.budget?;
    Some(Budget::new(share).save(f64::INFINITY))
}

/// A request of a client until it has its response, or has failed.
struct Request {
    arrived: u64,
    retries: u64,
    /// Number of the attempt's job, which may have ended; no job has the number 0.
    job: u64,
}

/// A request in the service.
struct Job {
    request: usize,
    /// Number among all jobs.
    number: u64,
    arrived: u64,
    accepted: u64,
    /// Number of calls that have succeeded.
    called: usize,
}

#[derive(Clone, Copy)]
enum Event {
    /// A job has done its own work.
    Worked(usize),
    /// A call of a job has ended.
    Called {
        job: usize,
        fails: bool,
    },
    /// The client of a request waits no longer for this job.
    GaveUp {
        request: usize,
        job: u64,
    },
    Retry(usize),
}

struct Simulation {
    now: u64,
    source: Source,
    /// Number of requests that have not arrived.
    left: u64,
    next_arrival: Option<u64>,
    events: Events<Event>,
    rng: Rng,
    requests: Slab<Request>,
    jobs: Slab<Job>,
    jobs_count: u64,

    /// Maximum number of jobs in progress: threads, or connections.
    slots: u64,
    in_progress: u64,
    /// Jobs that wait to be accepted.
    queue: VecDeque<usize>,
    queue_max: u64,
    shed_after: u64,
    /// CPU time of a job.
    work: u64,
    cpus_free: u64,
    /// Jobs that wait for a CPU.
    for_cpu: VecDeque<usize>,
    dependencies: Vec<Dependency>,
    client: Client,
    budget: Option<Budget>,

    tally: Tally,
    series: Series,
}

impl Simulation {
    fn new(scenario: &Scenario, mode: Mode) -> anyhow::Result<Simulation> {
        let service = &scenario.service;
        let slots = match mode {
            Mode::Sync => scenario.sync.map(|sync| sync.threads),
            Mode::Async => scenario
                .fibers
                .map(|fibers| fibers.connections.unwrap_or(u64::MAX)),
        };
        let dependencies = scenario.dependencies.iter().map(Dependency::new);
        let mut source = Source::new(&scenario.arrivals, scenario.seed)?;
        Ok(Simulation {
            now: 0,
            next_arrival: source.next()?,
            source,
            left: scenario.requests,
            events: Events::new(),
            // Apart from that of arrivals, which are the same for both services.
            rng: Rng::with_seed(scenario.seed.wrapping_add(1)),
            requests: Slab::new(),
            jobs: Slab::new(),
            jobs_count: 0,
            slots: slots.expect("the scenario has a service of this mode"),
            in_progress: 0,
            queue: VecDeque::new(),
            queue_max: service.queue.unwrap_or(u64::MAX),
            shed_after: service.shed_after.map_or(u64::MAX, nanos),
            work: nanos(service.work),
            cpus_free: service.cpus.unwrap_or(1),
            for_cpu: VecDeque::new(),
            dependencies: dependencies.collect::<anyhow::Result<_>>()?,
            client: scenario.client.clone(),
            budget: budget(&scenario.client),
            tally: Tally::new(),
            series: Series::new(),
        })
    }

    fn run(&mut self) -> anyhow::Result<()> {
        loop {
            ensure!(
                self.now <= TIME_MAX,
                "the requests take more than a hundred years: simulate fewer, or a higher rate"
            );
            let arrival = self.next_arrival.filter(|_| self.left > 0);
            match (arrival, self.events.next_at()) {
                (None, None) => return Ok(()),
                // An event at the same time may make room for the request.
                (Some(at), event) if event.is_none_or(|event| at < event) => {
                    self.now = at;
                    self.left -= 1;
                    self.next_arrival = self.source.next()?;
                    self.arrive();
                }
                _ => {
                    let (at, event) = self.events.take().expect("there is an event");
                    self.now = at;
                    self.handle(event);
                    self.accept_waiting();
                }
            }
        }
    }

    fn arrive(&mut self) {
        self.series.at(self.now).arrived += 1;
        self.tally.arrived(self.now);
        if let Some(budget) = &self.budget {
            budget.add();
        }
        let request = self.requests.insert(Request {
            arrived: self.now,
            retries: 0,
            job: 0,
        });
        self.attempt(request);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Worked(job) => {
                match self.for_cpu.pop_front() {
                    Some(next) => self.events.add(self.now + self.work, Event::Worked(next)),
                    None => self.cpus_free += 1,
                }
                self.call_next(job);
            }
            Event::Called { job, fails } => self.end_call(job, fails),
            Event::GaveUp { request, job } => {
                let is_current = |request: &Request| request.job == job;
                if self.requests.get(request).is_some_and(is_current) {
                    self.fail(request, Failure::Timeout);
                }
            }
            Event::Retry(request) => self.attempt(request),
        }
    }

    /// Sends a request to the service.
    fn attempt(&mut self, request: usize) {
        self.jobs_count += 1;
        let number = self.jobs_count;
        self.requests[request].job = number;
        self.tally.attempts += 1;
        let is_accepted = self.in_progress < self.slots;
        if !is_accepted && self.queue.len() as u64 >= self.queue_max {
            return self.fail(request, Failure::Refused);
        }
        if let Some(timeout) = self.client.timeout {
            let job = number;
            let event = Event::GaveUp { request, job };
            self.events.add(self.now + nanos(timeout), event);
        }
        let job = self.jobs.insert(Job {
            request,
            number,
            arrived: self.now,
            accepted: 0,
            called: 0,
        });
        if is_accepted {
            self.accept(job);
        } else {
            self.queue.push_back(job);
            self.waiting_changed();
        }
    }

    fn accept(&mut self, job: usize) {
        self.jobs[job].accepted = self.now;
        self.tally.accepted += 1;
        self.in_progress += 1;
        self.in_progress_changed();
        if self.work == 0 {
            self.call_next(job);
        } else if self.cpus_free > 0 {
            self.cpus_free -= 1;
            self.events.add(self.now + self.work, Event::Worked(job));
        } else {
            self.for_cpu.push_back(job);
        }
    }

    /// Calls the next dependency of a job, or ends it after the last one.
    fn call_next(&mut self, job: usize) {
        let called = self.jobs[job].called;
        let Some(dependency) = self.dependencies.get_mut(called) else {
            return self.end(job, Ok(()));
        };
        match dependency.call(job, self.now, &mut self.rng) {
            Call::Ends { at, fails } => self.events.add(at, Event::Called { job, fails }),
            Call::Refused => self.end(job, Err(Failure::Breaker)),
            Call::Fails => self.end(job, Err(Failure::Call)),
            Call::Waits => {}
        }
    }

    fn end_call(&mut self, job: usize, fails: bool) {
        let called = self.jobs[job].called;
        self.dependencies[called].end(job, self.now, fails);
        while let Some(waiting) = self.dependencies[called].take_waiting() {
            self.call_next(waiting);
        }
        if fails {
            self.end(job, Err(Failure::Call));
        } else {
            self.jobs[job].called += 1;
            self.call_next(job);
        }
    }

    /// Ends a job.
    fn end(&mut self, job: usize, result: Result<(), Failure>) {
        let job = self.jobs.remove(job);
        self.tally.ended(self.now, self.now - job.accepted);
        self.in_progress -= 1;
        self.in_progress_changed();
        self.respond(&job, result);
    }

    /// Accepts the jobs that have waited longest.
    fn accept_waiting(&mut self) {
        while self.in_progress < self.slots
            && let Some(next) = self.queue.pop_front()
        {
            self.waiting_changed();
            if self.now - self.jobs[next].arrived > self.shed_after {
                let shed = self.jobs.remove(next);
                self.respond(&shed, Err(Failure::Shed));
            } else {
                self.accept(next);
            }
        }
    }

    /// Gives the result of a job to its client, unless the client has given up.
    fn respond(&mut self, job: &Job, result: Result<(), Failure>) {
        let request = self.requests.get(job.request);
        let Some(request) = request.filter(|request| request.job == job.number) else {
            self.tally.wasted += 1;
            return;
        };
        match result {
            Ok(()) => {
                let latency = self.now - request.arrived;
                let waited = job.accepted - job.arrived;
                self.requests.remove(job.request);
                self.tally.succeeded(self.now, latency, waited);
                self.series.at(self.now).succeeded += 1;
            }
            Err(failure) => self.fail(job.request, failure),
        }
    }

    /// Ends an attempt of a request without success: there may be another one.
    fn fail(&mut self, number: usize, failure: Failure) {
        let request = &mut self.requests[number];
        if request.retries < self.client.retries && self.budget.as_ref().is_none_or(Budget::take) {
            let backoff = backoff(&self.client, request.retries, &mut self.rng);
            request.retries += 1;
            request.job = 0;
            self.events.add(self.now + backoff, Event::Retry(number));
        } else {
            self.requests.remove(number);
            self.tally.failed(self.now, failure);
            self.series.at(self.now).failed += 1;
        }
    }

    fn in_progress_changed(&mut self) {
        let in_progress = self.in_progress;
        self.series.set(Gauge::InProgress, self.now, in_progress);
    }

    fn waiting_changed(&mut self) {
        let waiting = self.queue.len() as u64;
        self.series.set(Gauge::Waiting, self.now, waiting);
    }

    fn outcome(mut self, scenario: &Scenario, mode: Mode) -> Outcome {
        self.series.end(self.tally.end());
        let calls = self.dependencies.iter().map(Dependency::mean_seconds);
        let calls = Vec::from_iter(calls);
        self.tally.outcome(scenario, mode, self.series, &calls)
    }
}

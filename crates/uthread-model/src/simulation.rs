//! The simulation: requests arrive, wait, call dependencies and end, in virtual time.
//!
//! Requests of clients and jobs of the service are separate: a client that gives up leaves its job
//! behind, and may send the request again.

use anyhow::ensure;
use fastrand::Rng;
use slab::Slab;
use uthread_resilience::{Budget, Retry};

use crate::arrivals::Source;
use crate::dependency::{Began, Dependency, Waiting};
use crate::events::Events;
use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::{Client, Scenario};
use crate::series::{Gauge, Series};
use crate::service::Service;
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
    client: u64,
    arrived: u64,
    retries: u64,
    /// Number of the attempt's job, which may have ended; no job has the number 0.
    job: u64,
}

/// A request in the service.
struct Job {
    request: usize,
    client: u64,
    /// Number among all jobs.
    number: u64,
    arrived: u64,
    accepted: u64,
    /// Number of dependencies whose calls have succeeded.
    called: usize,
    /// Calls of the next one: a second one if it is hedged.
    calls: [Option<usize>; 2],
}

/// A call that a job waits for.
struct Call {
    job: usize,
    /// Number among all calls.
    number: u64,
    /// `None` while it waits for its turn.
    server: Option<usize>,
}

#[derive(Clone, Copy)]
enum Event {
    /// A job has done its own work.
    Worked(usize),
    /// The call with this number has ended, unless it was cancelled.
    Called {
        call: usize,
        number: u64,
        fails: bool,
    },
    /// A job calls the dependency once more, if it still waits for the first call.
    Hedge {
        job: usize,
        number: u64,
        called: usize,
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
    calls: Slab<Call>,
    calls_count: u64,

    service: Service,
    client: Client,
    budget: Option<Budget>,

    tally: Tally,
    series: Series,
}

impl Simulation {
    fn new(scenario: &Scenario, mode: Mode) -> anyhow::Result<Simulation> {
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
            calls: Slab::new(),
            calls_count: 0,
            service: Service::new(scenario, mode)?,
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
        let client = match self.client.count {
            1 => 0,
            count => self.rng.u64(..count),
        };
        let request = self.requests.insert(Request {
            client,
            arrived: self.now,
            retries: 0,
            job: 0,
        });
        self.attempt(request);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Worked(job) => {
                match self.service.for_cpu.pop_front() {
                    Some(next) => self
                        .events
                        .add(self.now + self.service.work, Event::Worked(next)),
                    None => self.service.cpus_free += 1,
                }
                self.call_next(job);
            }
            Event::Called {
                call,
                number,
                fails,
            } => self.end_call(call, number, fails),
            Event::Hedge {
                job,
                number,
                called,
            } => self.hedge(job, number, called),
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
        let client = self.requests[request].client;
        self.tally.attempts += 1;
        let is_accepted = self.service.in_progress < self.service.slots;
        if !is_accepted && self.service.queue.len() as u64 >= self.service.queue_max {
            return self.fail(request, Failure::Refused);
        }
        if let Some(timeout) = self.client.timeout {
            let job = number;
            let event = Event::GaveUp { request, job };
            self.events.add(self.now + nanos(timeout), event);
        }
        let job = self.jobs.insert(Job {
            request,
            client,
            number,
            arrived: self.now,
            accepted: 0,
            called: 0,
            calls: [None; 2],
        });
        if is_accepted {
            self.accept(job);
        } else {
            self.service.queue.push_back(job);
            self.waiting_changed();
        }
    }

    fn accept(&mut self, job: usize) {
        self.jobs[job].accepted = self.now;
        self.tally.accepted += 1;
        self.service.in_progress += 1;
        self.in_progress_changed();
        if self.service.work == 0 {
            self.call_next(job);
        } else if self.service.cpus_free > 0 {
            self.service.cpus_free -= 1;
            self.events
                .add(self.now + self.service.work, Event::Worked(job));
        } else {
            self.service.for_cpu.push_back(job);
        }
    }

    /// Calls the next dependency of a job, or ends it after the last one.
    fn call_next(&mut self, job: usize) {
        let Job { called, number, .. } = self.jobs[job];
        let Some(dependency) = self.service.dependencies.get(called) else {
            return self.end(job, Ok(()));
        };
        if let Some(after) = dependency.hedge_after() {
            let event = Event::Hedge {
                job,
                number,
                called,
            };
            self.events.add(self.now + after, event);
        }
        self.call(job, 0);
    }

    /// Makes the second call of a job that still waits for the first one.
    fn hedge(&mut self, job: usize, number: u64, called: usize) {
        let is_waiting = |job: &Job| job.number == number && job.called == called;
        if self.jobs.get(job).is_some_and(is_waiting)
            && self.service.dependencies[called].take_hedge()
        {
            self.tally.hedged += 1;
            self.call(job, 1);
        }
    }

    /// Calls the next dependency of a job, for the first or the second time.
    fn call(&mut self, job: usize, place: usize) {
        self.calls_count += 1;
        let call = self.calls.insert(Call {
            job,
            number: self.calls_count,
            server: None,
        });
        self.jobs[job].calls[place] = Some(call);
        self.begin_call(call);
    }

    fn begin_call(&mut self, call: usize) {
        let Call { job, number, .. } = self.calls[call];
        let Job { called, client, .. } = self.jobs[job];
        let waiting = Waiting { call, number };
        match self.service.dependencies[called].begin(waiting, client, self.now, &mut self.rng) {
            Began::Runs { server, drawn } => {
                self.calls[call].server = Some(server);
                let fails = drawn.fails;
                let event = Event::Called {
                    call,
                    number,
                    fails,
                };
                self.events.add(self.now + drawn.latency, event);
            }
            Began::Refused => self.fail_call(call, Failure::Breaker),
            Began::Fails => self.fail_call(call, Failure::Call),
            Began::Waits => {}
        }
    }

    /// Ends a call that a server has answered, or not in time.
    fn end_call(&mut self, call: usize, number: u64, fails: bool) {
        let is_current = |call: &Call| call.number == number;
        if !self.calls.get(call).is_some_and(is_current) {
            return;
        }
        let job = self.calls[call].job;
        let called = self.jobs[job].called;
        let mut calls = [Some(call), None];
        if !fails {
            // The other one is cancelled.
            calls = std::mem::take(&mut self.jobs[job].calls);
        }
        for ended in calls.into_iter().flatten() {
            let Call { server, number, .. } = self.calls[ended];
            if let Some(server) = server {
                let result = (ended == call).then_some(fails);
                self.service.dependencies[called].end(server, number, self.now, result);
            }
            if !fails {
                self.calls.remove(ended);
            }
        }
        while let Some(Waiting { call, number }) = self.service.dependencies[called].take_waiting()
        {
            if self
                .calls
                .get(call)
                .is_some_and(|call| call.number == number)
            {
                self.begin_call(call);
            }
        }
        if fails {
            self.fail_call(call, Failure::Call);
        } else {
            self.jobs[job].called += 1;
            self.call_next(job);
        }
    }

    /// Removes a call without success: the job waits for the other one, if there is one.
    fn fail_call(&mut self, call: usize, failure: Failure) {
        let job = self.calls.remove(call).job;
        let calls = &mut self.jobs[job].calls;
        for place in calls.iter_mut().filter(|place| **place == Some(call)) {
            *place = None;
        }
        if *calls == [None; 2] {
            self.end(job, Err(failure));
        }
    }

    /// Ends a job.
    fn end(&mut self, job: usize, result: Result<(), Failure>) {
        let job = self.jobs.remove(job);
        self.tally.ended(self.now, self.now - job.accepted);
        self.service.in_progress -= 1;
        self.in_progress_changed();
        self.respond(&job, result);
    }

    /// Accepts the jobs that have waited longest.
    fn accept_waiting(&mut self) {
        while self.service.in_progress < self.service.slots
            && let Some(next) = self.service.queue.pop_front()
        {
            self.waiting_changed();
            if self.now - self.jobs[next].arrived > self.service.shed_after {
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
            let request = self.requests.remove(number);
            self.tally.failed(self.now, request.client, failure);
            self.series.at(self.now).failed += 1;
        }
    }

    fn in_progress_changed(&mut self) {
        let in_progress = self.service.in_progress;
        self.series.set(Gauge::InProgress, self.now, in_progress);
    }

    fn waiting_changed(&mut self) {
        let waiting = self.service.queue.len() as u64;
        self.series.set(Gauge::Waiting, self.now, waiting);
    }

    fn outcome(mut self, scenario: &Scenario, mode: Mode) -> Outcome {
        self.series.end(self.tally.end());
        let calls = self
            .service
            .dependencies
            .iter()
            .map(Dependency::mean_seconds);
        let calls = calls.collect();
        self.tally.outcome(scenario, mode, self.series, calls)
    }
}

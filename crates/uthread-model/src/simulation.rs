//! The simulation in virtual time: clients send requests, wait for answers, give up and try again.
//!
//! Requests of clients and jobs of services are separate: a client that gives up leaves its job
//! behind, and may send the request again.

use anyhow::ensure;
use fastrand::Rng;
use slab::Slab;
use uthread_resilience::{Budget, Retry};

use crate::arrivals::Source;
use crate::chain::{Answer, Caller, Chain};
use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::{Client, Scenario};
use crate::tally::Failure;
use crate::values::nanos;
use crate::world::{Event, World};

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
    /// Number of the attempt that it waits for; 0 while it waits to be tried again.
    attempt: u64,
}

struct Simulation {
    world: World,
    source: Source,
    /// Number of requests that have not arrived.
    left: u64,
    next_arrival: Option<u64>,
    requests: Slab<Request>,
    client: Client,
    budget: Option<Budget>,
    chain: Chain,
}

impl Simulation {
    fn new(scenario: &Scenario, mode: Mode) -> anyhow::Result<Simulation> {
        assert!(
            scenario.has(mode),
            "the scenario has no service of this mode"
        );
        let mut source = Source::new(&scenario.arrivals, scenario.seed)?;
        Ok(Simulation {
            world: World::new(scenario.seed),
            next_arrival: source.next()?,
            source,
            left: scenario.requests,
            requests: Slab::new(),
            client: scenario.client.clone(),
            budget: budget(&scenario.client),
            chain: Chain::new(scenario.parts(), mode)?,
        })
    }

    fn run(&mut self) -> anyhow::Result<()> {
        loop {
            ensure!(
                self.world.now <= TIME_MAX,
                "the requests take more than a hundred years: simulate fewer, or a higher rate"
            );
            let arrival = self.next_arrival.filter(|_| self.left > 0);
            match (arrival, self.world.events.next_at()) {
                (None, None) => return Ok(()),
                // An event at the same time may make room for the request.
                (Some(at), event) if event.is_none_or(|event| at < event) => {
                    self.world.now = at;
                    self.left -= 1;
                    self.next_arrival = self.source.next()?;
                    self.arrive();
                }
                _ => {
                    let (at, event) = self.world.events.take().expect("there is an event");
                    self.world.now = at;
                    self.handle(event);
                }
            }
            while let Some(answer) = self.chain.take_answer() {
                self.receive(&answer);
            }
        }
    }

    fn arrive(&mut self) {
        let now = self.world.now;
        self.chain.series().at(now).arrived += 1;
        self.world.tally.arrived(now);
        if let Some(budget) = &self.budget {
            budget.add();
        }
        let client = match self.client.count {
            1 => 0,
            count => self.world.rng.u64(..count),
        };
        let request = self.requests.insert(Request {
            client,
            arrived: now,
            retries: 0,
            attempt: 0,
        });
        self.attempt(request);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::GaveUp { request, attempt } => {
                if self.waits_for(request, attempt) {
                    self.fail(request, Failure::Timeout);
                }
            }
            Event::Retry(request) => self.attempt(request),
            event => self.chain.handle(&mut self.world, event),
        }
    }

    /// Sends a request to the service.
    fn attempt(&mut self, request: usize) {
        self.world.tally.attempts += 1;
        let attempt = self.world.tally.attempts;
        self.requests[request].attempt = attempt;
        if let Some(timeout) = self.client.timeout {
            let event = Event::GaveUp { request, attempt };
            self.world.add_after(nanos(timeout), event);
        }
        let client = self.requests[request].client;
        let caller = Caller::Client { request, attempt };
        self.chain.submit(&mut self.world, client, caller);
    }

    fn waits_for(&self, request: usize, attempt: u64) -> bool {
        let request = self.requests.get(request);
        request.is_some_and(|request| request.attempt == attempt)
    }

    /// Gives an answer to its client, unless the client has given up.
    fn receive(&mut self, answer: &Answer) {
        let now = self.world.now;
        match answer.result {
            _ if !self.waits_for(answer.request, answer.attempt) => self.world.tally.wasted += 1,
            Ok(waited) => {
                let request = self.requests.remove(answer.request);
                let latency = now - request.arrived;
                self.world.tally.succeeded(now, latency, waited);
                self.chain.series().at(now).succeeded += 1;
            }
            Err(failure) => self.fail(answer.request, failure),
        }
    }

    /// Ends an attempt of a request without success: there may be another one.
    fn fail(&mut self, number: usize, failure: Failure) {
        let request = &mut self.requests[number];
        if request.retries < self.client.retries && self.budget.as_ref().is_none_or(Budget::take) {
            let backoff = backoff(&self.client, request.retries, &mut self.world.rng);
            request.retries += 1;
            request.attempt = 0;
            self.world.add_after(backoff, Event::Retry(number));
        } else {
            let request = self.requests.remove(number);
            let now = self.world.now;
            self.world.tally.failed(now, request.client, failure);
            self.chain.series().at(now).failed += 1;
        }
    }

    fn outcome(self, scenario: &Scenario, mode: Mode) -> Outcome {
        let tally = self.world.tally;
        let (series, times, tiers) = self.chain.end(tally.end());
        tally.outcome(scenario, mode, series, times, tiers)
    }
}

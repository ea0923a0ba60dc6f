//! The clients: a fiber for each request, which sends it, waits for the response, and tries again
//! as the scenario says.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use uthread::net::TcpStream;
use uthread::sync::oneshot;
use uthread_resilience::Budget;

use super::ledger::Ledger;
use super::lock;
use super::wire::{Request, Response};
use crate::arrivals::Source;
use crate::scenario::{Client, Scenario};
use crate::simulation::{backoff, budget};
use crate::tally::Failure;
use crate::values::nanos;

pub(super) struct Generator<'a> {
    ledger: &'a Ledger,
    source: Mutex<Source>,
    client: Client,
    budget: Option<Budget>,
    rng: Mutex<Rng>,
    connections: Vec<Connection>,
    attempts: AtomicU64,
    /// Attempts whose clients wait.
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<u64, Failure>>>>,
}

/// A connection to the service. Requests are written one at a time.
struct Connection {
    stream: TcpStream,
    writing: uthread::sync::Mutex<()>,
}

impl Generator<'_> {
    pub(super) fn new<'a>(
        scenario: &Scenario,
        ledger: &'a Ledger,
        streams: Vec<TcpStream>,
    ) -> anyhow::Result<Generator<'a>> {
        let connections = streams.into_iter().map(|stream| Connection {
            stream,
            writing: uthread::sync::Mutex::new(()),
        });
        Ok(Generator {
            ledger,
            source: Mutex::new(Source::new(&scenario.arrivals, scenario.seed)?),
            client: scenario.client.clone(),
            budget: budget(&scenario.client),
            rng: Mutex::new(Rng::with_seed(scenario.seed.wrapping_add(2))),
            connections: connections.collect(),
            attempts: AtomicU64::new(0),
            waiting: Mutex::default(),
        })
    }

    /// Sends all requests, and returns when they and all that the service still answers have ended.
    ///
    /// # Errors
    ///
    /// The file of recorded times is wrong, or a connection fails.
    pub(super) fn run(&self, scenario: &Scenario) -> anyhow::Result<()> {
        uthread::scope(|scope| {
            let readers = self.connections.iter();
            let readers = readers.map(|connection| scope.spawn(|| self.read(connection)));
            let readers = Vec::from_iter(readers);
            let sent = self.send(scenario.requests);
            for connection in &self.connections {
                if let Err(error) = connection.stream.shutdown(Shutdown::Write) {
                    self.ledger.broke(error);
                }
            }
            for reader in readers {
                if let Ok(Err(error)) = reader.join() {
                    self.ledger.broke(error);
                }
            }
            sent
        })
    }

    /// Starts a request at each arrival, and waits for all.
    fn send(&self, requests: u64) -> anyhow::Result<()> {
        self.ledger.clock.start();
        uthread::scope(|scope| {
            for _ in 0..requests {
                let due = lock(&self.source).next()?;
                let Some(due) = due else { break };
                self.ledger.clock.wait_until(due);
                self.ledger.record(|now, tally, series| {
                    tally.arrived(now);
                    series.at(now).arrived += 1;
                });
                if let Some(budget) = &self.budget {
                    budget.add();
                }
                let client = lock(&self.rng).u64(..self.client.count);
                scope.spawn(move || self.request(due, client));
            }
            Ok(())
        })
    }

    /// Tries a request until it succeeds, or may be tried no more. Its latency counts from the time
    /// at which it was due.
    fn request(&self, due: u64, client: u64) {
        let mut retries = 0;
        loop {
            let failure = match self.attempt(client) {
                Ok(waited) => {
                    return self.ledger.record(|now, tally, series| {
                        tally.succeeded(now, now.saturating_sub(due), waited);
                        series.at(now).succeeded += 1;
                    });
                }
                Err(failure) => failure,
            };
            if retries >= self.client.retries || !self.budget.as_ref().is_none_or(Budget::take) {
                return self.ledger.record(|now, tally, series| {
                    tally.failed(now, client, failure);
                    series.at(now).failed += 1;
                });
            }
            let pause = backoff(&self.client, retries, &mut lock(&self.rng));
            retries += 1;
            uthread::sleep(self.ledger.clock.real(pause));
        }
    }

    /// Sends a request, and returns how long it has waited to be accepted.
    fn attempt(&self, client: u64) -> Result<u64, Failure> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        self.ledger.record(|_, tally, _| tally.attempts += 1);
        let (sender, response) = oneshot::channel();
        lock(&self.waiting).insert(attempt, sender);
        let connection = &self.connections[attempt as usize % self.connections.len()];
        {
            let _one = connection.writing.lock();
            if let Err(error) = (Request { attempt, client }).write(&connection.stream) {
                self.ledger.broke(error);
                return Err(Failure::Call);
            }
        }
        let received = match self.client.timeout {
            None => response.recv().ok(),
            Some(timeout) => {
                let timeout = self.ledger.clock.real(nanos(timeout));
                response.recv_timeout(timeout).ok()
            }
        };
        received.unwrap_or_else(|| {
            lock(&self.waiting).remove(&attempt);
            Err(Failure::Timeout)
        })
    }

    /// Passes responses on until the service has sent all. None is left to come for those that
    /// still wait.
    fn read(&self, connection: &Connection) -> io::Result<()> {
        let mut stream = io::BufReader::new(&connection.stream);
        let read = loop {
            let Response { attempt, result } = match Response::read(&mut stream) {
                Ok(response) => response,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break Ok(()),
                Err(error) => break Err(error),
            };
            let waiting = lock(&self.waiting).remove(&attempt);
            let is_late = waiting.is_none_or(|waiting| waiting.send(result).is_err());
            if is_late {
                self.ledger.record(|_, tally, _| tally.wasted += 1);
            }
        };
        // Ends the waits.
        lock(&self.waiting).clear();
        read
    }
}

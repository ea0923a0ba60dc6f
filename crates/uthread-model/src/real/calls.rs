//! The calls of one dependency by the service, with the policies of `uthread-resilience`. A server of
//! the simulation decides on each; a TCP connection carries it.

use std::io::{self, Read};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use uthread::net::{SocketAddr, TcpStream};
use uthread_resilience::{Budget, Bulkhead, Endpoints, Hedge, Refused};

use super::ledger::Ledger;
use super::lock;
use super::wire::Order;
use crate::scenario;
use crate::server::{Drawn, Server};
use crate::tally::Failure;
use crate::values::nanos;

pub(super) struct Calls<'a> {
    ledger: &'a Ledger,
    hedge: Option<Hedge>,
    limit: Option<Bulkhead>,
    servers: Endpoints<Mutex<Server>>,
    /// Number of servers of each client, if not all.
    shard: Option<usize>,
    timeout: u64,
    address: SocketAddr,
    /// Connections without a call: as many as calls were in progress at the same time.
    idle: Mutex<Vec<TcpStream>>,
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Open => Failure::Breaker,
            // A caller that is cancelled has no turn.
            _ => Failure::Call,
        }
    }
}

impl Calls<'_> {
    pub(super) fn new<'a>(
        given: &scenario::Dependency,
        ledger: &'a Ledger,
        address: SocketAddr,
    ) -> anyhow::Result<Calls<'a>> {
        let real = |time| ledger.clock.real(nanos(time));
        let mut servers = Endpoints::new(Server::all(given)?.into_iter().map(Mutex::new));
        if let Some(breaker) = &given.breaker {
            servers = servers.breaker(breaker.failures, real(breaker.open));
        }
        let hedge = given.hedge.as_ref().map(|given| {
            let hedge = Hedge::new(real(given.after));
            match given.budget {
                Some(share) => hedge.budget(&Budget::new(share)),
                None => hedge,
            }
        });
        let limit = given
            .concurrent
            .map(|calls| Bulkhead::new(calls as usize).waiting(usize::MAX));
        Ok(Calls {
            ledger,
            hedge,
            limit,
            servers,
            shard: given.shard.map(|shard| shard as usize),
            timeout: nanos(given.timeout),
            address,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Calls the dependency for a client, and waits for the answer.
    pub(super) fn call(&self, client: u64, rng: &Mutex<Rng>) -> Result<(), Failure> {
        let Some(hedge) = &self.hedge else {
            return self.call_in_turn(client, rng);
        };
        let is_first = AtomicBool::new(true);
        hedge.call(|| {
            if !is_first.swap(false, Ordering::Relaxed) {
                self.ledger.record(|_, tally, _| tally.hedged += 1);
            }
            self.call_in_turn(client, rng)
        })
    }

    fn call_in_turn(&self, client: u64, rng: &Mutex<Rng>) -> Result<(), Failure> {
        match &self.limit {
            Some(limit) => limit.call(|| self.call_one(client, rng)),
            None => self.call_one(client, rng),
        }
    }

    fn call_one(&self, client: u64, rng: &Mutex<Rng>) -> Result<(), Failure> {
        match self.shard {
            Some(count) => (self.servers).call_of(client, count, |server| self.ask(server, rng)),
            None => self.servers.call(|server| self.ask(server, rng)),
        }
    }

    fn ask(&self, server: &Mutex<Server>, rng: &Mutex<Rng>) -> Result<(), Failure> {
        let now = self.ledger.clock.now();
        let drawn = lock(server).draw(now, &mut lock(rng));
        let drawn = drawn.ok_or(Failure::Call)?;
        match self.exchange(drawn) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Call),
            Err(error) => {
                // The other call of a hedge was faster.
                if !uthread::thread::is_cancelled() {
                    self.ledger.broke(error);
                }
                Err(Failure::Call)
            }
        }
    }

    /// Sends a call and waits for its answer. Returns whether it has succeeded in time.
    ///
    /// # Errors
    ///
    /// The errors of the connection, except for a timeout.
    fn exchange(&self, Drawn { latency, fails, .. }: Drawn) -> io::Result<bool> {
        let clock = &self.ledger.clock;
        let latency = Some(latency).filter(|&latency| latency < self.timeout);
        let latency = latency.map(|latency| clock.real(latency).as_nanos() as u64);
        let kept = lock(&self.idle).pop();
        let mut stream = match kept {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_nodelay(true)?;
                let timeout = clock.real(self.timeout);
                stream.set_read_timeout(Some(timeout.max(Duration::from_nanos(1))))?;
                stream
            }
        };
        Order { latency, fails }.write(&stream)?;
        let mut answer = [0];
        match stream.read_exact(&mut answer) {
            Ok(()) => {
                lock(&self.idle).push(stream);
                Ok(answer == [0])
            }
            // The connection ends with the call.
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

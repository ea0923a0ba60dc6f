//! The calls of one dependency by the service. The dependency of the simulation decides on each; a
//! TCP connection carries it.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Mutex;

use fastrand::Rng;
use uthread::net::{SocketAddr, TcpStream};
use uthread::sync::oneshot;

use super::ledger::Ledger;
use super::lock;
use super::wire::Order;
use crate::dependency::{Call, Dependency};
use crate::scenario;
use crate::tally::Failure;
use crate::values::nanos;

pub(super) struct Calls<'a> {
    ledger: &'a Ledger,
    state: Mutex<State>,
    timeout: u64,
    address: SocketAddr,
    /// Connections without a call: as many as calls were in progress at the same time.
    idle: Mutex<Vec<TcpStream>>,
}

struct State {
    dependency: Dependency,
    /// Jobs that wait for calls of others to end.
    waiting: HashMap<usize, oneshot::Sender<Begun>>,
}

/// A call that begins, or fails to.
struct Begun {
    at: u64,
    call: Call,
}

impl Calls<'_> {
    pub(super) fn new<'a>(
        given: &scenario::Dependency,
        ledger: &'a Ledger,
        address: SocketAddr,
    ) -> anyhow::Result<Calls<'a>> {
        let state = State {
            dependency: Dependency::new(given)?,
            waiting: HashMap::new(),
        };
        Ok(Calls {
            ledger,
            state: Mutex::new(state),
            timeout: nanos(given.timeout),
            address,
            idle: Mutex::new(Vec::new()),
        })
    }

    pub(super) fn mean_seconds(&self) -> f64 {
        lock(&self.state).dependency.mean_seconds()
    }

    /// Calls the dependency for a job, and waits for the answer.
    pub(super) fn call(&self, job: usize, rng: &Mutex<Rng>) -> Result<(), Failure> {
        let Begun { at, call } = self.begin(job, rng);
        match call {
            Call::Refused => Err(Failure::Breaker),
            Call::Fails | Call::Waits => Err(Failure::Call),
            Call::Ends { at: end, fails } => {
                let is_answered = self.exchange(end - at, fails).unwrap_or_else(|error| {
                    self.ledger.broke(error);
                    false
                });
                self.end(job, !is_answered, rng);
                if is_answered {
                    Ok(())
                } else {
                    Err(Failure::Call)
                }
            }
        }
    }

    /// Begins a call, once there are few enough in progress.
    fn begin(&self, job: usize, rng: &Mutex<Rng>) -> Begun {
        let turn = {
            let mut state = lock(&self.state);
            let at = self.ledger.clock.now();
            match state.dependency.call(job, at, &mut lock(rng)) {
                Call::Waits => {
                    let (sender, turn) = oneshot::channel();
                    state.waiting.insert(job, sender);
                    turn
                }
                call => return Begun { at, call },
            }
        };
        turn.recv().expect("the end of a call begins the next")
    }

    fn end(&self, job: usize, failed: bool, rng: &Mutex<Rng>) {
        let mut state = lock(&self.state);
        let at = self.ledger.clock.now();
        state.dependency.end(job, at, failed);
        while let Some(next) = state.dependency.take_waiting() {
            let call = state.dependency.call(next, at, &mut lock(rng));
            if let Some(turn) = state.waiting.remove(&next) {
                // The job waits for it.
                let _ = turn.send(Begun { at, call });
            }
        }
    }

    /// Sends a call and waits for its answer. Returns whether it has succeeded in time.
    ///
    /// # Errors
    ///
    /// The errors of the connection, except for a timeout.
    fn exchange(&self, latency: u64, fails: bool) -> io::Result<bool> {
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
                stream.set_read_timeout(Some(timeout.max(std::time::Duration::from_nanos(1))))?;
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

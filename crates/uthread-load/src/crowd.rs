//! All connections to one server, and the workers that own them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use uthread::net::TcpStream;
use uthread::sync::Semaphore;
use uthread::sync::mpsc::{Receiver, Sender, channel};
use uthread::{JoinHandle, Runtime};

use crate::clock::{Clock, End};
use crate::exchange::Exchange;
use crate::failure::{Failure, Kind};
use crate::http::Accepted;
use crate::link;
use crate::open_files::raise_open_files;
use crate::plan::Plan;
use crate::report::Report;
use crate::tally::Tally;
use crate::target::Unknown;
use crate::task::Task;
use crate::usage::Usage;
use crate::worker::{self, Outcome};
use crate::{Error, http};

/// Connections in the process of opening, until the server has answered on each. A listener drops
/// connections that do not fit its queue (128 with `std`), and the client retries only after a
/// second.
const OPENING_MAX: usize = 128;
/// Descriptors that the process has open anyway, such as those of the standard streams.
const OPEN_FILES_SPARE: u64 = 64;
/// Descriptors of a worker besides its connections: rings and timers.
const OPEN_FILES_PER_WORKER: u64 = 8;
/// Stack size of a fiber, the minimum of the runtime: the deepest calls format a message, and there
/// may be 30,000 fibers.
const STACK_BYTES: usize = 64 * 1024;
/// Bytes of the first response to read at once.
const PIECE_BYTES: usize = 16 * 1024;
/// Maximum size of the first response, which is kept to compare all others with it.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Open connections that have been answered once each. They stay open until this value is dropped,
/// and then end with a reset, so that their ports are free immediately.
///
/// ```
/// use std::time::Duration;
/// use uthread_load::{Crowd, Plan, Target};
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// let address = listener.local_addr().unwrap().to_string();
/// std::thread::spawn(move || {
///     let (mut stream, _) = listener.accept().unwrap();
///     std::io::copy(&mut stream.try_clone().unwrap(), &mut stream)
/// });
/// let plan = Plan {
///     connections: 1.try_into().unwrap(),
///     warm_up: Duration::ZERO,
///     duration: Duration::from_millis(50),
///     ..Plan::new(Target::tcp(&address, 16)?)
/// };
/// let mut crowd = Crowd::connect(&plan)?;
/// assert_eq!(crowd.connected(), 1);
/// let report = crowd.run()?;
/// assert!(report.answered > 0 && report.errors.is_empty());
/// # Ok::<(), uthread_load::Error>(())
/// ```
pub struct Crowd {
    plan: Plan,
    driver: String,
    end: End,
    workers: Vec<WorkerHandle>,
    connected: u64,
    /// Failures while opening.
    greeting: Tally,
    /// Dropped last.
    runtimes: Vec<Runtime>,
}

/// Ends a run early, from any thread or fiber.
///
/// ```
/// use uthread_load::Stop;
///
/// let stop = Stop::new();
/// let handler = stop.clone();
/// std::thread::spawn(move || handler.stop()).join().unwrap();
/// assert!(stop.is_stopped());
/// ```
#[derive(Clone, Debug)]
pub struct Stop(End);

impl Stop {
    /// Creates a stop for [`Crowd::connect_with`]. See the example of [`Stop`].
    #[expect(
        clippy::new_without_default,
        reason = "a stop that is not shared has no effect"
    )]
    pub fn new() -> Stop {
        Stop(End::new())
    }

    /// Ends the current activity soon. See the example of [`Stop`].
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Returns true if [`Stop::stop`] was called. See the example of [`Stop`].
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// The handle of a worker, which runs the load once for each clock that it receives.
struct WorkerHandle {
    clocks: Option<Sender<Clock>>,
    outcomes: Receiver<io::Result<Outcome>>,
    fiber: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Opens the connections, 128 at a time, and waits for a response on each. Failures are part of
    /// the report, and the run tries these connections again; see [`Crowd::connected`]. See the
    /// example of [`Crowd`].
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the plan is contradictory; [`Error::Start`] if this machine cannot carry
    /// it out.
    pub fn connect(plan: &Plan) -> Result<Crowd, Error> {
        Crowd::connect_with(plan, &Stop::new())
    }

    /// Opens the connections like [`Crowd::connect`]; `stop` ends this call and later runs early.
    ///
    /// # Errors
    ///
    /// The errors of [`Crowd::connect`].
    ///
    /// ```
    /// use uthread_load::{Crowd, Plan, Stop, Target};
    ///
    /// let stop = Stop::new();
    /// stop.stop();
    /// let crowd = Crowd::connect_with(&Plan::new(Target::tcp("127.0.0.1:1", 16)?), &stop)?;
    /// assert_eq!(crowd.connected(), 0);
    /// # Ok::<(), uthread_load::Error>(())
    /// ```
    pub fn connect_with(plan: &Plan, stop: &Stop) -> Result<Crowd, Error> {
        plan.check()?;
        let workers = plan.workers();
        let open_files = plan.connections.get() as u64 + OPEN_FILES_PER_WORKER * workers as u64;
        raise_open_files(open_files.saturating_add(OPEN_FILES_SPARE)).map_err(Error::Start)?;
        let runtimes: io::Result<Vec<Runtime>> =
            (0..workers).map(|_| start_runtime(plan)).collect();
        let runtimes = runtimes.map_err(Error::Start)?;
        let mut crowd = Crowd {
            plan: plan.clone(),
            driver: runtimes[0].driver().driver().to_string(),
            end: stop.0.clone(),
            workers: Vec::new(),
            connected: 0,
            greeting: Tally::default(),
            runtimes,
        };
        let target = &mut crowd.plan.target;
        target.choose_address(plan.timeout, &crowd.end);
        match crowd.learn_exchange() {
            Ok(exchange) => {
                plan.check_flight(&exchange)?;
                crowd.open(exchange);
            }
            Err(failure) => crowd.greeting.fail(failure),
        }
        Ok(crowd)
    }

    /// Returns the number of connections that are open and have been answered. See the example of
    /// [`Crowd`].
    pub fn connected(&self) -> u64 {
        self.connected
    }

    /// Loads the server for the duration of the plan, and waits for the last responses. Returns
    /// immediately if no connection was ever answered. See the example of [`Crowd`].
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if this machine lacks descriptors for the timers.
    pub fn run(&mut self) -> Result<Report, Error> {
        let start = Instant::now();
        let clock = Clock {
            start,
            begin: start + self.plan.warm_up,
            end: self.end.clone(),
        };
        clock.end.set(clock.begin + self.plan.duration);
        let mut outcome = Outcome {
            tally: std::mem::take(&mut self.greeting),
            served: Vec::new(),
            usage: Usage::default(),
        };
        let is_answered = self.connected > 0;
        let workers = || self.workers.iter().filter(|_| is_answered);
        for worker in workers() {
            if let Some(clocks) = &worker.clocks {
                // A worker that has ended reports the reason below.
                let _ = clocks.send(clock.clone());
            }
        }
        for worker in workers() {
            let received = worker.outcomes.recv().map_err(|_| worker_panicked())?;
            let of_worker = received.map_err(Error::Start)?;
            outcome.tally.add(of_worker.tally);
            outcome.served.extend(of_worker.served);
            outcome.usage = outcome.usage + of_worker.usage;
        }
        let measured = if is_answered {
            clock.measured()
        } else {
            Duration::ZERO
        };
        Ok(Report::new(
            &self.plan,
            &self.driver,
            self.connected,
            measured,
            self.end.is_stopped(),
            &outcome,
        ))
    }

    /// Returns the exchange; for HTTP without an expected body, requests the path once to learn it.
    fn learn_exchange(&self) -> Result<Exchange, Failure> {
        self.plan
            .target
            .exchange()
            .or_else(|Unknown { request, accepted }| {
                let (address, timeout) = (self.plan.target.address(), self.plan.timeout);
                if self.end.is_stopped() {
                    let text = "stopped before the first request";
                    return Err(Failure::new(Kind::NotConnected, text));
                }
                let ask = || {
                    let stream = TcpStream::connect_timeout(&address, timeout)
                        .map_err(|error| Failure::of("connect", &error))?;
                    first_body(&stream, &request, &accepted, timeout)
                };
                let body = Some(self.runtimes[0].run(ask)?);
                Ok(Exchange::Http {
                    request,
                    accepted,
                    body,
                })
            })
    }

    fn open(&mut self, exchange: Exchange) {
        let workers = self.plan.workers();
        let task = Arc::new(Task {
            address: self.plan.target.address(),
            exchange: Arc::new(exchange),
            timeout: self.plan.timeout,
            pattern: self.plan.pattern,
            workers,
            spins: self.plan.spin,
            end: self.end.clone(),
            opening: Semaphore::new(OPENING_MAX),
            is_silent: AtomicBool::new(false),
        });
        let connections = self.plan.connections.get() as u64;
        let mut greetings = Vec::new();
        for (worker, runtime) in self.runtimes.iter().enumerate() {
            let (clock_sender, clocks) = channel();
            let (outcome_sender, outcomes) = channel();
            let (greeting_sender, greeting) = channel();
            let task = Arc::clone(&task);
            let indices = (worker as u64..connections).step_by(workers);
            let fiber = runtime.spawn(move || {
                let (mut slots, tally) = worker::connect(&task, indices);
                let connected = slots.iter().filter(|slot| slot.is_greeted).count();
                let _ = greeting_sender.send((connected as u64, tally));
                while let Ok(clock) = clocks.recv() {
                    let outcome = worker::run(&task, worker, &mut slots, &clock);
                    let _ = outcome_sender.send(outcome);
                }
            });
            greetings.push(greeting);
            self.workers.push(WorkerHandle {
                clocks: Some(clock_sender),
                outcomes,
                fiber: Some(fiber),
            });
        }
        for greeting in greetings {
            if let Ok((connected, tally)) = greeting.recv() {
                self.connected += connected;
                self.greeting.add(tally);
            }
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // The end of its clocks ends the worker.
            worker.clocks = None;
            if let Some(fiber) = worker.fiber.take() {
                // Its panic message has been printed.
                let _ = fiber.join();
            }
        }
    }
}

/// Returns the error of a worker that has ended early, which only a panic causes.
fn worker_panicked() -> Error {
    Error::Start(io::Error::other(
        "a worker has failed; the message is above",
    ))
}

fn start_runtime(plan: &Plan) -> io::Result<Runtime> {
    let mut builder = Runtime::builder()
        .workers(1)
        .stack_size(STACK_BYTES)
        .name("load")
        // Stalls here are caused by the load itself, which the report shows.
        .stall_threshold(None);
    if let Some(driver) = plan.driver {
        builder = builder.driver(driver);
    }
    builder.build()
}

/// Returns the body of the response to a first request.
fn first_body(
    mut stream: &TcpStream,
    request: &[u8],
    accepted: &Accepted,
    timeout: Duration,
) -> Result<Vec<u8>, Failure> {
    use std::io::Read;

    let set_up = stream.set_read_timeout(Some(timeout));
    set_up.map_err(|error| Failure::of("set up the connection", &error))?;
    link::send(stream, request)?;
    let mut received = Vec::new();
    let (mut rest, mut content) = (None, Vec::new());
    let mut piece = vec![0; PIECE_BYTES];
    let begin = Instant::now();
    loop {
        if rest.is_none()
            && let Some(head) = http::parse_head(&received, accepted)?
        {
            received.drain(..head.bytes);
            rest = Some(head.body);
        }
        if let Some(body) = &mut rest {
            let (bytes, is_whole) = body.take(&received, |data| {
                content.extend_from_slice(data);
                check_size(content.len() as u64)
            })?;
            received.drain(..bytes);
            if let http::Body::Length(left) = body {
                check_size(*left)?;
            }
            if is_whole {
                return if received.is_empty() {
                    Ok(content)
                } else {
                    Err(Failure::new(
                        Kind::Wrong,
                        "more bytes than the response should have",
                    ))
                };
            }
        }
        if begin.elapsed() >= timeout {
            return Err(link::unanswered(timeout));
        }
        match stream.read(&mut piece) {
            Ok(0) => {
                return Err(Failure::new(
                    Kind::Closed,
                    "the server has closed the connection",
                ));
            }
            Ok(count) => received.extend_from_slice(&piece[..count]),
            Err(error) => return Err(Failure::of("receive", &error)),
        }
    }
}

fn check_size(bytes: u64) -> Result<(), Failure> {
    if bytes <= BODY_BYTES_MAX {
        Ok(())
    } else {
        let text = format!("a body of {bytes} bytes or more; at most {BODY_BYTES_MAX}");
        Err(Failure::new(Kind::Wrong, text))
    }
}

//! The service: requests wait to be accepted, work on a CPU, call the dependencies, and are
//! answered.
//!
//! A pool has a thread for each request in progress, which goes on with the request that has waited
//! longest. Otherwise a fiber does: a new one for each request that is accepted at once.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::Sender;
use std::time::Duration;

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};
use uthread::net::{SocketAddr, TcpStream};
use uthread::sync::{Condvar, Semaphore};
use uthread::thread::{Builder, Scope};

use super::calls::Calls;
use super::ledger::Ledger;
use super::lock;
use super::wire::{Request, Response};
use crate::mode::Mode;
use crate::scenario::Scenario;
use crate::series::Gauge;
use crate::tally::Failure;
use crate::values::nanos;

pub(super) struct Service<'a> {
    ledger: &'a Ledger,
    /// Maximum number of jobs in progress.
    slots: u64,
    /// Number of threads of the pool, if there is one.
    threads: Option<u64>,
    queue_max: u64,
    shed_after: u64,
    /// Real CPU time of a job.
    work: Duration,
    cpus: Semaphore,
    dependencies: Vec<Calls<'a>>,
    rng: Mutex<Rng>,
    admission: Mutex<Admission>,
    pool: uthread::sync::Mutex<Handed>,
    pool_changed: Condvar,
}

/// Jobs in progress and in the queue.
#[derive(Default)]
struct Admission {
    in_progress: u64,
    queue: VecDeque<Job>,
}

/// Accepted jobs for idle threads of the pool: never more than there are.
#[derive(Default)]
struct Handed {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

/// A connection of the clients. Responses are written one at a time.
struct Connection {
    stream: TcpStream,
    writing: uthread::sync::Mutex<()>,
}

#[derive(Clone, Copy)]
struct Job {
    connection: usize,
    attempt: u64,
    client: u64,
    arrived: u64,
    accepted: u64,
}

enum Admitted {
    Now(Job),
    Later,
    Refused,
}

impl Service<'_> {
    pub(super) fn new<'a>(
        scenario: &Scenario,
        mode: Mode,
        ledger: &'a Ledger,
        backend: SocketAddr,
    ) -> anyhow::Result<Service<'a>> {
        let threads = scenario.sync.filter(|_| mode == Mode::Sync);
        let threads = threads.map(|sync| sync.threads);
        let connections = scenario.fibers.and_then(|fibers| fibers.connections);
        let dependencies = scenario.dependencies.iter();
        let dependencies = dependencies.map(|given| Calls::new(given, ledger, backend));
        let service = &scenario.service;
        Ok(Service {
            ledger,
            slots: threads.or(connections).unwrap_or(u64::MAX),
            threads,
            queue_max: service.queue.unwrap_or(u64::MAX),
            shed_after: service.shed_after.map_or(u64::MAX, nanos),
            work: ledger.clock.real(nanos(service.work)),
            cpus: Semaphore::new(service.cpus.unwrap_or(1) as usize),
            dependencies: dependencies.collect::<anyhow::Result<_>>()?,
            rng: Mutex::new(Rng::with_seed(scenario.seed.wrapping_add(1))),
            admission: Mutex::default(),
            pool: uthread::sync::Mutex::default(),
            pool_changed: Condvar::new(),
        })
    }

    /// Serves requests of these connections until all have ended, and all jobs. Reports when it is
    /// ready.
    ///
    /// # Errors
    ///
    /// The errors of starting threads, and of the connections.
    pub(super) fn serve(&self, streams: Vec<TcpStream>, ready: Sender<()>) -> io::Result<()> {
        let writing = || uthread::sync::Mutex::new(());
        let connections = streams.into_iter().map(|stream| Connection {
            stream,
            writing: writing(),
        });
        let connections = Vec::from_iter(connections);
        uthread::scope(|scope| {
            let started = self.start_pool(scope, &connections);
            let readers = (0..connections.len()).map(|index| {
                let connections = &connections;
                scope.spawn(move || self.read(scope, connections, index))
            });
            let readers = Vec::from_iter(readers);
            match started {
                Ok(()) => drop(ready.send(())),
                // Ends the readers.
                Err(_) => drop(ready),
            }
            let read = readers.into_iter().map(|reader| {
                let read = reader.join();
                read.unwrap_or_else(|_| Err(io::Error::other("a fiber has panicked")))
            });
            let read = read.collect::<Vec<_>>().into_iter().collect();
            self.close_pool();
            started.and(read)
        })
    }

    fn start_pool<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        connections: &'scope [Connection],
    ) -> io::Result<()> {
        for _ in 0..self.threads.unwrap_or(0) {
            let thread = Builder::new().name("pool".to_owned());
            thread.spawn_scoped(scope, || {
                while let Some(job) = self.next_handed() {
                    self.work_off(connections, job);
                }
            })?;
        }
        Ok(())
    }

    fn next_handed(&self) -> Option<Job> {
        let pool = lock_pool(&self.pool);
        let is_idle = |handed: &mut Handed| handed.jobs.is_empty() && !handed.is_closed;
        let waited = self.pool_changed.wait_while(pool, is_idle);
        let mut pool = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        pool.jobs.pop_front()
    }

    /// Lets the threads of the pool end after their jobs.
    fn close_pool(&self) {
        lock_pool(&self.pool).is_closed = true;
        self.pool_changed.notify_all();
    }

    /// Reads requests until the clients send no more.
    fn read<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        connections: &'scope [Connection],
        index: usize,
    ) -> io::Result<()> {
        let mut stream = io::BufReader::new(&connections[index].stream);
        loop {
            let request = match Request::read(&mut stream) {
                Ok(request) => request,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            };
            let Request { attempt, client } = request;
            let job = Job {
                connection: index,
                attempt,
                client,
                arrived: 0,
                accepted: 0,
            };
            match self.admit(job) {
                Admitted::Later => {}
                Admitted::Refused => {
                    let response = Response {
                        attempt: job.attempt,
                        result: Err(Failure::Refused),
                    };
                    self.respond(connections, index, response);
                }
                Admitted::Now(job) if self.threads.is_some() => {
                    lock_pool(&self.pool).jobs.push_back(job);
                    self.pool_changed.notify_one();
                }
                Admitted::Now(job) => {
                    scope.spawn(move || self.work_off(connections, job));
                }
            }
        }
    }

    fn admit(&self, mut job: Job) -> Admitted {
        let mut admission = lock(&self.admission);
        self.ledger.record(|now, tally, series| {
            job.arrived = now;
            if admission.in_progress < self.slots {
                job.accepted = now;
                admission.in_progress += 1;
                tally.accepted += 1;
                series.set(Gauge::InProgress, now, admission.in_progress);
                Admitted::Now(job)
            } else if admission.queue.len() as u64 >= self.queue_max {
                Admitted::Refused
            } else {
                admission.queue.push_back(job);
                series.set(Gauge::Waiting, now, admission.queue.len() as u64);
                Admitted::Later
            }
        })
    }

    /// Works on a job, and then on those that have waited.
    fn work_off(&self, connections: &[Connection], first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            let waited = job.accepted - job.arrived;
            let response = Response {
                attempt: job.attempt,
                result: self.process(&job).map(|()| waited),
            };
            self.respond(connections, job.connection, response);
            next = self.finish(connections, &job);
        }
    }

    fn process(&self, job: &Job) -> Result<(), Failure> {
        if !self.work.is_zero() {
            let _cpu = self.cpus.acquire().expect("nobody closes it");
            compute(self.work);
        }
        let mut dependencies = self.dependencies.iter();
        dependencies.try_for_each(|calls| calls.call(job.client, &self.rng))
    }

    /// Ends a job, and accepts the one that has waited longest. Those that have waited too long are
    /// refused.
    fn finish(&self, connections: &[Connection], ended: &Job) -> Option<Job> {
        let mut shed = Vec::new();
        let next = {
            let mut admission = lock(&self.admission);
            self.ledger.record(|now, tally, series| {
                tally.ended(now, now - ended.accepted);
                let mut next = None;
                while let Some(mut job) = admission.queue.pop_front() {
                    if now - job.arrived <= self.shed_after {
                        job.accepted = now;
                        tally.accepted += 1;
                        next = Some(job);
                        break;
                    }
                    shed.push(job);
                }
                series.set(Gauge::Waiting, now, admission.queue.len() as u64);
                if next.is_none() {
                    admission.in_progress -= 1;
                    series.set(Gauge::InProgress, now, admission.in_progress);
                }
                next
            })
        };
        for job in shed {
            let response = Response {
                attempt: job.attempt,
                result: Err(Failure::Shed),
            };
            self.respond(connections, job.connection, response);
        }
        next
    }

    fn respond(&self, connections: &[Connection], index: usize, response: Response) {
        let connection = &connections[index];
        let _one = connection.writing.lock();
        if let Err(error) = response.write(&connection.stream) {
            self.ledger.broke(error);
        }
    }
}

fn lock_pool(pool: &uthread::sync::Mutex<Handed>) -> uthread::sync::MutexGuard<'_, Handed> {
    pool.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Uses as much CPU time of the calling thread.
fn compute(time: Duration) {
    let used = || {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
    };
    let begin = used();
    while used() - begin < time {
        std::hint::spin_loop();
    }
}

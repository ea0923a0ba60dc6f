//! The services of a simulation: jobs wait, work, call dependencies and are answered. A dependency
//! that is a tier is a service as well, whose jobs are the calls of others.
//!
//! An answer to a call is an event, even if it comes at once: so no job ends within another one.

use std::collections::VecDeque;

use slab::Slab;

use crate::dependency::{Began, Waiting};
use crate::mode::Mode;
use crate::outcome::Tier;
use crate::scenario::Parts;
use crate::series::Series;
use crate::service::Services;
use crate::tally::Failure;
use crate::times::Times;
use crate::world::{Event, World};

/// Who waits for a job.
#[derive(Clone, Copy)]
pub(crate) enum Caller {
    /// A client, which has numbered the attempt.
    Client { request: usize, attempt: u64 },
    /// A call of another service, with its number.
    Call { call: usize, number: u64 },
}

/// The answer to an attempt of a client.
pub(crate) struct Answer {
    pub(crate) request: usize,
    pub(crate) attempt: u64,
    /// How long it waited to be accepted.
    pub(crate) result: Result<u64, Failure>,
}

/// A request in a service.
struct Job {
    service: usize,
    caller: Caller,
    client: u64,
    arrived: u64,
    accepted: u64,
    /// Number of dependencies whose calls have succeeded.
    called: usize,
}

/// A call that a job waits for.
struct Call {
    job: usize,
    /// Number among all calls.
    number: u64,
    /// `None` while it waits for its turn.
    server: Option<usize>,
    /// The other call in progress, if it is hedged.
    other: Option<usize>,
}

pub(crate) struct Chain {
    services: Services,
    jobs: Slab<Job>,
    calls: Slab<Call>,
    calls_count: u64,
    /// Services in which jobs have ended, and others may be accepted.
    freed: Vec<usize>,
    /// Answers that clients have not got yet: those of one event.
    answers: VecDeque<Answer>,
}

impl Chain {
    /// Prepares the first request.
    ///
    /// # Errors
    ///
    /// The errors of reading a file of latencies.
    pub(crate) fn new(parts: Parts<'_>, mode: Mode) -> anyhow::Result<Chain> {
        Ok(Chain {
            services: Services::new(parts, mode)?,
            jobs: Slab::new(),
            calls: Slab::new(),
            calls_count: 0,
            freed: Vec::new(),
            answers: VecDeque::new(),
        })
    }

    /// Takes the next answer for a client.
    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Returns the counts over time of the service that clients call.
    pub(crate) fn series(&mut self) -> &mut Series {
        self.services.series()
    }

    /// Ends the simulation. Returns the counts and the times of the service that clients call, and
    /// the tiers below.
    pub(crate) fn end(self, now: u64) -> (Series, Times, Vec<Tier>) {
        let times = self.services.times(self.services.root());
        let (series, tiers) = self.services.end(now);
        (series, times, tiers)
    }

    /// Sends the attempt of a client to the first service.
    pub(crate) fn submit(&mut self, world: &mut World, client: u64, caller: Caller) {
        self.arrive(world, self.services.root(), client, caller);
    }

    /// Handles an event, unless it is one of clients.
    pub(crate) fn handle(&mut self, world: &mut World, event: Event) {
        match event {
            Event::Queued(job) => self.admit(world, job),
            Event::Worked(job) => {
                let service = &mut self.services.all[self.jobs[job].service];
                match service.for_cpu.pop_front() {
                    Some(next) => world.add_after(service.work, Event::Worked(next)),
                    None => service.cpus_free += 1,
                }
                self.call_next(world, job);
            }
            Event::Called {
                call,
                number,
                fails,
            } => self.end_call(world, call, number, fails),
            Event::Hedge { call, number } => self.hedge(world, call, number),
            Event::GaveUp { .. } | Event::Retry(_) => {}
        }
        self.accept_waiting(world);
    }

    fn arrive(&mut self, world: &mut World, service: usize, client: u64, caller: Caller) {
        let job = self.jobs.insert(Job {
            service,
            caller,
            client,
            arrived: world.now,
            accepted: 0,
            called: 0,
        });
        let state = &mut self.services.all[service];
        if state.queue_cost == 0 {
            self.admit(world, job);
        } else {
            state.queue_free = state.queue_free.max(world.now) + state.queue_cost;
            world.events.add(state.queue_free, Event::Queued(job));
        }
    }

    /// Accepts a job, lets it wait, or refuses it.
    fn admit(&mut self, world: &mut World, job: usize) {
        let service = self.jobs[job].service;
        let state = &self.services.all[service];
        if state.in_progress < state.slots {
            self.accept(world, job);
        } else if (state.queue.len() as u64) < state.queue_max {
            self.services.enqueue(service, world.now, job);
        } else {
            let refused = self.jobs.remove(job);
            self.respond(world, service, refused.caller, Err(Failure::Refused));
        }
    }

    fn accept(&mut self, world: &mut World, job: usize) {
        self.jobs[job].accepted = world.now;
        let service = self.jobs[job].service;
        if service == self.services.root() {
            world.tally.accepted += 1;
        }
        self.services.add_in_progress(service, world.now, 1);
        let service = &mut self.services.all[service];
        if service.work == 0 {
            self.call_next(world, job);
        } else if service.cpus_free > 0 {
            service.cpus_free -= 1;
            world.add_after(service.work, Event::Worked(job));
        } else {
            service.for_cpu.push_back(job);
        }
    }

    /// Accepts the jobs that have waited longest, where others have ended.
    fn accept_waiting(&mut self, world: &mut World) {
        while let Some(service) = self.freed.pop() {
            let state = |chain: &Chain| {
                let state = &chain.services.all[service];
                (state.in_progress < state.slots, state.shed_after)
            };
            while let (true, shed_after) = state(self)
                && let Some(next) = self.services.dequeue(service, world.now)
            {
                if world.now - self.jobs[next].arrived > shed_after {
                    let shed = self.jobs.remove(next);
                    self.respond(world, service, shed.caller, Err(Failure::Shed));
                } else {
                    self.accept(world, next);
                }
            }
        }
    }

    /// Calls the next dependency of a job, or ends it after the last one.
    fn call_next(&mut self, world: &mut World, job: usize) {
        let Job {
            service, called, ..
        } = self.jobs[job];
        let Some(dependency) = self.services.all[service].dependencies.get(called) else {
            return self.end_job(world, job, Ok(()));
        };
        let after = dependency.hedge_after();
        let call = self.add_call(job, None);
        if let Some(after) = after {
            let number = self.calls[call].number;
            world.add_after(after, Event::Hedge { call, number });
        }
        self.begin_call(world, call);
    }

    /// Makes the second call of a job that still waits for the first one.
    fn hedge(&mut self, world: &mut World, first: usize, number: u64) {
        if !self.is_current(first, number) {
            return;
        }
        let job = self.calls[first].job;
        let Job {
            service, called, ..
        } = self.jobs[job];
        if self.services.dependency(service, called).take_hedge() {
            world.tally.hedged += 1;
            let second = self.add_call(job, Some(first));
            self.calls[first].other = Some(second);
            self.begin_call(world, second);
        }
    }

    fn add_call(&mut self, job: usize, other: Option<usize>) -> usize {
        self.calls_count += 1;
        self.calls.insert(Call {
            job,
            number: self.calls_count,
            server: None,
            other,
        })
    }

    fn begin_call(&mut self, world: &mut World, call: usize) {
        let Call { job, number, .. } = self.calls[call];
        let Job {
            service,
            called,
            client,
            ..
        } = self.jobs[job];
        let dependency = self.services.dependency(service, called);
        let waiting = Waiting { call, number };
        match dependency.begin(waiting, client, world.now, &mut world.rng) {
            Began::Runs {
                server,
                latency,
                fails,
                service,
            } => {
                self.calls[call].server = Some(server);
                let event = Event::Called {
                    call,
                    number,
                    fails,
                };
                world.add_after(latency, event);
                if let Some(service) = service {
                    self.arrive(world, service, client, Caller::Call { call, number });
                }
            }
            Began::Refused => self.fail_call(world, call, Failure::Breaker),
            Began::Fails => self.fail_call(world, call, Failure::Call),
            Began::Waits => {}
        }
    }

    /// Ends a call that a server has answered, or not in time.
    fn end_call(&mut self, world: &mut World, call: usize, number: u64, fails: bool) {
        if !self.is_current(call, number) {
            return;
        }
        let Call { job, other, .. } = self.calls[call];
        let Job {
            service, called, ..
        } = self.jobs[job];
        self.release(world, call, Some(fails));
        if let Some(other) = other.filter(|_| !fails) {
            self.release(world, other, None);
            self.calls.remove(other);
        }
        if !fails {
            self.calls.remove(call);
        }
        while let Some(Waiting { call, number }) =
            self.services.dependency(service, called).take_waiting()
        {
            if self.is_current(call, number) {
                self.begin_call(world, call);
            }
        }
        if fails {
            self.fail_call(world, call, Failure::Call);
        } else {
            self.jobs[job].called += 1;
            self.call_next(world, job);
        }
    }

    /// Ends a call for its server, which has none while it waits for its turn.
    fn release(&mut self, world: &World, call: usize, has_failed: Option<bool>) {
        let Call {
            job,
            number,
            server,
            ..
        } = self.calls[call];
        let Job {
            service, called, ..
        } = self.jobs[job];
        if let Some(server) = server {
            let dependency = self.services.dependency(service, called);
            dependency.end(server, number, world.now, has_failed);
        }
    }

    /// Removes a call without success: the job waits for the other one, if there is one.
    fn fail_call(&mut self, world: &mut World, call: usize, failure: Failure) {
        let Call { job, other, .. } = self.calls.remove(call);
        match other {
            Some(other) => self.calls[other].other = None,
            None => self.end_job(world, job, Err(failure)),
        }
    }

    fn is_current(&self, call: usize, number: u64) -> bool {
        let call = self.calls.get(call);
        call.is_some_and(|call| call.number == number)
    }

    /// Ends a job.
    fn end_job(&mut self, world: &mut World, job: usize, result: Result<(), Failure>) {
        let job = self.jobs.remove(job);
        if job.service == self.services.root() {
            world.tally.ended(world.now, world.now - job.accepted);
        }
        self.services.add_in_progress(job.service, world.now, -1);
        self.freed.push(job.service);
        let result = result.map(|()| job.accepted - job.arrived);
        self.respond(world, job.service, job.caller, result);
    }

    /// Gives a result to the caller, with how long the job waited to be accepted.
    fn respond(
        &mut self,
        world: &mut World,
        service: usize,
        caller: Caller,
        result: Result<u64, Failure>,
    ) {
        match caller {
            Caller::Client { request, attempt } => self.answers.push_back(Answer {
                request,
                attempt,
                result,
            }),
            Caller::Call { call, number } if self.is_current(call, number) => {
                let fails = result.is_err();
                let event = Event::Called {
                    call,
                    number,
                    fails,
                };
                world.add_after(0, event);
            }
            Caller::Call { .. } => self.services.wasted(service),
        }
    }
}

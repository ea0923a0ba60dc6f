//! The simulated driver: no kernel, a virtual clock, and completions chosen by a seed.
//!
//! A seed decides when and how each operation completes: in full, in part, with an error, at once
//! or after others, or in a race with its cancellation. Only a poll for readability waits until it
//! is cancelled. Each operation completes exactly once, except for multishot operations, whose
//! results count up until the last one. Memory is written at the moment of completion, as by the
//! kernel, so it had better still be valid.
//!
//! Cancellations use the protocol of the ring ([`Cancellations`]): the simulated kernel misses some
//! entries, and an operation that waits for an event ends without the kernel.
//!
//! Nothing sleeps here. The simulation ([`World`]) moves the clock, and decides whose wait ends
//! next.

mod ring_features;
mod world;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

pub(crate) use self::world::{Submitted, World};
use super::uring::cancellations::Cancellations;
use super::uring::user_data::Target;
use super::{Completion, Counts, Driver, FLUSH_TIME_MAX, RingFeatures, Start, Token, Wake};
use crate::op::Operation;
use crate::op::fs::FileOperation;
use crate::op::net::{self, Receive, SocketOperation};
use crate::priorities::{ByPriority, Priority};

/// Time for which sends wait for others: several times as long as other operations do.
pub(crate) const GATHER_TIME: Duration = Duration::from_micros(200);

/// The driver of one worker.
pub(crate) struct Sim {
    world: Rc<RefCell<World>>,
    kernel: Rc<RefCell<Kernel>>,
    arrivals: Arrivals,
}

#[allow(unsafe_code, reason = "a simulation has one thread")]
// SAFETY: all workers of a simulation run on the thread that has created it, in turn.
unsafe impl Send for Sim {}

/// Completions and wake-ups of a worker that are not yet reaped.
#[derive(Clone, Default)]
pub(crate) struct Arrivals {
    queue: Arc<Mutex<VecDeque<Arrival>>>,
}

enum Arrival {
    Completion(Token, Completion),
    WakeUp,
}

/// The simulated kernel of one worker, which the simulation reads while the worker sleeps.
#[derive(Default)]
pub(crate) struct Kernel {
    submitted: ByPriority<Flight>,
    /// Number of sends among them, which may wait for others.
    sends: usize,
    /// The priority of the operations that are started.
    priority: Priority,
    in_flight: Vec<Flight>,
    cancellations: Cancellations,
    counts: Counts,
}

/// An operation in flight.
struct Flight {
    token: Token,
    /// The number of the operation among those that were to be submitted.
    number: u64,
    priority: Priority,
    submitted_at: Duration,
    is_send: bool,
    /// `true` if it ends by itself.
    ends: bool,
    /// `true` if it completes again.
    more: bool,
    due: Option<Duration>,
    /// `true` if it waits for an event, which the driver receives without a request.
    waits: bool,
    /// `true` if a request to cancel it has missed it.
    was_missed: bool,
    result: i32,
    /// The buffer that a receiving operation fills on completion.
    buffer: Option<NonNull<[u8]>>,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arrival>> {
        self.queue.lock().expect("nothing panics under it")
    }
}

impl Wake for Arrivals {
    fn wake(&self) {
        self.lock().push_back(Arrival::WakeUp);
    }
}

impl Sim {
    /// Creates a driver in the given world.
    pub(crate) fn new(world: Rc<RefCell<World>>) -> Sim {
        Sim {
            world,
            kernel: Rc::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// Returns a view of this driver that remains usable when the driver is passed to a worker.
    pub(crate) fn wait_view(&self) -> WaitView {
        WaitView {
            origin: self.world.borrow().origin,
            kernel: Rc::clone(&self.kernel),
            arrivals: self.arrivals.clone(),
        }
    }
}

/// Determines when the wait of a worker ends.
pub(crate) struct WaitView {
    /// The time at which the clock was zero.
    origin: Instant,
    kernel: Rc<RefCell<Kernel>>,
    arrivals: Arrivals,
}

impl WaitView {
    /// Returns the time at which the wait ends by itself, if it does: at once after a wake-up,
    /// otherwise with the next completion.
    pub(crate) fn ends_at(&self, clock: Duration) -> Option<Duration> {
        let kernel = self.kernel.borrow();
        if !self.arrivals.lock().is_empty() || !kernel.submitted.is_empty() {
            return Some(clock);
        }
        let completion = kernel
            .in_flight
            .iter()
            .filter_map(|flight| flight.due)
            .min();
        let now = self.origin + clock;
        let cancellation = kernel.cancellations.next(|| now);
        let cancellation = cancellation.map(|pause| clock + pause);
        completion.into_iter().chain(cancellation).min()
    }

    /// Returns `true` if every cancelled operation is known to have ended. Otherwise the worker
    /// does not sleep for long.
    pub(crate) fn has_settled_cancellations(&self) -> bool {
        self.kernel.borrow().cancellations.is_settled()
    }
}

impl Kernel {
    fn flush(&mut self, world: &mut World, arrivals: &Arrivals) {
        let now = world.now();
        if !self.submitted.is_empty() || self.cancellations.next(|| now) == Some(Duration::ZERO) {
            self.counts.enters += 1;
        }
        world.flushes += u64::from(!self.submitted.is_empty());
        self.sends = 0;
        for (_, mut flight) in self.submitted.drain() {
            world.submitted.push(Submitted {
                flush: world.flushes,
                priority: flight.priority,
                number: flight.number,
            });
            let gathered = world.clock - flight.submitted_at;
            let max = if flight.is_send {
                &mut world.sends_gathered_max
            } else {
                &mut world.gathered_max
            };
            *max = gathered.max(*max);
            flight.due = flight.ends.then(|| world.clock + world.latency());
            self.in_flight.push(flight);
        }
        while let Some(Target::Operation(token)) = self.cancellations.take(|| now) {
            let result = self.cancel(token, world);
            self.cancellations.on_answer(token, result, now);
        }
        while let Some(index) = self.choose_due(world) {
            let flight = &mut self.in_flight[index];
            deliver(flight);
            let completion = Completion {
                result: flight.result,
                more: flight.more,
                buffer: None,
            };
            let arrival = Arrival::Completion(flight.token, completion);
            arrivals.lock().push_back(arrival);
            if flight.more {
                flight.go_on(world);
            } else {
                self.in_flight.swap_remove(index);
            }
        }
    }

    /// Handles a request to cancel an operation, and returns its result.
    fn cancel(&mut self, target: Token, world: &mut World) -> i32 {
        let mut flights = self.in_flight.iter_mut();
        let Some(flight) = flights.find(|flight| flight.token == target) else {
            return -Errno::NOENT.raw_os_error();
        };
        // The operation moves from one part of the kernel to another, but not forever.
        if !flight.was_missed && world.below(8) == 0 {
            flight.was_missed = true;
            return -Errno::NOENT.raw_os_error();
        }
        // Too late for half of them, which complete normally.
        if flight.ends && !flight.more && world.below(2) == 0 {
            return -Errno::ALREADY.raw_os_error();
        }
        flight.more = false;
        flight.result = -Errno::CANCELED.raw_os_error();
        flight.due = Some(world.clock);
        0
    }

    /// Ends the wait for an event. Returns `false` if no operation with this token waits.
    fn end_wait(&mut self, target: Token, arrivals: &Arrivals) -> bool {
        let waits = |flight: &Flight| flight.token == target && flight.waits;
        let Some(index) = self.in_flight.iter().position(waits) else {
            return false;
        };
        self.in_flight.swap_remove(index);
        let completion = Completion::last(-Errno::CANCELED.raw_os_error());
        let arrival = Arrival::Completion(target, completion);
        arrivals.lock().push_back(arrival);
        true
    }

    /// Chooses one of the operations that are due, so that completions occur in any order.
    fn choose_due(&self, world: &mut World) -> Option<usize> {
        let due: Vec<_> = (0..self.in_flight.len())
            .filter(|&index| {
                self.in_flight[index]
                    .due
                    .is_some_and(|due| due <= world.clock)
            })
            .collect();
        (!due.is_empty()).then(|| due[world.below(due.len() as u64) as usize])
    }
}

impl Flight {
    /// Creates an operation in flight, and chooses its result.
    fn new(world: &mut World, operation: &mut Operation<'_>, token: Token) -> Flight {
        let (result, buffer) = match operation {
            Operation::Socket(SocketOperation::Receive(Receive { buffer, .. }))
            | Operation::File(FileOperation::Read { buffer, .. }) => (
                outcome(world, buffer.len()),
                Some(NonNull::from(&mut **buffer)),
            ),
            Operation::Socket(SocketOperation::Send(net::Send { buffer, .. }))
            | Operation::File(FileOperation::Write { buffer, .. }) => {
                (outcome(world, buffer.len()), None)
            }
            Operation::Socket(SocketOperation::Poll(poll)) => (polled(poll.events), None),
            _ => (0, None),
        };
        world.gathered += 1;
        Flight {
            token,
            number: world.gathered,
            priority: Priority::Normal,
            submitted_at: world.clock,
            is_send: matches!(operation, Operation::Socket(SocketOperation::Send(_))),
            ends: !is_endless(operation),
            more: matches!(operation, Operation::Multishot(_)),
            due: None,
            waits: false,
            was_missed: false,
            result,
            buffer,
        }
    }

    /// Chooses the next completion of a multishot operation.
    fn go_on(&mut self, world: &mut World) {
        // A burst now and then.
        let latency = match world.below(4) {
            0 => Duration::ZERO,
            _ => world.latency(),
        };
        self.due = Some(world.clock + latency);
        match world.below(16) {
            0 => {
                self.result = -Errno::CONNRESET.raw_os_error();
                self.more = false;
            }
            1 => {
                self.result += 1;
                self.more = false;
            }
            _ => self.result += 1,
        }
    }
}

/// Writes as many bytes as the result says, each the low byte of the count.
#[allow(
    unsafe_code,
    reason = "the kernel's part: it writes into what is borrowed"
)]
fn deliver(flight: &Flight) {
    let (Some(buffer), Ok(count)) = (flight.buffer, usize::try_from(flight.result)) else {
        return;
    };
    let start = buffer.cast::<u8>();
    // SAFETY: the submitter keeps the buffer alive and does not access it until the completion is
    // reaped, and the count is not larger than the buffer.
    unsafe { start.write_bytes(count as u8, count) };
}

/// Chooses the result of an operation on a buffer of this length.
fn outcome(world: &mut World, length: usize) -> i32 {
    match world.below(16) {
        0 => -Errno::CONNRESET.raw_os_error(),
        1 => 0,
        2..8 => length as i32,
        _ => world.below(length as u64 + 1) as i32,
    }
}

/// Returns the result of a poll. A poll for exceptional conditions is refused.
fn polled(events: PollFlags) -> i32 {
    if events.contains(PollFlags::PRI) {
        -Errno::NOSPC.raw_os_error()
    } else {
        i32::from(events.bits())
    }
}

/// Returns `true` if the operation waits for data that never arrives.
fn is_endless(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Socket(SocketOperation::Poll(poll)) => poll.events.contains(PollFlags::IN),
        _ => false,
    }
}

impl Driver for Sim {
    fn description(&self) -> String {
        "simulated".to_owned()
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.arrivals.clone()))
    }

    #[allow(
        unsafe_code,
        reason = "an operation that its caller keeps in place until it has ended"
    )]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        let mut world = self.world.borrow_mut();
        let mut kernel = self.kernel.borrow_mut();
        let (may_succeed, may_wait) = match operation {
            Operation::Socket(SocketOperation::Receive(_)) => (true, true),
            Operation::Socket(SocketOperation::Send(_)) => (true, false),
            _ => (false, false),
        };
        if may_succeed && world.below(4) == 0 {
            let flight = Flight::new(&mut world, operation, token);
            deliver(&flight);
            world.attempted += 1;
            kernel.counts.submissions += 1;
            return Start::Done(match u32::try_from(flight.result) {
                Ok(count) => Ok(count),
                Err(_) => Err(Errno::from_raw_os_error(-flight.result)),
            });
        }
        let waits = may_wait && world.below(4) == 0;
        if !waits && kernel.submitted.len() == world.entries {
            return Start::Full;
        }
        kernel.counts.submissions += 1;
        let awaited = operation.awaited();
        let mut flight = Flight::new(&mut world, operation, token);
        if waits {
            flight.waits = true;
            flight.due = Some(world.clock + world.latency());
            kernel.in_flight.push(flight);
        } else {
            flight.priority = kernel.priority;
            kernel.sends += usize::from(flight.is_send);
            let priority = flight.priority;
            kernel.submitted.push(priority, flight);
        }
        Start::Pending(awaited)
    }

    fn set_priority(&mut self, priority: Priority) {
        self.kernel.borrow_mut().priority = priority;
    }

    fn cancel(&mut self, target: Token) {
        let mut kernel = self.kernel.borrow_mut();
        if !kernel.end_wait(target, &self.arrivals) {
            kernel.cancellations.cancel(target);
        }
    }

    fn flush(&mut self) {
        let mut world = self.world.borrow_mut();
        self.kernel.borrow_mut().flush(&mut world, &self.arrivals);
    }

    fn flush_within(&self) -> Option<Duration> {
        let kernel = self.kernel.borrow();
        match kernel.submitted.len() {
            0 => None,
            sends if sends == kernel.sends => Some(GATHER_TIME),
            _ => Some(FLUSH_TIME_MAX),
        }
    }

    fn is_flushed(&mut self) -> bool {
        self.kernel.borrow().submitted.is_empty()
    }

    /// Returns at once: the simulation has moved the clock before.
    fn wait(&mut self, _: Option<Duration>) {
        self.flush();
    }

    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        let count = self.arrivals.lock().len().min(max);
        let arrived: Vec<_> = self.arrivals.lock().drain(..count).collect();
        let mut woken = false;
        for arrival in arrived {
            match arrival {
                Arrival::Completion(token, completion) => {
                    if !completion.more {
                        self.kernel.borrow_mut().cancellations.on_end(token);
                    }
                    complete(token, completion);
                }
                Arrival::WakeUp => woken = true,
            }
        }
        woken
    }

    fn ring(&mut self) -> Option<&mut dyn RingFeatures> {
        Some(self)
    }

    fn counts(&self) -> Counts {
        self.kernel.borrow().counts
    }

    fn now(&self) -> Instant {
        let world = self.world.borrow();
        world.now()
    }
}

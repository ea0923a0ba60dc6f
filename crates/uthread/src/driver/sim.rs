//! The simulated driver: no kernel, a virtual clock, and completions of a seed's choosing.
//!
//! Whatever an operation asks for, a seed decides when it completes and how: in full, in part, with an
//! error, at once or after others, or in a race with its cancellation; only a poll for what can be read
//! waits until it is cancelled. Each completes exactly once, but for those that complete many times: their
//! results count up until one is the last. What it would write is written at that very moment, as the
//! kernel would: into memory that had better still be there.
//!
//! Cancellations go by the ring's own protocol ([`Cancellations`]): the simulated kernel misses some entries, and an
//! operation that waits for an event ends without the kernel.
//!
//! Nothing here sleeps. Whoever runs the simulation ([`World`]) moves the clock, and decides whose wait
//! ends next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::uring::cancellations::Cancellations;
use super::uring::user_data::Target;
use super::{Completion, Completions, Counts, Driver, Start, Token, Wake};
use crate::op::Operation;
use crate::op::fs::FileOperation;
use crate::op::net::SocketOperation;

/// The longest an operation takes: some ticks of the timers, so that timeouts win and lose.
const LATENCY_MAX: Duration = Duration::from_millis(2);

/// As few as any driver has room for, so that it often gets full.
const ENTRIES_MAX: usize = 3;

/// What all drivers of one simulation share: the clock, and the seed's choices.
pub(crate) struct World {
    origin: Instant,
    clock: Duration,
    random: fastrand::Rng,
    /// The longest that an operation has waited to be passed on.
    gathered_max: Duration,
    /// How many operations were carried out at once.
    attempted: usize,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            origin: Instant::now(),
            clock: Duration::ZERO,
            gathered_max: Duration::ZERO,
            attempted: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Time since the simulation began.
    pub(crate) fn clock(&self) -> Duration {
        self.clock
    }

    fn now(&self) -> Instant {
        self.origin + self.clock
    }

    pub(crate) fn advance_to(&mut self, clock: Duration) {
        assert!(clock >= self.clock, "time does not go back");
        self.clock = clock;
    }

    /// The longest that an operation has waited to be passed on to the kernel.
    pub(crate) fn gathered_max(&self) -> Duration {
        self.gathered_max
    }

    /// How many operations were carried out at once.
    pub(crate) fn attempted(&self) -> usize {
        self.attempted
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    fn latency(&mut self) -> Duration {
        Duration::from_nanos(self.below(LATENCY_MAX.as_nanos() as u64))
    }
}

/// One worker's driver.
pub(crate) struct Sim {
    world: Rc<RefCell<World>>,
    kernel: Rc<RefCell<Kernel>>,
    arrivals: Arrivals,
}

/// What has arrived for a worker and is not yet reaped: completions, and wake-ups among them.
#[derive(Clone, Default)]
pub(crate) struct Arrivals {
    queue: Arc<Mutex<VecDeque<Arrival>>>,
    cancellations: Arc<Cancellations>,
}

enum Arrival {
    Completion(Token, Completion),
    WakeUp,
}

/// The simulated kernel of one worker, which the simulation reads while the worker sleeps.
#[derive(Default)]
pub(crate) struct Kernel {
    submitted: Vec<Flight>,
    in_flight: Vec<Flight>,
    counts: Counts,
}

/// An operation on its way.
struct Flight {
    token: Token,
    submitted_at: Duration,
    /// Whether it ends by itself.
    ends: bool,
    /// Whether it completes again.
    more: bool,
    due: Option<Duration>,
    /// Whether it waits for an event, of which the driver is told without a request.
    waits: bool,
    /// Whether a request to cancel it has missed it.
    was_missed: bool,
    result: i32,
    /// What a receiving operation writes on completion.
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

impl Completions for Arrivals {
    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        let count = self.lock().len().min(max);
        let arrived: Vec<_> = self.lock().drain(..count).collect();
        let mut woken = false;
        for arrival in arrived {
            match arrival {
                Arrival::Completion(token, completion) => {
                    if !completion.more {
                        self.cancellations.on_end(token);
                    }
                    complete(token, completion);
                }
                Arrival::WakeUp => woken = true,
            }
        }
        woken
    }

    fn is_empty(&mut self) -> bool {
        self.lock().is_empty()
    }
}

/// Makes a driver in the given world.
pub(crate) fn new(world: Rc<RefCell<World>>) -> (Sim, Arrivals) {
    let arrivals = Arrivals::default();
    let driver = Sim {
        world,
        kernel: Rc::default(),
        arrivals: arrivals.clone(),
    };
    (driver, arrivals)
}

impl Sim {
    /// A view of this driver that outlives its way into a worker.
    pub(crate) fn wait_view(&self) -> WaitView {
        WaitView {
            origin: self.world.borrow().origin,
            kernel: Rc::clone(&self.kernel),
            arrivals: self.arrivals.clone(),
        }
    }
}

/// What ends the wait of a worker from outside.
pub(crate) struct WaitView {
    /// When the clock stood at zero.
    origin: Instant,
    kernel: Rc<RefCell<Kernel>>,
    arrivals: Arrivals,
}

impl WaitView {
    /// When the wait ends by itself, if ever: at once after a wake-up, else with the next completion.
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
        let cancellations = &self.arrivals.cancellations;
        let now = self.origin + clock;
        let cancellation = cancellations.next(|| now).map(|pause| clock + pause);
        completion.into_iter().chain(cancellation).min()
    }

    /// Whether every cancelled operation is known to have ended: else the worker never sleeps for long.
    pub(crate) fn are_cancellations_over(&self) -> bool {
        self.arrivals.cancellations.are_over()
    }
}

impl Kernel {
    fn flush(&mut self, world: &mut World, arrivals: &Arrivals) {
        let Arrivals { cancellations, .. } = arrivals;
        let now = world.now();
        if !self.submitted.is_empty() || cancellations.next(|| now) == Some(Duration::ZERO) {
            self.counts.enters += 1;
        }
        for mut flight in self.submitted.drain(..) {
            let gathered = world.clock - flight.submitted_at;
            world.gathered_max = world.gathered_max.max(gathered);
            flight.due = flight.ends.then(|| world.clock + world.latency());
            self.in_flight.push(flight);
        }
        while let Some(Target::Operation(token)) = cancellations.take(|| now) {
            let result = self.cancel(token, world);
            cancellations.on_answer(token, result, now);
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

    /// What comes of a request to cancel an operation.
    fn cancel(&mut self, target: Token, world: &mut World) -> i32 {
        let mut flights = self.in_flight.iter_mut();
        let Some(flight) = flights.find(|flight| flight.token == target) else {
            return -Errno::NOENT.raw_os_error();
        };
        // It is on its way from one place of the kernel to another, but not for ever.
        if !flight.was_missed && world.below(8) == 0 {
            flight.was_missed = true;
            return -Errno::NOENT.raw_os_error();
        }
        // Too late for half of them: those complete as they would have.
        if flight.ends && !flight.more && world.below(2) == 0 {
            return -Errno::ALREADY.raw_os_error();
        }
        flight.more = false;
        flight.result = -Errno::CANCELED.raw_os_error();
        flight.due = Some(world.clock);
        0
    }

    /// Ends the wait for an event; false if none of that name waits.
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

    /// One of those that are due, so that completions come in any order.
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
    /// One that is about to begin, and what will come of it.
    fn new(world: &mut World, operation: &mut Operation<'_>, token: Token) -> Flight {
        let (result, buffer) = match operation {
            Operation::Socket(SocketOperation::Receive { buffer, .. })
            | Operation::File(FileOperation::Read { buffer, .. }) => (
                outcome(world, buffer.len()),
                Some(NonNull::from(&mut **buffer)),
            ),
            Operation::Socket(SocketOperation::Send { buffer, .. })
            | Operation::File(FileOperation::Write { buffer, .. }) => {
                (outcome(world, buffer.len()), None)
            }
            Operation::Socket(SocketOperation::Poll { events, .. }) => (polled(*events), None),
            _ => (0, None),
        };
        Flight {
            token,
            submitted_at: world.clock,
            ends: !is_endless(operation),
            more: matches!(operation, Operation::Multishot(_)),
            due: None,
            waits: false,
            was_missed: false,
            result,
            buffer,
        }
    }

    /// Chooses the next completion of one that has many.
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

/// Writes what the kernel would: as many bytes as the result says, each the low byte of the count.
#[allow(
    unsafe_code,
    reason = "the kernel's part: it writes into what is borrowed"
)]
fn deliver(flight: &Flight) {
    let (Some(buffer), Ok(count)) = (flight.buffer, usize::try_from(flight.result)) else {
        return;
    };
    let start = buffer.cast::<u8>();
    // SAFETY: the submitter keeps the buffer alive and untouched until the completion is reaped, and
    // the count is no longer than the buffer.
    unsafe { start.write_bytes(count as u8, count) };
}

/// What the seed lets an operation come to, on a buffer of this length.
fn outcome(world: &mut World, length: usize) -> i32 {
    match world.below(16) {
        0 => -Errno::CONNRESET.raw_os_error(),
        1 => 0,
        2..8 => length as i32,
        _ => world.below(length as u64 + 1) as i32,
    }
}

/// What a poll comes to: one for what is exceptional is refused.
fn polled(events: PollFlags) -> i32 {
    match events.contains(PollFlags::PRI) {
        true => -Errno::NOSPC.raw_os_error(),
        false => i32::from(events.bits()),
    }
}

/// Whether it waits for what nobody writes.
fn is_endless(operation: &Operation<'_>) -> bool {
    let Operation::Socket(SocketOperation::Poll { events, .. }) = operation else {
        return false;
    };
    events.contains(PollFlags::IN)
}

impl Driver for Sim {
    fn description(&self) -> String {
        "simulated".to_owned()
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.arrivals.clone()))
    }

    #[allow(unsafe_code, reason = "the contract's")]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        let mut world = self.world.borrow_mut();
        let mut kernel = self.kernel.borrow_mut();
        let (may_succeed, may_wait) = match operation {
            Operation::Socket(SocketOperation::Receive { .. }) => (true, true),
            Operation::Socket(SocketOperation::Send { .. }) => (true, false),
            _ => (false, false),
        };
        if may_succeed && world.below(4) == 0 {
            let flight = Flight::new(&mut world, operation, token);
            deliver(&flight);
            world.attempted += 1;
            kernel.counts.submissions += 1;
            return Start::Done(flight.result);
        }
        let waits = may_wait && world.below(4) == 0;
        if !waits && kernel.submitted.len() == ENTRIES_MAX {
            return Start::Full;
        }
        kernel.counts.submissions += 1;
        let mut flight = Flight::new(&mut world, operation, token);
        if waits {
            flight.waits = true;
            flight.due = Some(world.clock + world.latency());
            kernel.in_flight.push(flight);
        } else {
            kernel.submitted.push(flight);
        }
        Start::Pending
    }

    fn cancel(&mut self, target: Token) {
        let Arrivals { cancellations, .. } = &self.arrivals;
        let mut kernel = self.kernel.borrow_mut();
        if !kernel.end_wait(target, &self.arrivals) {
            cancellations.cancel(target);
        }
    }

    fn flush(&mut self) {
        let mut world = self.world.borrow_mut();
        self.kernel.borrow_mut().flush(&mut world, &self.arrivals);
    }

    fn needs_flush(&self) -> bool {
        !self.kernel.borrow().submitted.is_empty()
    }

    fn is_flushed(&mut self) -> bool {
        self.kernel.borrow().submitted.is_empty()
    }

    /// Ends at once: the simulation has let the time pass before.
    fn wait(&mut self, _: Option<Duration>) {
        self.flush();
    }

    fn has_ring(&self) -> bool {
        true
    }

    fn counts(&self) -> Counts {
        self.kernel.borrow().counts
    }

    fn now(&self) -> Instant {
        let world = self.world.borrow();
        world.now()
    }
}

//! The simulated driver: no kernel, a virtual clock, and completions of a seed's choosing.
//!
//! Whatever an operation asks for, a seed decides when it completes and how: in full, in part, with an
//! error, at once or after others, or in a race with its cancellation; only a poll for what can be read
//! waits until it is cancelled. Each completes exactly once, but for those that complete many times: their
//! results count up until one is the last. What it would write is written at that very moment, as the
//! kernel would: into memory that had better still be there.
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

use super::{Completion, Completions, Counts, Driver, Token, Wake};
use crate::op::fs::FileOperation;
use crate::op::net::SocketOperation;
use crate::op::{self, Operation};

/// The longest an operation takes: some ticks of the timers, so that timeouts win and lose.
const LATENCY_MAX: Duration = Duration::from_millis(2);

/// As few as any driver has room for, so that it often gets full.
const ENTRIES_MAX: usize = 3;

/// What all drivers of one simulation share: the clock, and the seed's choices.
pub(crate) struct World {
    origin: Instant,
    clock: Duration,
    state: u64,
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
            // Neighbouring seeds shall not begin alike, and zero would stay zero.
            state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Time since the simulation began.
    pub(crate) fn clock(&self) -> Duration {
        self.clock
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

    /// A number below `bound`, which is not zero (xorshift; its period is enough for any simulation).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % bound
    }

    fn latency(&mut self) -> Duration {
        Duration::from_nanos(self.below(LATENCY_MAX.as_nanos() as u64))
    }
}

/// One worker's driver.
pub(crate) struct Sim {
    world: Rc<RefCell<World>>,
    seat: Rc<RefCell<Seat>>,
    arrivals: Arrivals,
}

/// What has arrived for a worker and is not yet reaped: completions, and wake-ups among them.
#[derive(Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<VecDeque<Arrival>>>);

enum Arrival {
    Completion(Token, Completion),
    WakeUp,
}

/// What the simulation must know of a driver while its worker sleeps.
#[derive(Default)]
pub(crate) struct Seat {
    submitted: Vec<Flight>,
    in_flight: Vec<Flight>,
    cancels: Vec<Token>,
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
    result: i32,
    /// What a receiving operation writes on completion.
    buffer: Option<NonNull<[u8]>>,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arrival>> {
        self.0.lock().expect("nothing panics under it")
    }
}

impl Wake for Arrivals {
    fn wake(&self) {
        self.lock().push_back(Arrival::WakeUp);
    }
}

impl Completions for Arrivals {
    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        let mut arrivals = self.lock();
        let count = arrivals.len().min(max);
        let mut woken = false;
        for arrival in arrivals.drain(..count) {
            match arrival {
                Arrival::Completion(token, completion) => complete(token, completion),
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
        seat: Rc::default(),
        arrivals: arrivals.clone(),
    };
    (driver, arrivals)
}

impl Sim {
    /// A view of this driver that outlives its way into a worker.
    pub(crate) fn watch(&self) -> Watch {
        Watch {
            seat: Rc::clone(&self.seat),
            arrivals: self.arrivals.clone(),
        }
    }
}

/// What ends the wait of a worker from outside.
pub(crate) struct Watch {
    seat: Rc<RefCell<Seat>>,
    arrivals: Arrivals,
}

impl Watch {
    /// When the wait ends by itself, if ever: at once after a wake-up, else with the next completion.
    pub(crate) fn ends_at(&self, clock: Duration) -> Option<Duration> {
        let seat = self.seat.borrow();
        let at_once = !self.arrivals.lock().is_empty()
            || !seat.submitted.is_empty()
            || !seat.cancels.is_empty();
        if at_once {
            return Some(clock);
        }
        seat.in_flight.iter().filter_map(|flight| flight.due).min()
    }
}

impl Seat {
    fn flush(&mut self, world: &mut World, arrivals: &Arrivals) {
        if !self.submitted.is_empty() || !self.cancels.is_empty() {
            self.counts.enters += 1;
        }
        for mut flight in self.submitted.drain(..) {
            let gathered = world.clock - flight.submitted_at;
            world.gathered_max = world.gathered_max.max(gathered);
            flight.due = flight.ends.then(|| world.clock + world.latency());
            self.in_flight.push(flight);
        }
        for target in self.cancels.drain(..) {
            let found = self
                .in_flight
                .iter_mut()
                .find(|flight| flight.token == target);
            // Too late for half of them: those complete as they would have.
            if let Some(flight) = found
                && (!flight.ends || world.below(2) == 0 || flight.more)
            {
                if flight.result == op::READY {
                    // Of those only what ends them is counted.
                    self.counts.submissions += 1;
                }
                flight.more = false;
                flight.result = -Errno::CANCELED.raw_os_error();
                flight.due = Some(world.clock);
            }
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
    unsafe fn submit(&mut self, operation: &mut Operation<'_>, token: Token) {
        assert!(self.has_room(1), "whoever submits has looked for room");
        let flight = Flight::new(&mut self.world.borrow_mut(), operation, token);
        let mut seat = self.seat.borrow_mut();
        seat.counts.submissions += 1;
        seat.submitted.push(flight);
    }

    fn attempt(&mut self, operation: &mut Operation<'_>) -> Option<i32> {
        let mut world = self.world.borrow_mut();
        let may_succeed = matches!(
            operation,
            Operation::Socket(SocketOperation::Receive { .. } | SocketOperation::Send { .. })
        );
        if !may_succeed || world.below(4) > 0 {
            return None;
        }
        let flight = Flight::new(&mut world, operation, Token(0));
        deliver(&flight);
        world.attempted += 1;
        self.seat.borrow_mut().counts.submissions += 1;
        Some(flight.result)
    }

    fn await_event(&mut self, operation: &Operation<'_>, token: Token) -> bool {
        let mut world = self.world.borrow_mut();
        let may_wait = matches!(
            operation,
            Operation::Socket(SocketOperation::Receive { .. })
        );
        if !may_wait || world.below(4) > 0 {
            return false;
        }
        let due = world.clock + world.latency();
        self.seat.borrow_mut().in_flight.push(Flight {
            token,
            submitted_at: world.clock,
            ends: true,
            more: false,
            due: Some(due),
            result: op::READY,
            buffer: None,
        });
        true
    }

    fn has_room(&mut self, entries: usize) -> bool {
        let seat = self.seat.borrow();
        seat.submitted.len() + seat.cancels.len() + entries <= ENTRIES_MAX
    }

    fn cancel(&mut self, target: Token) {
        assert!(self.has_room(1), "whoever submits has looked for room");
        self.seat.borrow_mut().cancels.push(target);
    }

    fn flush(&mut self) {
        let mut world = self.world.borrow_mut();
        self.seat.borrow_mut().flush(&mut world, &self.arrivals);
    }

    fn is_flushed(&mut self) -> bool {
        let seat = self.seat.borrow();
        seat.submitted.is_empty() && seat.cancels.is_empty()
    }

    /// Ends at once: the simulation has let the time pass before.
    fn wait(&mut self, _: Option<Duration>) {
        self.flush();
    }

    fn has_ring(&self) -> bool {
        true
    }

    fn counts(&self) -> Counts {
        self.seat.borrow().counts
    }

    fn now(&self) -> Instant {
        let world = self.world.borrow();
        world.origin + world.clock
    }
}

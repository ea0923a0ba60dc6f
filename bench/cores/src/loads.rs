//! The workloads.

use std::collections::VecDeque;

use crate::memory::{Line, Memory};
use crate::runtime::Calls;
use crate::scheduler::{Load, NEW};

/// Mean time between two messages of a worker of the lightly loaded server: 30,000 per second.
const MESSAGE_GAP_NS: f64 = 1e9 / 30_000.0;

/// Work for a message, with its system calls.
const MESSAGE_NS: u64 = 10_000;

/// Number of connections of a worker of the saturated server with a message at any time.
const MESSAGES: usize = 16;

/// Number of parts of a fork and join, as a power of two, and the work of each.
const DEPTH: u64 = 12;
const PART_NS: u64 = 10_000;

/// Work for splitting a part.
const SPLIT_NS: u64 = 300;

/// Work of a fiber that is spawned from outside, and of the thread that spawns it.
const INJECTED_NS: u64 = 5_000;
const INJECT_NS: u64 = 3_500;

/// Number of fibers in the injector above which outside threads wait.
const INJECTED_MAX: usize = 4096;

/// Work between receiving a message and sending the next one.
const PING_NS: u64 = 1_000;

/// Work of a fiber that is spawned and joined.
const SPAWNED_NS: u64 = 1_000;

/// `BLOCK` of fiber/control.rs.
const IDS_PER_BLOCK: u64 = 64;

/// Work for an accept, and for a connection afterwards.
const ACCEPT_NS: u64 = 5_000;
const CONNECTION_NS: u64 = 10_000;

/// Number of ready fibers of a worker up to which it accepts connections.
const READY_MAX: usize = 8;

/// Time for which a contended lock is held.
const HELD_NS: u64 = 500;

/// An echo server whose workers sleep between messages.
pub(crate) struct Light {
    next: Vec<f64>,
    random: fastrand::Rng,
}

impl Light {
    pub(crate) fn new(workers: usize, seed: u64) -> Light {
        let mut light = Light {
            next: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        };
        light.next = (0..workers).map(|_| light.gap()).collect();
        light
    }

    fn gap(&mut self) -> f64 {
        -(1.0 - self.random.f64()).ln() * MESSAGE_GAP_NS
    }
}

impl Load for Light {
    fn work_ns(&self, _: u64) -> u64 {
        MESSAGE_NS
    }

    fn poll(&mut self, core: usize, now: u64, ready: &mut VecDeque<u64>) {
        while self.next[core] as u64 <= now {
            ready.push_back(0);
            self.next[core] += self.gap();
        }
    }

    fn next_event(&self, core: usize) -> Option<u64> {
        Some(self.next[core] as u64)
    }

    fn run(&mut self, calls: &mut Calls<'_>, _: usize, _: u64, _: &mut VecDeque<u64>) {
        calls.done();
    }
}

/// An echo server whose workers never sleep.
pub(crate) struct Saturated;

impl Load for Saturated {
    fn work_ns(&self, _: u64) -> u64 {
        MESSAGE_NS
    }

    fn poll(&mut self, _: usize, _: u64, ready: &mut VecDeque<u64>) {
        ready.resize(MESSAGES, 0);
    }

    fn run(&mut self, calls: &mut Calls<'_>, _: usize, _: u64, _: &mut VecDeque<u64>) {
        calls.done();
    }
}

/// A fork and join of many parts, again and again. A fiber is the number of times that it is split.
#[derive(Default)]
pub(crate) struct Tree {
    is_started: bool,
    left: u64,
}

impl Load for Tree {
    fn work_ns(&self, fiber: u64) -> u64 {
        match fiber {
            0 => PART_NS,
            _ => 2 * SPLIT_NS,
        }
    }

    fn poll(&mut self, core: usize, _: u64, ready: &mut VecDeque<u64>) {
        if core == 0 && !std::mem::replace(&mut self.is_started, true) {
            ready.push_back(DEPTH + 1);
        }
    }

    fn run(&mut self, calls: &mut Calls<'_>, _: usize, fiber: u64, _: &mut VecDeque<u64>) {
        if fiber == 0 {
            calls.done();
            self.left -= 1;
            if self.left == 0 {
                calls.mail(0, DEPTH + 1);
            }
            return;
        }
        if fiber > DEPTH {
            self.left = 1 << DEPTH;
            calls.push_new(DEPTH);
            return;
        }
        for _ in 0..2 {
            calls.push_new(fiber - 1);
        }
    }
}

/// Fibers that threads outside of the workers spawn.
pub(crate) struct Injected;

impl Load for Injected {
    fn work_ns(&self, _: u64) -> u64 {
        INJECTED_NS
    }

    fn run(&mut self, calls: &mut Calls<'_>, _: usize, _: u64, _: &mut VecDeque<u64>) {
        calls.done();
    }

    fn run_outside(&mut self, calls: &mut Calls<'_>) {
        if calls.injected() < INJECTED_MAX {
            calls.inject(0);
        }
        calls.work(INJECT_NS);
    }
}

/// Pairs of fibers on two workers, which use a line of the program in turn.
struct Pairs {
    lines: Vec<Line>,
    is_started: Vec<bool>,
}

impl Pairs {
    fn new(memory: &mut Memory, workers: usize, name: &'static str) -> Pairs {
        Pairs {
            lines: (0..workers / 2).map(|_| memory.add(name)).collect(),
            is_started: vec![false; workers],
        }
    }

    fn start(&mut self, core: usize, ready: &mut VecDeque<u64>) {
        let is_first = core < self.lines.len();
        if is_first && !std::mem::replace(&mut self.is_started[core], true) {
            ready.push_back(0);
        }
    }

    fn peer(&self, core: usize) -> usize {
        (core + self.lines.len()) % self.is_started.len()
    }

    fn line(&self, core: usize) -> Line {
        self.lines[core % self.lines.len()]
    }
}

/// Pairs of fibers that send each other a message through a channel.
pub(crate) struct PingPong(Pairs);

impl PingPong {
    pub(crate) fn new(memory: &mut Memory, workers: usize) -> PingPong {
        PingPong(Pairs::new(memory, workers, "channel"))
    }
}

impl Load for PingPong {
    fn work_ns(&self, _: u64) -> u64 {
        PING_NS
    }

    fn poll(&mut self, core: usize, _: u64, ready: &mut VecDeque<u64>) {
        self.0.start(core, ready);
    }

    fn run(&mut self, calls: &mut Calls<'_>, core: usize, _: u64, _: &mut VecDeque<u64>) {
        let channel = self.0.line(core);
        calls.modify_own(channel);
        calls.modify_own(channel);
        calls.mail(self.0.peer(core), 0);
        calls.done();
    }
}

/// Pairs of fibers that wait for each other's lock in the parking lot: `write_contended` and
/// `hand_over` of sync/lock.rs.
pub(crate) struct Locks(Pairs);

impl Locks {
    pub(crate) fn new(memory: &mut Memory, workers: usize) -> Locks {
        Locks(Pairs::new(memory, workers, "lock"))
    }
}

impl Load for Locks {
    fn work_ns(&self, _: u64) -> u64 {
        HELD_NS
    }

    fn poll(&mut self, core: usize, _: u64, ready: &mut VecDeque<u64>) {
        self.0.start(core, ready);
    }

    fn run(&mut self, calls: &mut Calls<'_>, core: usize, _: u64, _: &mut VecDeque<u64>) {
        let (lock, peer) = (self.0.line(core), self.0.peer(core));
        let address = core.min(peer) as u64;
        // The waiter sees that it was dequeued, takes the lock, and looks for others.
        calls.with_queue(address);
        calls.modify_own(lock);
        calls.with_queue(address);
        // The waiter hands the lock over.
        calls.modify_own(lock);
        calls.with_queue(address);
        calls.modify_own(lock);
        calls.mail(peer, 0);
        // The waiter enqueues itself again.
        calls.modify_own(lock);
        calls.with_queue(address);
        calls.done();
    }
}

/// A fiber per worker that spawns another one and joins it. A child is the number of its parent's
/// worker; a parent is `PARENT`.
pub(crate) struct Spawns {
    is_started: Vec<bool>,
    spawned: Vec<u64>,
}

/// See [`Spawns`].
const PARENT: u64 = 1 << 32;

impl Spawns {
    pub(crate) fn new(workers: usize) -> Spawns {
        Spawns {
            is_started: vec![false; workers],
            spawned: vec![0; workers],
        }
    }
}

impl Load for Spawns {
    fn work_ns(&self, fiber: u64) -> u64 {
        match fiber {
            PARENT => 0,
            _ => SPAWNED_NS,
        }
    }

    fn poll(&mut self, core: usize, _: u64, ready: &mut VecDeque<u64>) {
        if !std::mem::replace(&mut self.is_started[core], true) {
            ready.push_back(PARENT);
        }
    }

    fn run(&mut self, calls: &mut Calls<'_>, core: usize, fiber: u64, ready: &mut VecDeque<u64>) {
        if fiber == PARENT {
            if self.spawned[core].is_multiple_of(IDS_PER_BLOCK) {
                calls.take_ids();
            }
            self.spawned[core] += 1;
            calls.push_new(core as u64);
            return;
        }
        calls.done();
        if fiber == core as u64 {
            ready.push_back(PARENT);
        } else {
            calls.mail(fiber as usize, PARENT);
        }
    }
}

/// Workers that accept connections and hand each to the next worker in turn.
pub(crate) struct Accepts;

impl Load for Accepts {
    fn work_ns(&self, fiber: u64) -> u64 {
        match fiber {
            NEW => CONNECTION_NS,
            _ => ACCEPT_NS,
        }
    }

    fn poll(&mut self, _: usize, _: u64, ready: &mut VecDeque<u64>) {
        if ready.len() < READY_MAX {
            ready.push_back(0);
        }
    }

    fn run(&mut self, calls: &mut Calls<'_>, _: usize, fiber: u64, _: &mut VecDeque<u64>) {
        if fiber == NEW {
            calls.done();
        } else {
            calls.hand(NEW);
        }
    }
}

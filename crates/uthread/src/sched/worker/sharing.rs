//! Sharing started fibers: a worker that has not slept for long, and has several fibers ready, gives
//! some of them to a worker that has fewer.
//!
//! Only the worker itself looks at its fibers, between two batches, so its queues need no lock. It
//! gives away what is ready: no operation of such a fiber is in flight, apart from those that
//! complete many times, and nobody is about to wake it. What it has left behind is found by the
//! index of the worker ([`OperationId`](crate::sched::reactor::operations::OperationId)) or reaches
//! the fiber through the mail of its new worker.
//!
//! A move takes some microseconds: the fiber's memory is in the caches of another CPU, and its
//! connections are registered with another epoll instance. So fibers that only pass messages stay
//! together.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Worker;
use super::alerts::Alerts;
use super::queues::Queues;
use crate::fiber::{FiberRef, Started, wake};
use crate::root::EventKind;
#[cfg(test)]
use crate::sched::fast_rand;
use crate::sched::shared::{self, Mail, Remote};

/// Time without a sleep after which a worker may give fibers away; and the wait of a ready fiber
/// that is long. Much longer than it takes to wake a worker.
const LONG: Duration = Duration::from_millis(1);

/// Average time of a turn that is long beside a move.
const LONG_TURN: Duration = Duration::from_micros(20);

/// Two busy workers share only if their numbers of ready fibers differ by more than this part of the
/// larger one: smaller differences come and go.
const NOISE: usize = 8;

/// Maximum number of iterations of the loop between two looks at the clock, each of which runs a
/// batch of fibers.
const SKIPPED_MAX: u64 = 64;

/// Number of iterations before the next look of a worker that has nothing to share.
const SKIPPED_WITHOUT_LOAD: u64 = 7;

/// What a worker knows of its latest turns.
pub(super) struct Sharing {
    /// Number of iterations before the next look.
    left: Cell<u64>,
    /// Number of iterations between the latest two looks.
    skipped: Cell<u64>,
    window: Cell<Option<Window>>,
}

/// Successive turns without a sleep.
#[derive(Clone, Copy)]
struct Window {
    begin: Instant,
    switches: u64,
    sleeps: u64,
}

/// How much the ready fibers of a worker have to wait.
#[derive(Clone, Copy)]
struct Load {
    ready: usize,
    /// The average turn is long.
    long_turns: bool,
    /// The last one waits for long.
    long_wait: bool,
}

impl Sharing {
    pub(super) fn new(queues: &Queues) -> Sharing {
        let never = queues.shared.sharing == shared::SharePolicy::Never;
        Sharing {
            left: Cell::new(if never { u64::MAX } else { 0 }),
            skipped: Cell::default(),
            window: Cell::default(),
        }
    }

    /// Returns `true` if the worker has to look whether to share.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.wrapping_sub(1));
        left == 0
    }

    /// Chooses when to look next, so that most looks end a window of [`LONG`].
    fn skip(&self, elapsed: Duration) {
        let skipped = self.skipped.get();
        self.skipped.set(if elapsed < LONG / 2 {
            (2 * skipped + 1).min(SKIPPED_MAX)
        } else {
            skipped / 2
        });
    }

    /// Returns the load once per [`LONG`], if there is anything to share.
    fn measure(&self, queues: &Queues, now: Instant) -> Option<Load> {
        let counters = &queues.remote.counters;
        let window = Window {
            begin: now,
            switches: counters.switches.get(),
            sleeps: counters.sleeps.get(),
        };
        let last = self
            .window
            .get()
            .filter(|last| last.sleeps == window.sleeps);
        let Some(last) = last else {
            self.window.set(Some(window));
            return None;
        };
        let elapsed = now.saturating_duration_since(last.begin);
        self.skip(elapsed);
        if elapsed < LONG {
            return None;
        }
        self.window.set(Some(window));
        let switches = window.switches.wrapping_sub(last.switches).max(1);
        let turn = elapsed.as_nanos() / u128::from(switches);
        let ready = queues.ready.normal();
        Some(Load {
            ready,
            long_turns: turn >= LONG_TURN.as_nanos(),
            long_wait: turn * ready as u128 >= LONG.as_nanos(),
        })
    }
}

impl Load {
    /// Returns how many fibers to give to another worker.
    fn excess_over(self, other: &Remote) -> usize {
        let difference = self.ready.saturating_sub(other.ready_fibers());
        let is_worthwhile = if other.is_asleep() {
            self.long_turns || self.long_wait
        } else {
            self.long_turns && self.long_wait && difference > self.ready / NOISE
        };
        if is_worthwhile { difference / 2 } else { 0 }
    }
}

impl Worker {
    /// Gives ready fibers to another worker, if they wait for long here and for a shorter time
    /// there. Called by the loop, while the thread pointer is that of its thread.
    #[cold]
    pub(super) fn share_fibers(&self) {
        let queues = &self.queues;
        self.sharing.left.set(SKIPPED_WITHOUT_LOAD);
        // A priority, a probe or a panic depends on which fibers run here.
        let is_bound = queues.ready.is_ordered() || queues.ready.is_probed();
        if is_bound || queues.ready.normal() < 2 || queues.alerts.has(Alerts::PANICS) {
            return;
        }
        self.sharing.left.set(self.sharing.skipped.get());
        let Some(load) = self.sharing.measure(queues, self.io.now()) else {
            return;
        };
        if queues.shared.is_shut_down() {
            return;
        }
        let others = queues.shared.victims(queues.index);
        let others = others.filter(|other| queues.shared.is_active(other.index as usize));
        let given = others.map(|other| (load.excess_over(other), other));
        if let Some((count, other)) = given.max_by_key(|(count, _)| *count)
            && count > 0
        {
            self.give(other, count);
        }
    }

    /// Gives this number of ready fibers to another worker.
    #[cold]
    fn give(&self, other: &Remote, count: usize) {
        let queues = &self.queues;
        self.begin_giving();
        for _ in 0..count {
            let Some(fiber) = queues.ready.pop_staying() else {
                return;
            };
            if !self.is_movable(fiber) {
                queues.make_ready(fiber);
                continue;
            }
            if !self.send(fiber, other) {
                return;
            }
        }
    }

    /// Prepares for fibers that [go](Worker::send) to other workers.
    pub(super) fn begin_giving(&self) {
        self.queues.shared.record_move();
        // The runner of the fiber that has run last may go.
        self.queues.remote.handover.forget_record();
    }

    /// Sends a ready fiber to another worker. Returns `false` if that has ended, and keeps the fiber.
    pub(super) fn send(&self, fiber: Started, other: &Remote) -> bool {
        let fiber = self.fibers.part_with(fiber, &self.queues, &self.io);
        let Some(Mail::Moved(fiber)) = other.mail(Mail::Moved(fiber)) else {
            return true;
        };
        self.adopt(fiber);
        false
    }

    /// Returns `true` unless the fiber uses the thread-local storage of its thread, as there was no
    /// memory for its own; or panics, which its worker counts.
    pub(super) fn is_movable(&self, fiber: Started) -> bool {
        let control = fiber.control();
        let has_storage = self.tls.is_none() || control.thread_pointer().is_some();
        has_storage && !control.panics.get() && !control.in_panic_hook.get()
    }

    /// Makes a ready fiber, which another worker has given away, one of this worker.
    pub(super) fn adopt(&self, fiber: FiberRef) {
        if let Some(record) = fiber.control().record() {
            record.claim.name(std::ptr::from_ref(self).cast());
        }
        if self.ending.has_begun() {
            // As it was on no worker when those cancelled their fibers.
            fiber.control().limits.cancel();
            wake(&fiber);
        }
        let fiber = self.fibers.adopt(fiber, &self.queues, &self.io);
        self.queues.remote.counters.steals.add(1);
        if self.queues.is_traced() {
            let id = fiber.control().id().get();
            self.queues.trace_moment(EventKind::Move, id, 0);
        }
        self.queues.make_ready(fiber);
    }
}

#[cfg(test)]
impl Worker {
    /// Gives a random number of ready fibers to each of the others, now and then, if the workers
    /// share at random.
    pub(super) fn share_at_random(&self) {
        let queues = &self.queues;
        if queues.shared.sharing == shared::SharePolicy::AtRandom && fast_rand::below(4) == 0 {
            let others = queues.shared.victims(queues.index);
            for other in others.filter(|other| queues.shared.is_active(other.index as usize)) {
                let count = fast_rand::below(queues.ready.normal() + 1);
                self.give(other, count);
            }
        }
    }
}

//! What one worker keeps for fibers that do not run: their operations, their timers, and where results
//! arrive; and every fiber that started here.
//!
//! Where fibers migrate, an idle worker serves the reactor of one that is busy: it collects results and
//! expires timers, as long as the [`ReapGate`] is open.

use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use super::intake::Note;
use super::operations::{Operations, Woken};
use super::reap_gate::ReapGate;
use super::timers::{self, Timers};
use crate::driver::{Completion, Completions, Token};
use crate::fiber::{Control, FiberRef, Started, end_park};
use crate::op;

/// Completions collected at once: some batches of fibers, so that a flood of them holds up neither fibers
/// nor timers.
const COLLECTED_MAX: usize = 256;

/// Completions collected for another worker: it may be back any moment and want its share.
const SERVED_MAX: usize = 32;

pub(crate) struct Reactor {
    /// None when the worker has ended.
    completions: Option<Box<dyn Completions>>,
    pub(crate) reap_gate: ReapGate,
    /// What has arrived, while it is handed out; otherwise empty.
    arrived: Vec<(Token, Completion)>,
    operations: Operations,
    timers: Timers<Expiry>,
    /// Operations whose time is over, to be cancelled by the worker whose driver has them.
    late: Vec<Token>,
    /// Every fiber that started here and has not ended.
    live: Slab<FiberRef>,
}

/// What an expired timer does.
enum Expiry {
    /// Ends a park. Counted: the fiber may have gone on, and ended, when its timer expires.
    Wake(FiberRef),
    TimeOut(Token),
}

impl Reactor {
    /// A reactor whose timers count from `origin`.
    pub(crate) fn new(completions: Box<dyn Completions>, origin: Instant) -> Reactor {
        Reactor {
            completions: Some(completions),
            reap_gate: ReapGate::default(),
            arrived: Vec::new(),
            operations: Operations::default(),
            timers: Timers::new(origin),
            late: Vec::new(),
            live: Slab::new(),
        }
    }

    /// Keeps a fiber until it has ended; its place.
    pub(crate) fn admit(&mut self, fiber: FiberRef) -> u32 {
        u32::try_from(self.live.insert(fiber)).expect("4 billion fibers exhaust memory")
    }

    /// Gives a fiber back that has ended.
    pub(crate) fn discharge(&mut self, place: u32) -> FiberRef {
        self.live.remove(place as usize)
    }

    pub(crate) fn fiber(&self, place: u32) -> &FiberRef {
        &self.live[place as usize]
    }

    pub(crate) fn fibers(&self) -> impl Iterator<Item = &FiberRef> {
        self.live.iter().map(|(_, fiber)| fiber)
    }

    /// Notes that `fiber` waits for an operation, urgent or not, until the deadline if there is one; the
    /// name of the operation.
    pub(crate) fn begin(
        &mut self,
        fiber: Started,
        urgent: bool,
        deadline: Option<Instant>,
    ) -> Token {
        let token = self.operations.insert(fiber, urgent);
        if let Some(deadline) = deadline {
            let timer = self.timers.insert(deadline, Expiry::TimeOut(token));
            self.operations.set_timer(token, timer);
        }
        token
    }

    /// Notes that an operation was begun of which `note` is told; its name.
    pub(super) fn begin_noted(&mut self, note: Arc<dyn Note>, urgent: bool) -> Token {
        self.operations.insert_noted(note, urgent)
    }

    /// Has an operation cancelled by the worker whose driver has it, unless it has ended.
    pub(crate) fn end(&mut self, token: Token) {
        if self.operations.time_out(token) {
            self.late.push(token);
        }
    }

    /// Wakes the fiber at the deadline, unless that is cancelled.
    pub(crate) fn wake_at(&mut self, deadline: Instant, fiber: FiberRef) -> timers::Key {
        self.timers.insert(deadline, Expiry::Wake(fiber))
    }

    /// Cancels that. Whoever is woken has ended by itself that for which it waited.
    pub(crate) fn forget_wake(&mut self, timer: timers::Key) {
        self.timers.cancel(timer);
    }

    /// Hands out fibers whose operations have ended, and whether each is urgent; how many have. Called by the
    /// owner.
    pub(crate) fn collect(&mut self, ready: impl FnMut(Started, bool)) -> u64 {
        self.reap(COLLECTED_MAX, ready).0
    }

    /// The same and, besides, what [`Reactor::expire`] does, on behalf of the owner, unless that one sleeps.
    pub(crate) fn serve(&mut self, now: Instant, mut ready: impl FnMut(Started, bool)) -> u64 {
        if self.reap_gate.is_closed() {
            return 0;
        }
        let (count, woken) = self.reap(SERVED_MAX, &mut ready);
        if woken {
            self.reap_gate.record_wake_up();
        }
        self.expire(now, |fiber| ready(fiber, false));
        count
    }

    /// Whether [`serve`](Reactor::serve) would find something.
    pub(crate) fn has_something(&mut self, now: Instant) -> bool {
        let completions = self.completions.as_mut();
        !self.reap_gate.is_closed()
            && (completions.is_some_and(|completions| !completions.is_empty())
                || self
                    .timers
                    .next_deadline()
                    .is_some_and(|deadline| deadline <= now))
    }

    fn reap(&mut self, max: usize, mut ready: impl FnMut(Started, bool)) -> (u64, bool) {
        let Some(completions) = &mut self.completions else {
            return (0, false);
        };
        let arrived = &mut self.arrived;
        let woken = completions.reap(max, &mut |token, completion| {
            arrived.push((token, completion))
        });
        // All first: the misses of thousands of fibers overlap.
        for (token, _) in &*arrived {
            self.operations.prefetch(*token);
        }
        let mut count = 0;
        for (token, completion) in arrived.drain(..) {
            // One that is only ready is counted when it has been carried out.
            count += u64::from(!completion.more && completion.result != op::READY);
            let completed = self.operations.complete(token, completion);
            if let Some(timer) = completed.timer {
                self.timers.cancel(timer);
            }
            if completed.is_full {
                self.late.push(token);
            }
            let fiber = match completed.woken {
                Woken::Resumed(fiber) => Some(fiber),
                Woken::Unparked(fiber) => end_park(&fiber).map(|(_, fiber)| fiber),
                Woken::Nobody => None,
            };
            if let Some(fiber) = fiber {
                ready(fiber, completed.urgent);
            }
        }
        (count, woken)
    }

    /// The owner has ended: nothing arrives any more.
    pub(crate) fn shut(&mut self) {
        self.completions = None;
    }

    /// Whether a timer is pending.
    pub(crate) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Hands out fibers that have slept long enough. Operations past their deadline become late.
    pub(crate) fn expire(&mut self, now: Instant, mut ready: impl FnMut(Started)) {
        let (operations, late) = (&mut self.operations, &mut self.late);
        self.timers.expire(now, |expiry| match expiry {
            Expiry::Wake(fiber) => {
                if let Some((_, fiber)) = end_park(&fiber) {
                    ready(fiber);
                }
            }
            Expiry::TimeOut(token) => {
                if operations.time_out(token) {
                    late.push(token);
                }
            }
        });
    }

    /// An operation that is late, once.
    pub(crate) fn take_late(&mut self) -> Option<Token> {
        self.late.pop()
    }

    /// Whether an operation has not ended.
    pub(crate) fn has(&mut self, token: Token) -> bool {
        self.operations.has(token)
    }

    /// When to look at the timers again.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// The operations of chosen fibers become late.
    pub(crate) fn cancel_of(&mut self, chosen: impl Fn(&Control) -> bool) {
        self.late.extend(self.operations.tokens_of(chosen));
    }

    /// The operation of this fiber becomes late, if it has one here and may not wait any more.
    pub(crate) fn interrupt(&mut self, fiber: &Control) {
        // Looked at only where it waits here: a fiber that runs changes its limits.
        if let Some(token) = self.operations.token_of(fiber)
            && fiber.limits.is_cancelled(false)
        {
            self.late.push(token);
        }
    }

    /// Whether nobody started here who has not ended.
    pub(crate) fn is_deserted(&self) -> bool {
        self.live.is_empty() && self.operations.is_empty()
    }

    /// Whether no operation is in flight and no timer pending.
    pub(crate) fn has_nothing_to_come(&self) -> bool {
        self.operations.is_empty() && self.timers.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn assert_nothing_waits(&self) {
        assert!(self.operations.is_empty(), "an operation is left");
        assert!(self.timers.is_empty(), "a timer is left");
    }
}

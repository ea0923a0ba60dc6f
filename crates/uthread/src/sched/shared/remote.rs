//! The part of a worker that others access.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;

use super::abandonment::Decision;
use super::counters::Counters;
use super::delays::Delays;
use super::events::Events;
use super::gauge::Gauge;
use super::handover::Handover;
use super::history::History;
use super::idle::{Idle, Sleeper};
use super::listing::Listing;
use crate::atomic::lock;
use crate::clock::VirtualClock;
use crate::driver::native::blocked::Task;
use crate::driver::{Token, Wake};
use crate::fiber::{Control, FiberRef, Started};
use crate::sched::queues::inbox::Inbox;
use crate::sched::queues::new_fibers::{NewFibers, NewFibersHandle};
use crate::sched::queues::ready::Ready;
use crate::sched::reactor::timers;

/// The ends of one worker's queues that only the worker itself uses.
pub(crate) struct LocalEnds {
    pub(in crate::sched) new: NewFibers,
    pub(in crate::sched) ready: Ready,
}

/// CPU time without a switch after which a fiber computes for long.
const COMPUTED: Duration = Duration::from_micros(300);

/// The workers of a runtime, as those see them that may outlive the runtime. Set before it runs.
pub(in crate::sched) type Peers = OnceLock<Vec<Weak<Remote>>>;

/// The part of a worker that others access.
pub(crate) struct Remote {
    pub(in crate::sched) index: u32,
    pub(super) new: NewFibersHandle,
    pub(in crate::sched) inbox: Inbox<Mail>,
    /// Number of new fibers in the inbox, which others may take over. Relaxed: like the inbox, the
    /// fences of the idle protocol let a last check see it; other readers only check once more.
    pub(in crate::sched) handed: AtomicUsize,
    pub(in crate::sched) sleeper: Sleeper,
    /// One more than the number of switches at which the worker, which has slept for long, had
    /// neither an operation in flight nor a timer. Zero if there is none.
    quiescent_after: AtomicU64,
    /// The worker's thread, once it runs.
    pub(in crate::sched) task: AtomicCell<Option<Task>>,
    pub(in crate::sched) handover: Handover,
    pub(in crate::sched) counters: Counters,
    pub(in crate::sched) history: History,
    pub(in crate::sched) events: Events,
    /// Number of ready fibers in the queues that only the worker accesses, while it runs.
    pub(in crate::sched) ready: Gauge,
    /// Set before the first probe is sent.
    delays: OnceLock<Box<Delays>>,
    pub(in crate::sched) idle: Arc<Idle>,
    /// The runtime's decision.
    pub(in crate::sched) abandonment: Arc<Decision>,
    peers: Arc<Peers>,
    /// If time is virtual.
    pub(in crate::sched) clock: Option<Arc<VirtualClock>>,
    /// Set while the worker lives: handles to its fibers must not keep its ring open.
    waker: Mutex<Option<Box<dyn Wake>>>,
    /// `true` once the worker has ended. Relaxed: a late reader only checks once more.
    has_ended: AtomicBool,
    /// The names, by id, of this worker's started fibers that have one.
    names: Mutex<HashMap<u64, Box<str>>>,
}

/// A message to a worker.
pub(crate) enum Mail {
    /// A fiber of this worker is ready.
    Ready(Started),
    /// A fiber is ready that was another worker's. From now on it is this worker's.
    Moved(FiberRef),
    /// A fiber has run without its worker, which was taken from it.
    Alone(Started),
    /// A fiber may not wait any more, and this worker may hold an operation of it.
    Interrupt(FiberRef),
    /// An operation of this worker is to end: its fiber has moved.
    End(Token),
    /// A timer of this worker is not needed any more: its fiber has moved.
    ForgetWake(timers::Key),
    /// A fiber is to start on this worker, unless another one has to [take it
    /// over](crate::sched::worker).
    New(FiberRef),
    /// Fibers from this index on may have parts of stacks to give back.
    Trim(usize),
    /// Probes of the scheduling delay were sent.
    Probe,
    /// A tool begins or ends to trace the process.
    Trace(bool),
    /// The worker's fibers are listed.
    List(Arc<Listing>),
}

/// The state of a worker that metrics show.
pub(crate) struct Reading<'a> {
    pub(crate) counters: &'a Counters,
    /// Number of ready fibers.
    pub(crate) ready: usize,
    /// Number of new fibers.
    pub(crate) new: usize,
    /// `None` if no probe was sent to it.
    pub(crate) delays: Option<&'a Delays>,
}

impl Reading<'_> {
    /// Makes a reading of fibers that are threads, which wait in no queue.
    pub(crate) fn of_threads(counters: &Counters) -> Reading<'_> {
        Reading {
            counters,
            ready: 0,
            new: 0,
            delays: None,
        }
    }
}

impl Remote {
    /// Creates a worker's part that others access, and the ends of its queues. `only` if it has and
    /// will have no other beside it.
    pub(in crate::sched) fn new(
        index: usize,
        idle: &Arc<Idle>,
        abandonment: &Arc<Decision>,
        peers: &Arc<Peers>,
        clock: Option<&Arc<VirtualClock>>,
        only: bool,
    ) -> (Arc<Remote>, LocalEnds) {
        let (new, handle) = NewFibers::new(only);
        let remote = Remote {
            index: index as u32,
            new: handle,
            inbox: Inbox::default(),
            handed: AtomicUsize::new(0),
            sleeper: Sleeper::default(),
            handover: Handover::default(),
            // As long as it has run no fiber.
            quiescent_after: AtomicU64::new(1),
            task: AtomicCell::new(None),
            counters: Counters::default(),
            history: History::default(),
            events: Events::default(),
            ready: Gauge::default(),
            delays: OnceLock::new(),
            idle: Arc::clone(idle),
            abandonment: Arc::clone(abandonment),
            peers: Arc::clone(peers),
            clock: clock.cloned(),
            waker: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            names: Mutex::default(),
        };
        (
            Arc::new(remote),
            LocalEnds {
                new,
                ready: Ready::default(),
            },
        )
    }

    /// Sets the waker before the worker runs, and `None` when it has ended. Called by the worker.
    pub(in crate::sched) fn set_waker(&self, waker: Option<Box<dyn Wake>>) {
        self.has_ended.store(waker.is_none(), Ordering::Relaxed);
        *lock(&self.waker) = waker;
    }

    /// Returns the worker of the same runtime with this index, unless the runtime has ended.
    pub(in crate::sched) fn peer(&self, index: u32) -> Option<Arc<Remote>> {
        self.peers.get()?.get(index as usize)?.upgrade()
    }

    /// Returns `true` if the worker sleeps, or is about to.
    pub(in crate::sched) fn is_asleep(&self) -> bool {
        !self.sleeper.is_awake() && !self.has_ended.load(Ordering::Relaxed)
    }

    /// Returns `true` if the worker neither sleeps nor is quiescent, and has not ended.
    pub(in crate::sched) fn is_awake(&self) -> bool {
        self.sleeper.is_awake() && !self.has_ended.load(Ordering::Relaxed)
    }

    /// Returns `true` if the worker does not run, and nothing in the runtime would wake it: it is
    /// quiescent since its last switch, has ended, or could not start.
    pub(super) fn is_quiescent(&self) -> bool {
        let after = self.quiescent_after.load(Ordering::Relaxed);
        let is_quiescent = after == self.counters.switches.get().wrapping_add(1);
        is_quiescent && !self.sleeper.is_awake() || self.has_ended.load(Ordering::Relaxed)
    }

    /// Records whether the worker, which has slept for long, has no operation in flight and no
    /// timer. Called by it.
    pub(in crate::sched) fn record_quiescence(&self, is_quiescent: bool) {
        let after = self.counters.switches.get().wrapping_add(1);
        self.quiescent_after
            .store(if is_quiescent { after } else { 0 }, Ordering::Relaxed);
    }

    pub(in crate::sched) fn claim(&self) -> bool {
        self.idle.claim(&self.sleeper)
    }

    pub(in crate::sched) fn wake(&self) {
        // Without a waker the worker has ended; or it has not started, and will check every queue
        // before it sleeps.
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake();
        }
    }

    pub(in crate::sched) fn inbox(&self) -> &Inbox<Mail> {
        &self.inbox
    }

    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            counters: &self.counters,
            ready: self.ready_fibers(),
            new: self.new.len() + self.handed.load(Ordering::Relaxed),
            delays: self.delays.get().map(Box::as_ref),
        }
    }

    /// Returns the number of this worker's ready fibers. Locks the inbox if that contains anything.
    pub(in crate::sched) fn ready_fibers(&self) -> usize {
        let woken = self
            .inbox
            .count(|mail| matches!(mail, Mail::Ready(_) | Mail::Alone(_) | Mail::Moved(_)));
        self.ready.get() + woken
    }

    /// Returns the number of fibers that wait for their turn, including those whose connections are
    /// ready, while the worker runs.
    pub(in crate::sched) fn fibers_in_turn(&self) -> usize {
        self.ready.get() + self.counters.driver().backlog as usize
    }

    /// Returns `true` if somebody waits for a list of the worker's fibers.
    pub(in crate::sched) fn has_to_list(&self) -> bool {
        self.inbox.count(|mail| matches!(mail, Mail::List(_))) > 0
    }

    /// Returns the time for which the worker's thread has used a CPU, once it runs.
    pub(in crate::sched) fn cpu_time(&self) -> Option<Duration> {
        self.task.load()?.cpu_time()
    }

    /// Returns `true` if the thread has no CPU, so that another thread would have none either: it
    /// is not blocked, and has not computed since it had used this time.
    pub(in crate::sched) fn waits_for_cpu(&self, before: Option<Duration>) -> bool {
        let used = before.and_then(|before| self.cpu_time()?.checked_sub(before));
        used.is_none_or(|used| used < COMPUTED)
            && self.task.load().is_none_or(|task| task.blocked().is_none())
    }

    /// Returns the delays of this worker's fibers, from the first probe on.
    pub(in crate::sched) fn delays_or_init(&self) -> &Delays {
        self.delays.get_or_init(Box::default)
    }

    /// Returns the number of this worker's new fibers.
    pub(in crate::sched) fn new_fibers(&self) -> usize {
        self.new.len()
    }

    /// Returns `true` if fibers wait for the worker that have not started.
    pub(in crate::sched) fn has_unstarted(&self) -> bool {
        self.has_handed() || self.has_stealable_work()
    }

    /// Moves half of the new fibers, or a batch if that is fewer, to `new`. Returns `true` if it
    /// moved any.
    pub(in crate::sched) fn share_new(&self, new: &NewFibers) -> bool {
        let ends = self.new.stealer().zip(new.deque());
        ends.is_some_and(|(stealer, deque)| stealer.steal_batch(deque).is_success())
    }

    pub(in crate::sched) fn has_stealable_work(&self) -> bool {
        !self.new.is_empty()
    }

    /// Returns the name of a fiber that this worker has started, if it has one.
    pub(super) fn name_of(&self, fiber: u64) -> Option<Box<str>> {
        lock(&self.names).get(&fiber).cloned()
    }

    /// Stores a fiber's name, if it has one.
    pub(in crate::sched) fn record_name(&self, control: &Control) {
        #[cold]
        fn insert(names: &Mutex<HashMap<u64, Box<str>>>, control: &Control, name: &str) {
            lock(names).insert(control.id().get(), name.into());
        }
        if let Some(name) = control.name() {
            insert(&self.names, control, name);
        }
    }

    pub(in crate::sched) fn forget_name(&self, control: &Control) {
        #[cold]
        fn remove(names: &Mutex<HashMap<u64, Box<str>>>, control: &Control) {
            lock(names).remove(&control.id().get());
        }
        if control.name().is_some() {
            remove(&self.names, control);
        }
    }
}

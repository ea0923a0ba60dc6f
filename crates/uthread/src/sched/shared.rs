//! The state that the workers of a runtime share, and the operations of other threads on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_deque::{Injector, Worker as Deque};

use super::abandonment::{Abandonment, Decision};
use super::classes::SharedClasses;
use super::counters::{Counter, Counters};
use super::driver_cell::SharedDriver;
use super::idle::{Idle, Sleeper};
use super::inbox::Inbox;
use super::mode::Mode;
use super::new_fibers::{NewFibers, NewFibersHandle, take};
use super::notifier::Notifier;
use super::reactor::Reactor;
use super::ready::{Ready, StealHandle};
use super::runners::Runners;
use super::shortage::Shortage;
use super::spares::{Duty, Spares};
use crate::atomic::lock;
use crate::class::Priority;
use crate::driver::Wake;
use crate::driver::native::blocked::Task;
use crate::fiber::{Control, FiberRef, Started};
use crate::stack::pool::Pool;
use crate::tls;

/// One runtime's common state.
pub(crate) struct Shared {
    pub(crate) stacks: Pool,
    /// If fibers have thread-local storage of their own: runners with a block that no worker keeps.
    pub(super) runners: Option<Runners>,
    /// New fibers from outside the workers. Bounded by memory: `spawn` cannot refuse.
    pub(super) injector: Injector<FiberRef>,
    /// If fibers migrate: fibers woken from outside the workers. Bounded by the live fibers.
    pub(super) woken: Injector<Started>,
    /// Number of new fibers that were handed to the workers in turn.
    pub(super) spread: AtomicUsize,
    /// The workers that the runtime was built with.
    pub(super) remotes: Vec<Arc<Remote>>,
    pub(super) spares: Spares<Remote, StartSpare>,
    pub(super) mode: Mode,
    pub(super) idle: Arc<Idle>,
    /// The flags [`SHUT_DOWN`], [`JOINING`], [`ORDERED`] and [`AWAY`], in one word, so that one test for all of them suffices.
    state: AtomicU8,
    pub(super) shortage: Shortage,
    /// Set before [`ORDERED`].
    classes: OnceLock<Arc<SharedClasses>>,
    abandonment: Decision,
    /// Number of fibers that wait for an event from outside the runtime: for calls on other threads, or
    /// fibers of other runtimes.
    pub(super) outside: AtomicUsize,
    /// Abandoned fibers. Their joiners have to wait until no worker of this runtime runs.
    abandoned: Mutex<Vec<FiberRef>>,
    /// Number of workers that have ended.
    pub(super) ended: AtomicUsize,
    pub(crate) notifier: Notifier,
}

/// Set once the runtime shuts down.
const SHUT_DOWN: u8 = 1;

/// Set if the runtime shuts down once no fiber is left.
const JOINING: u8 = 2;

/// Set from the moment at which a fiber has a priority other than normal.
const ORDERED: u8 = 4;

/// Set while a worker is away.
const AWAY: u8 = 8;

/// How long a dropped runtime without progress waits for another thread to wake one of its fibers: a thread
/// may hold a lock that a fiber needs to end.
pub(super) const STILL_TIME_MAX: Duration = Duration::from_secs(2);

/// The ends of one worker's queues that only the worker itself uses.
pub(crate) struct LocalEnds {
    pub(super) new: NewFibers,
    pub(super) ready: Ready,
}

/// The part of a worker that others access.
pub(crate) struct Remote {
    new: NewFibersHandle,
    pub(super) inbox: Inbox<Mail>,
    /// Number of new fibers in the inbox, which others may take over. Relaxed: like the inbox, the fences of the idle
    /// protocol let a last check see it; other readers only check once more.
    pub(super) handed: AtomicUsize,
    pub(super) sleeper: Sleeper,
    pub(super) duty: Duty,
    /// `true` while, at the end of its runtime, the worker has slept for long without an operation in flight
    /// or a timer.
    pub(super) rests: AtomicBool,
    /// The worker's thread, once it runs.
    pub(super) task: OnceLock<Task>,
    pub(super) counters: Counters,
    pub(super) idle: Arc<Idle>,
    /// Set while the worker lives: handles to its fibers must not keep its ring open.
    waker: Mutex<Option<Box<dyn Wake>>>,
    /// `true` once the worker has ended. Relaxed: a late reader only checks once more.
    has_ended: AtomicBool,
    /// If fibers migrate: the handle that steals its ready fibers.
    pub(super) steal_handle: Option<StealHandle>,
    /// If fibers migrate: its reactor.
    pub(super) reactor: OnceLock<Arc<Mutex<Reactor>>>,
    /// Where a fiber may block the worker's thread: its driver. Locked after the reactor.
    pub(super) driver: OnceLock<SharedDriver>,
    /// There: `true` while the running fiber may have begun an operation and is still on its stack, so that the operation must not
    /// end yet.
    pub(super) is_submitting: AtomicBool,
    /// The names, by id, of the fibers started by this worker that have one.
    names: Mutex<HashMap<u64, Box<str>>>,
}

/// Starts the thread of a spare worker, with its index.
pub(crate) type StartSpare =
    Box<dyn Fn(usize, LocalEnds) -> io::Result<thread::JoinHandle<()>> + Send + Sync>;

/// A message to a worker.
pub(crate) enum Mail {
    /// A fiber is ready that only this worker may run.
    Ready(Started),
    /// A fiber may not wait any more, and this worker may hold an operation of it.
    Interrupt(FiberRef),
    /// A fiber is to start on this worker, unless another one has to [take it over](super::worker).
    New(FiberRef),
    /// Fibers from this index on may have parts of stacks to give back.
    Trim(usize),
}

impl Shared {
    /// Creates the state for `workers` workers, and the queues of each.
    pub(crate) fn new(stack_size: usize, workers: usize, mode: Mode) -> (Shared, Vec<LocalEnds>) {
        let idle = Arc::new(Idle::default());
        let only = workers == 1 && mode != Mode::OwnTls;
        let (remotes, queues) = (0..workers).map(|_| Remote::new(&idle, mode, only)).unzip();
        let shared = Shared {
            stacks: match mode {
                Mode::Staying | Mode::Migrating => Pool::new(stack_size),
                Mode::OwnTls => Pool::with_blocks(stack_size, tls::block_size()),
            },
            runners: (mode == Mode::OwnTls).then(Runners::default),
            injector: Injector::new(),
            spread: AtomicUsize::new(0),
            woken: Injector::new(),
            remotes,
            spares: Spares::new(mode == Mode::OwnTls),
            mode,
            idle,
            state: AtomicU8::new(0),
            shortage: Shortage::default(),
            classes: OnceLock::new(),
            abandonment: Decision::default(),
            outside: AtomicUsize::new(0),
            abandoned: Mutex::default(),
            ended: AtomicUsize::new(0),
            notifier: Notifier::default(),
        };
        (shared, queues)
    }

    pub(super) fn idle(&self) -> &Idle {
        &self.idle
    }

    pub(crate) fn remote(&self, index: usize) -> &Arc<Remote> {
        match self.remotes.get(index) {
            Some(remote) => remote,
            None => self.spares.get(index - self.remotes.len()),
        }
    }

    /// Returns all workers, with the spare ones that were started.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.remotes.iter().chain(self.spares.iter())
    }

    /// Returns `true` if a fiber may leave the worker that has started it.
    pub(crate) fn is_migrating(&self) -> bool {
        self.mode != Mode::Staying
    }

    /// Returns `true` if there is work that any worker may take.
    pub(super) fn has_stealable_work(&self) -> bool {
        !self.injector.is_empty()
            || !self.woken.is_empty()
            || self
                .remotes
                .iter()
                .any(|remote| remote.has_stealable_work())
            || self.spares.may_be() && self.spares.iter().any(|remote| remote.has_stealable_work())
            || self.classes().is_some_and(|classes| !classes.is_empty())
    }

    /// Returns the queues of fibers whose priority is not normal, if the workers order fibers.
    #[inline(always)]
    pub(super) fn classes(&self) -> Option<&Arc<SharedClasses>> {
        // Acquire pairs with the release in `begin_ordering`.
        match self.state.load(Ordering::Acquire) & ORDERED {
            0 => None,
            _ => self.classes.get(),
        }
    }

    /// Makes the workers order fibers by their priorities. Each begins to with its next iteration.
    pub(super) fn begin_ordering(&self) -> &SharedClasses {
        let classes = self.classes.get_or_init(Arc::default);
        if self.state.load(Ordering::Relaxed) & ORDERED == 0 {
            // Release pairs with the acquire in `classes`.
            self.state.fetch_or(ORDERED, Ordering::Release);
        }
        classes
    }

    /// Queues a new fiber, whose priority is not normal, where all workers find it. The caller then wakes one.
    pub(super) fn queue_classed(&self, fiber: FiberRef) {
        self.begin_ordering().push_new(fiber);
    }

    /// Queues a started fiber that was woken from outside the workers, if fibers migrate. The caller then wakes a worker.
    pub(super) fn queue_woken(&self, fiber: Started) {
        match self.classes() {
            Some(classes) if fiber.control().limits.priority() != Priority::Normal => {
                classes.push_started(fiber);
            }
            _ => self.woken.push(fiber),
        }
    }

    /// Returns `true` if the runtime shuts down, if the workers order fibers, or if one is away.
    #[inline(always)]
    pub(super) fn is_unusual(&self) -> bool {
        // Relaxed: whoever acts on it looks again.
        self.state.load(Ordering::Relaxed) & (SHUT_DOWN | ORDERED | AWAY) != 0
    }

    /// Records whether a worker is away.
    pub(super) fn set_away(&self, is_any: bool) {
        // Relaxed: a worker that has gone away without seeing it looks again in the next iteration of its loop.
        match is_any {
            true => self.state.fetch_or(AWAY, Ordering::Relaxed),
            false => self.state.fetch_and(!AWAY, Ordering::Relaxed),
        };
    }

    /// Returns the counters of each worker, the spare ones among them that have run fibers.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> {
        let spares = self.spares.iter();
        let used = spares.filter(|remote| remote.counters.switches.get() > 0);
        (self.remotes.iter().chain(used)).map(|remote| &remote.counters)
    }

    /// Takes a new fiber from outside the workers.
    pub(super) fn take_injected(&self) -> Option<FiberRef> {
        take(|| self.injector.steal())
    }

    /// Takes new fibers from outside the workers. Returns one, and may put more into `new`.
    pub(super) fn take_many_injected(&self, new: &NewFibers) -> Option<FiberRef> {
        new.take_from(&self.injector)
    }

    /// Steals half of the fibers in another worker's deque. Returns one, and puts the others into `new`.
    pub(super) fn steal(&self, thief: usize, new: &NewFibers) -> Option<FiberRef> {
        let deque = new.deque()?;
        take(|| {
            self.victims(thief)
                .filter_map(|victim| victim.new.stealer())
                .map(|stealer| stealer.steal_batch_and_pop(deque))
                .collect()
        })
    }

    /// Takes started fibers that were woken from outside the workers. Returns one, and may put more into
    /// `queue`.
    pub(super) fn take_woken(&self, queue: &Deque<Started>) -> Option<Started> {
        take(|| self.woken.steal_batch_and_pop(queue))
    }

    /// Steals started fibers that another worker offers. Returns one, and may put more into `queue`.
    pub(super) fn steal_started(&self, thief: usize, queue: &Deque<Started>) -> Option<Started> {
        take(|| {
            self.victims(thief)
                .filter_map(|victim| victim.steal_handle.as_ref())
                .map(|steal_handle| steal_handle.queue.steal_batch_and_pop(queue))
                .collect()
        })
    }

    /// Returns all workers but `thief`, starting with its neighbour, so that thieves spread over the victims.
    pub(super) fn victims(&self, thief: usize) -> impl Iterator<Item = &Remote> {
        let count = self.workers();
        (1..count).map(move |distance| &**self.remote((thief + distance) % count))
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        // Acquire pairs with the release in `shut_down`.
        self.state.load(Ordering::Acquire) & SHUT_DOWN != 0
    }

    /// Makes every worker cancel its remaining fibers and end. The worker of the caller, if it is one of them, does so at
    /// once.
    pub(crate) fn shut_down(&self) {
        self.state.fetch_or(SHUT_DOWN, Ordering::Release);
        self.cancel_fibers_here();
        // Pairs with the fence in `announce_sleep`: a worker that has no waker yet sees the store.
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    /// Makes every worker leave its remaining fibers where they are, and end. The runtime is shut down before
    /// or after this.
    pub(crate) fn abandon(&self, abandonment: Abandonment) {
        self.abandonment.make(abandonment);
        // Pairs with the fence in `announce_sleep`, as in `shut_down`.
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    pub(crate) fn abandonment(&self) -> Abandonment {
        self.abandonment.get()
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandonment() != Abandonment::None
    }

    /// Keeps a fiber that is never resumed until all workers have ended.
    pub(super) fn keep_abandoned(&self, fiber: FiberRef) {
        lock(&self.abandoned).push(fiber);
    }

    /// Makes the runtime shut down once no fiber is left.
    pub(crate) fn join(&self) {
        self.state.fetch_or(JOINING, Ordering::Release);
        // Pairs with the fence in `announce_sleep`, as in `shut_down`.
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    pub(super) fn is_joining(&self) -> bool {
        // Acquire pairs with the release in `join`.
        self.state.load(Ordering::Acquire) & JOINING != 0
    }

    /// Returns `true` if the runtime neither shuts down nor is about to.
    pub(super) fn goes_on(&self) -> bool {
        // Acquire pairs with the releases in `shut_down` and `join`.
        self.state.load(Ordering::Acquire) & (SHUT_DOWN | JOINING) == 0
    }

    /// Returns `true` if no fiber is left, and none can be added. Called by a worker that has announced its
    /// sleep. If two workers call it concurrently, one sees the other.
    pub(super) fn is_deserted(&self) -> bool {
        let sum = |count: fn(&Counters) -> &Counter| {
            self.counters()
                .map(|counters| count(counters).get())
                .fold(0, u64::wrapping_add)
        };
        // In this order: a fiber spawns before it ends, and the wake-up for the new fiber contains a fence.
        let ended = sum(|counters| &counters.ended);
        fence(Ordering::SeqCst);
        let began = sum(|counters| &counters.fibers);
        began == ended && !self.has_stealable_work() && !self.is_anybody_awake()
    }

    /// Returns the number of switches to fibers. While it does not change, the runtime makes no progress.
    pub(super) fn switches(&self) -> u64 {
        self.counters()
            .map(|counters| counters.switches.get())
            .fold(0, u64::wrapping_add)
    }

    /// Returns `true` if every worker has slept for long and nothing in the runtime would wake it.
    pub(super) fn stands_still(&self) -> bool {
        self.outside.load(Ordering::Relaxed) == 0
            && !self.has_stealable_work()
            && self.all().all(|remote| remote.rests())
    }

    /// Counts a worker that has ended. The last one completes the abandoned fibers for their joiners: nothing
    /// uses any more what they have lent or borrowed. The fibers are leaked with their stacks.
    pub(super) fn record_worker_end(&self) {
        if self.count_worker_end() {
            if let Some(runners) = &self.runners {
                self.stacks.give(runners.end_all());
            }
            for fiber in std::mem::take(&mut *lock(&self.abandoned)) {
                fiber.give_up();
                std::mem::forget(fiber);
            }
            self.notifier.stop();
        }
    }

    /// Returns the number of workers, with the spare ones that were started.
    pub(crate) fn workers(&self) -> usize {
        self.remotes.len() + self.spares.len()
    }

    pub(super) fn is_anybody_awake(&self) -> bool {
        self.all().any(|remote| remote.is_awake())
    }

    /// Returns `true` if started fibers may wait for the worker of a running fiber. New fibers do not count:
    /// they may start anywhere, and are often a part of the running fiber's own work.
    pub(super) fn do_others_wait_for(&self, remote: &Arc<Remote>) -> bool {
        let sum = |count: fn(&Counters) -> &Counter| -> u64 {
            if !self.is_migrating() {
                return count(&remote.counters).get();
            }
            // A fiber may have been started by one worker and ended by another.
            let counts = self.counters().map(|counters| count(counters).get());
            counts.fold(0, u64::wrapping_add)
        };
        sum(|counters| &counters.fibers).wrapping_sub(sum(|counters| &counters.ended)) > 1
    }

    /// Returns `true` if there are new fibers, apart from those that are a part of a started one's work (of a
    /// `join`). This matters if no worker is free to start them.
    pub(super) fn do_unstarted_wait(&self) -> bool {
        let queued = self.all().map(|remote| remote.new_fibers());
        let classed = self.classes().map_or(0, |classes| classes.new_fibers());
        let queued = self.injector.len() + queued.sum::<usize>() + classed;
        let parts = self.counters().map(|counters| counters.forks.get());
        // Briefly negative, if one worker has counted and another one has not yet.
        let parts = parts.fold(0, u64::wrapping_add).cast_signed().max(0);
        queued as u64 > parts.cast_unsigned()
    }

    /// Returns the name of a live fiber, if it has one.
    pub(super) fn name_of(&self, fiber: u64) -> Option<Box<str>> {
        let mut remotes = self.all();
        remotes.find_map(|remote| lock(&remote.names).get(&fiber).cloned())
    }

    /// Wakes every worker, asleep or not.
    pub(super) fn wake_all(&self) {
        self.all().for_each(|remote| remote.wake());
    }
}

impl Remote {
    /// Creates a worker's part that others access, and the ends of its queues. `only` if it has and will have no other beside it.
    pub(super) fn new(idle: &Arc<Idle>, mode: Mode, only: bool) -> (Arc<Remote>, LocalEnds) {
        let (new, handle) = NewFibers::new(only);
        let (ready, steal_handle) = match mode {
            Mode::Staying => (Ready::local(), None),
            Mode::Migrating | Mode::OwnTls => {
                let (ready, steal_handle) = Ready::stealable();
                (ready, Some(steal_handle))
            }
        };
        let remote = Remote {
            new: handle,
            inbox: Inbox::default(),
            handed: AtomicUsize::new(0),
            sleeper: Sleeper::default(),
            duty: Duty::default(),
            rests: AtomicBool::new(false),
            task: OnceLock::new(),
            counters: Counters::default(),
            idle: Arc::clone(idle),
            waker: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            steal_handle,
            reactor: OnceLock::new(),
            driver: OnceLock::new(),
            is_submitting: AtomicBool::new(false),
            names: Mutex::default(),
        };
        (Arc::new(remote), LocalEnds { new, ready })
    }

    /// Sets the waker before the worker runs, and `None` when it has ended. Called by the worker.
    pub(super) fn set_waker(&self, waker: Option<Box<dyn Wake>>) {
        self.has_ended.store(waker.is_none(), Ordering::Relaxed);
        *lock(&self.waker) = waker;
    }

    /// Returns `true` if the worker neither sleeps nor rests, and has not ended.
    pub(super) fn is_awake(&self) -> bool {
        self.sleeper.is_awake() && !self.has_ended.load(Ordering::Relaxed)
    }

    /// Returns `true` if the worker does not run and nothing in the runtime would wake it: it rests at the end of its runtime, has
    /// ended, or could not start.
    fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed) || self.has_ended.load(Ordering::Relaxed)
    }

    pub(super) fn claim(&self) -> bool {
        self.idle.claim(&self.sleeper)
    }

    pub(super) fn wake(&self) {
        // Without a waker the worker has ended; or it has not started, and will check every queue before it
        // sleeps.
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake();
        }
    }

    pub(super) fn inbox(&self) -> &Inbox<Mail> {
        &self.inbox
    }

    /// Returns the number of this worker's new fibers.
    pub(super) fn new_fibers(&self) -> usize {
        self.new.len()
    }

    /// Returns `true` if fibers wait for the worker that have not started or, if fibers migrate, that are ready.
    pub(super) fn has_unstarted(&self) -> bool {
        self.has_handed() || self.has_stealable_work()
    }

    /// Moves half of the new fibers, or a batch if that is fewer, to `new`. Returns `true` if it moved any.
    pub(super) fn share_new(&self, new: &NewFibers) -> bool {
        let ends = self.new.stealer().zip(new.deque());
        ends.is_some_and(|(stealer, deque)| stealer.steal_batch(deque).is_success())
    }

    pub(super) fn has_stealable_work(&self) -> bool {
        let steal_handle = self.steal_handle.as_ref();
        !self.new.is_empty()
            || steal_handle.is_some_and(|steal_handle| !steal_handle.queue.is_empty())
    }

    /// If fibers migrate: returns `true` if something waits for this worker that another one could take over.
    pub(super) fn has_something_waiting(&self, now: Instant) -> bool {
        let steal_handle = self.steal_handle.as_ref();
        steal_handle.is_some_and(|steal_handle| steal_handle.next.load().is_some())
            || self.reactor.get().is_some_and(|reactor| {
                let reactor = reactor.try_lock();
                reactor.is_ok_and(|mut reactor| reactor.has_something(now))
            })
    }

    /// Stores a fiber's name, if it has one.
    #[inline(always)]
    pub(super) fn record_name(&self, control: &Control) {
        #[cold]
        fn insert(names: &Mutex<HashMap<u64, Box<str>>>, control: &Control, name: &str) {
            lock(names).insert(control.id().get(), name.into());
        }
        if let Some(name) = control.name() {
            insert(&self.names, control, name);
        }
    }

    #[inline(always)]
    pub(super) fn forget_name(&self, control: &Control) {
        #[cold]
        fn remove(names: &Mutex<HashMap<u64, Box<str>>>, control: &Control) {
            lock(names).remove(&control.id().get());
        }
        if control.name().is_some() {
            remove(&self.names, control);
        }
    }
}

//! The state that the workers of a runtime share, and the operations of other threads on it.
//!
//! | module | contents |
//! | --- | --- |
//! | [`debugger`] | the workers of the process, where a debugger finds them |
//! | [`remote`] | the part of a worker that others access |
//! | [`spares`] | the threads that go on with a worker that was taken |
//! | [`handover`] | taking a worker from a thread that is stuck |
//! | [`idle`] | which workers sleep, and which are woken |
//! | [`notifier`] | wakes the monitor |
//! | [`dedicated`] | the fibers that run on threads of their own |
//! | [`life`] | whether the runtime shuts down, and which workers have ended |
//! | [`abandonment`] | whether the fibers of a runtime that ends are awaited |
//! | [`arrivals`] | new fibers that any worker may take |
//! | [`active`] | which workers run fibers |
//! | [`runners`] | stacks with blocks of thread-local storage, for fibers that have their own |
//! | [`shortage`] | new fibers for which there is no memory |
//! | [`delays`] | how long its ready fibers wait |
//! | [`gauge`] | numbers that a worker lets others read |
//! | [`history`] | when a worker had completed how many switches |
//! | [`events`] | what a worker records while a tool traces the process |
//! | [`probes`] | static probes at what is recorded |
//! | [`counters`] | the counts of a worker |
//! | [`listing`] | a list of the started fibers |

pub(crate) mod abandonment;
mod active;
mod arrivals;
pub(crate) mod counters;
pub(in crate::sched) mod debugger;
pub(in crate::sched) mod dedicated;
pub(crate) mod delays;
pub(in crate::sched) mod events;
mod gauge;
pub(crate) mod handover;
pub(in crate::sched) mod history;
pub(crate) mod idle;
mod life;
pub(in crate::sched) mod listing;
mod notifier;
mod probes;
mod remote;
pub(in crate::sched) mod runners;
pub(crate) mod shortage;
pub(crate) mod spares;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::abandonment::Abandonment;
use self::active::Active;
use self::arrivals::Arrivals;
use self::counters::{Counter, Counters};
use self::dedicated::DedicatedFibers;
use self::idle::Idle;
use self::life::Life;
use self::notifier::Notifier;
pub(crate) use self::remote::{LocalEnds, Mail, Reading, Remote};
use self::runners::Runners;
use self::shortage::Shortage;
use self::spares::Spares;
use super::queues::new_fibers::{NewFibers, take};
use super::queues::prioritized::SharedPrioritized;
use crate::clock::VirtualClock;
use crate::driver::native::blocked::Task;
use crate::fiber::{AnyContext, FiberRef, Reserved};
use crate::pool::{self, OwnPool};
use crate::stack::pool::Pool;
use crate::tls;

/// One runtime's common state.
pub(crate) struct Shared {
    pub(crate) stacks: Pool,
    /// For blocking calls of the program.
    pub(crate) calls: OwnPool,
    /// Saved and restored at each switch, if fibers share the thread-locals of a worker.
    pub(in crate::sched) context: Option<Arc<dyn AnyContext>>,
    pub(in crate::sched) sharing: SharePolicy,
    /// If fibers have thread-local storage of their own: runners with a block that no worker keeps.
    pub(in crate::sched) runners: Option<Runners>,
    arrivals: Arrivals,
    /// The workers that the runtime was built with.
    remotes: Vec<Arc<Remote>>,
    active: Active,
    /// Used if fibers have thread-local storage of their own.
    pub(crate) spares: Spares,
    idle: Arc<Idle>,
    life: Life,
    pub(in crate::sched) shortage: Shortage,
    /// Number of fibers that wait for an event from outside the runtime: for calls on other
    /// threads, or fibers of other runtimes; or that run without their worker.
    pub(in crate::sched) outside: AtomicUsize,
    /// Set before the first dedicated fiber starts.
    dedicated: OnceLock<Arc<dyn DedicatedFibers>>,
    pub(crate) notifier: Notifier,
    /// Why the fibers were ended, if not by the program.
    pub(crate) verdict: OnceLock<String>,
}

/// The settings of a runtime.
pub(crate) struct Settings {
    pub(crate) workers: usize,
    /// The number of those that are active at first.
    pub(crate) active: usize,
    pub(crate) stack_size: usize,
    /// `true` if fibers have thread-local storage of their own.
    pub(crate) own_tls: bool,
    pub(crate) sharing: SharePolicy,
    pub(crate) calls: pool::Config,
    pub(crate) context: Option<Arc<dyn AnyContext>>,
    /// If time is virtual. There is one worker then.
    pub(crate) clock: Option<Arc<VirtualClock>>,
}

/// When a worker gives started fibers to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharePolicy {
    /// Never: fibers share the thread-local storage of their worker's thread.
    Never,
    /// When they would wait for long.
    IfLong,
    /// At any time, in simulations.
    #[cfg(test)]
    AtRandom,
}

/// How long a dropped runtime without progress waits for another thread to wake one of its fibers:
/// a thread may hold a lock that a fiber needs to end.
pub(in crate::sched) const STILL_TIME_MAX: Duration = Duration::from_secs(2);

impl Shared {
    /// Creates the state, and the queues of each worker.
    pub(crate) fn new(settings: Settings) -> (Shared, Vec<LocalEnds>) {
        let Settings {
            workers,
            active,
            stack_size,
            own_tls,
            sharing,
            calls,
            context,
            clock,
        } = settings;
        let idle = Arc::new(Idle::default());
        let life = Life::default();
        let peers = Arc::default();
        let (clock, only) = (clock.as_ref(), workers == 1);
        let remote = |index| Remote::new(index, &idle, life.abandonment(), &peers, clock, only);
        let (remotes, queues): (Vec<_>, _) = (0..workers).map(remote).unzip();
        peers.get_or_init(|| remotes.iter().map(Arc::downgrade).collect());
        let shared = Shared {
            stacks: if own_tls {
                Pool::with_blocks(stack_size, tls::block_size())
            } else {
                Pool::new(stack_size)
            },
            calls: OwnPool::new(calls),
            context,
            sharing: if workers == 1 {
                SharePolicy::Never
            } else {
                sharing
            },
            runners: own_tls.then(Runners::default),
            arrivals: Arrivals::new(),
            active: Active::new(active),
            remotes,
            spares: Spares::default(),
            idle,
            life,
            shortage: Shortage::default(),
            outside: AtomicUsize::new(0),
            dedicated: OnceLock::new(),
            notifier: Notifier::default(),
            verdict: OnceLock::new(),
        };
        if active < workers {
            shared.life.begin_resizing();
        }
        (shared, queues)
    }

    pub(in crate::sched) fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Claims a sleeping worker for work that any worker may take, if one is needed. The caller
    /// wakes it.
    pub(in crate::sched) fn claim_one(&self) -> Option<&Remote> {
        let remotes = self.idle.wanted().then(|| self.remotes.iter());
        remotes?
            .find(|remote| remote.claim())
            .map(|remote| &**remote)
    }

    pub(crate) fn remote(&self, index: usize) -> &Arc<Remote> {
        &self.remotes[index]
    }

    /// Returns `true` if fibers have thread-local storage of their own.
    pub(crate) fn has_own_tls(&self) -> bool {
        self.runners.is_some()
    }

    /// Returns a stack of at least `bytes` bytes for a new fiber, or `None` if ordinary stacks are
    /// large enough.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for the stack.
    pub(crate) fn take_larger_stack(&self, bytes: usize) -> io::Result<Option<Reserved>> {
        let Some(size) = self.stacks.larger_size(bytes) else {
            return Ok(None);
        };
        let kept = self.runners.as_ref();
        match kept.and_then(|runners| runners.take_larger(size)) {
            Some(runner) => Ok(Some(Reserved::Runner(runner))),
            None => Ok(Some(Reserved::Stack(self.stacks.take_larger(bytes)?))),
        }
    }

    /// Returns `true` if there are several threads that run workers.
    pub(in crate::sched) fn has_other_threads(&self) -> bool {
        self.remotes.len() > 1 || self.spares.may_be()
    }

    /// Returns `true` if there is work that any worker may take.
    pub(in crate::sched) fn has_stealable_work(&self) -> bool {
        !self.arrivals.is_empty()
            || self
                .remotes
                .iter()
                .any(|remote| remote.has_stealable_work())
    }

    /// Returns the queues of fibers whose priority is not normal, if the workers order fibers.
    pub(in crate::sched) fn prioritized(&self) -> Option<&Arc<SharedPrioritized>> {
        self.arrivals.prioritized()
    }

    /// Makes the workers order fibers by their priorities. Each begins to with its next iteration.
    pub(in crate::sched) fn begin_ordering(&self) -> &SharedPrioritized {
        let prioritized = self.arrivals.prioritized_or_init();
        self.life.begin_ordering();
        prioritized
    }

    /// Queues a new fiber, whose priority is not normal, where all workers find it. The caller then
    /// wakes one.
    pub(in crate::sched) fn queue_prioritized(&self, fiber: FiberRef) {
        self.begin_ordering().push_new(fiber);
    }

    /// Returns `true` if the runtime shuts down, if the workers order fibers, or if some of them may
    /// be inactive.
    pub(in crate::sched) fn is_unusual(&self) -> bool {
        self.life.is_unusual()
    }

    /// Returns the state of each worker that metrics show.
    pub(crate) fn readings(&self) -> impl Iterator<Item = Reading<'_>> {
        self.remotes.iter().map(|remote| remote.reading())
    }

    /// Returns the number of fibers that any worker may take: new ones from outside the workers or
    /// with a priority.
    pub(crate) fn injected(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns the counters of each worker.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.remotes.iter().map(|remote| &remote.counters)
    }

    /// Queues a normal new fiber from outside the workers. The caller then wakes one.
    pub(in crate::sched) fn push_arrival(&self, fiber: FiberRef) {
        self.arrivals.push(fiber);
    }

    /// Takes a new fiber from outside the workers.
    pub(in crate::sched) fn take_injected(&self) -> Option<FiberRef> {
        self.arrivals.take()
    }

    /// Takes new fibers from outside the workers. Returns one, and may put more into `new`.
    pub(in crate::sched) fn take_many_injected(&self, new: &NewFibers) -> Option<FiberRef> {
        self.arrivals.take_many(new)
    }

    /// Steals half of the fibers in another worker's deque. Returns one, and puts the others into
    /// `new`.
    ///
    /// A look at an empty deque is cheaper than an attempt, which pins the epoch.
    pub(in crate::sched) fn steal(&self, thief: usize, new: &NewFibers) -> Option<FiberRef> {
        let deque = new.deque()?;
        take(|| {
            self.victims(thief)
                .filter_map(|victim| victim.new.stealer())
                .filter(|stealer| !stealer.is_empty())
                .map(|stealer| stealer.steal_batch_and_pop(deque))
                .collect()
        })
    }

    /// Returns all workers but `thief`, starting with its neighbour, so that thieves spread over
    /// the victims.
    pub(in crate::sched) fn victims(&self, thief: usize) -> impl Iterator<Item = &Remote> {
        let count = self.workers();
        (1..count).map(move |distance| &**self.remote((thief + distance) % count))
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.life.is_shut_down()
    }

    /// Makes every worker cancel its remaining fibers and end. The worker of the caller, if it is
    /// one of them, does so at once.
    pub(crate) fn shut_down(&self) {
        self.life.shut_down();
        self.cancel_fibers_here();
        // Pairs with the fence in `announce_sleep`: a worker that has no waker yet sees the store;
        // and with the one in `dedicated_or_init`.
        fence(Ordering::SeqCst);
        self.wake_all();
        self.cancel_dedicated();
    }

    /// Makes every worker leave its remaining fibers where they are, and end. The runtime is shut
    /// down before or after this.
    pub(crate) fn abandon(&self, abandonment: Abandonment) {
        self.life.abandon(abandonment);
        // Pairs with the fences in `announce_sleep` and `dedicated_or_init`, as in `shut_down`.
        fence(Ordering::SeqCst);
        self.wake_all();
        self.abandon_dedicated(abandonment);
    }

    pub(crate) fn abandonment(&self) -> Abandonment {
        self.life.abandonment().get()
    }

    pub(in crate::sched) fn is_abandoned(&self) -> bool {
        self.life.abandonment().is_made()
    }

    /// Records that a started fiber moves to another worker.
    pub(in crate::sched) fn record_move(&self) {
        self.life.abandonment().record_move();
    }

    /// Keeps a fiber that is never resumed until all workers have ended.
    pub(in crate::sched) fn keep_abandoned(&self, fiber: FiberRef) {
        self.life.keep_abandoned(fiber);
    }

    /// Makes the runtime shut down once no fiber is left.
    pub(crate) fn join(&self) {
        self.life.join();
        // Pairs with the fence in `announce_sleep`, as in `shut_down`.
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    pub(in crate::sched) fn is_joining(&self) -> bool {
        self.life.is_joining()
    }

    /// Returns `true` if the runtime neither shuts down nor is about to.
    pub(in crate::sched) fn is_running(&self) -> bool {
        self.life.is_running()
    }

    /// Returns `true` if no fiber is left, and none can be added. Called by a worker that has
    /// announced its sleep. If two workers call it concurrently, one sees the other.
    pub(in crate::sched) fn is_deserted(&self) -> bool {
        let sum = |count: fn(&Counters) -> &Counter| {
            self.counters()
                .map(|counters| count(counters).get())
                .fold(0, u64::wrapping_add)
        };
        // In this order: a fiber spawns before it ends, and the wake-up for the new fiber contains
        // a fence.
        let ended = sum(|counters| &counters.ended);
        fence(Ordering::SeqCst);
        let began = sum(|counters| &counters.fibers);
        began == ended && !self.has_stealable_work() && !self.is_anybody_awake()
    }

    /// Returns the number of switches to fibers. While it does not change, the runtime makes no
    /// progress.
    pub(in crate::sched) fn switches(&self) -> u64 {
        self.counters()
            .map(|counters| counters.switches.get())
            .fold(0, u64::wrapping_add)
    }

    /// Returns `true` if every worker has slept for long and nothing in the runtime would wake it.
    pub(in crate::sched) fn stands_still(&self) -> bool {
        self.outside.load(Ordering::Relaxed) == 0
            && self.is_quiescent()
            && self.all_dedicated_wait()
    }

    /// Returns `true` if every worker has slept for long, and nothing but another thread would wake
    /// it.
    fn is_quiescent(&self) -> bool {
        !self.has_stealable_work() && self.remotes.iter().all(|remote| remote.is_quiescent())
    }

    /// Returns `true` if there are fibers, and none can go on unless another thread wakes it.
    pub(in crate::sched) fn may_be_deadlocked(&self) -> bool {
        !self.is_shut_down()
            && self.is_quiescent()
            && self.remotes.iter().all(|remote| !remote.inbox().has_mail())
            && self.counters().any(|counters| counters.live() > 0)
    }

    /// Returns the threads of the workers.
    pub(in crate::sched) fn tasks(&self) -> Vec<Task> {
        let tasks = self.remotes.iter().map(|remote| remote.task.load());
        tasks.flatten().collect()
    }

    /// Counts a worker that has ended. The last one ends what no worker can take any more.
    pub(in crate::sched) fn record_worker_end(&self) {
        if self.life.count_worker_end() == self.workers() {
            self.spares.end();
            if let Some(runners) = &self.runners {
                runners.end_all(&self.stacks);
            }
            self.refuse_late();
            self.complete_abandoned();
            self.notifier.stop();
        }
    }

    /// Returns the number of workers, active or not.
    pub(crate) fn workers(&self) -> usize {
        self.remotes.len()
    }

    pub(in crate::sched) fn is_anybody_awake(&self) -> bool {
        self.remotes.iter().any(|remote| remote.is_awake())
    }

    /// Returns `true` if started fibers may wait for the worker of a running fiber. New fibers do
    /// not count: they may start anywhere, and are often a part of the running fiber's own work.
    pub(in crate::sched) fn others_wait_for(&self, remote: &Arc<Remote>) -> bool {
        remote.counters.live() > 1
    }

    /// Returns `true` if there are new fibers, apart from those that are a part of a started one's
    /// work (of a `join`). This matters if no worker is free to start them.
    pub(in crate::sched) fn has_unstarted(&self) -> bool {
        // Briefly negative, if one worker has counted and another one has not yet.
        let parts = || {
            let parts = self.counters().map(|counters| counters.forks.get());
            parts.fold(0, u64::wrapping_add).cast_signed().max(0)
        };
        // Read before and after the queues, as a part may be queued or taken back in between.
        let before = parts();
        let queued = self.remotes.iter().map(|remote| remote.new_fibers());
        let queued = self.arrivals.unstarted() + queued.sum::<usize>();
        queued as u64 > before.max(parts()).cast_unsigned()
    }

    /// Returns the name of a live fiber, if it has one.
    pub(in crate::sched) fn name_of(&self, fiber: u64) -> Option<Box<str>> {
        let mut remotes = self.remotes.iter();
        remotes.find_map(|remote| remote.name_of(fiber))
    }

    /// Wakes every worker, asleep or not.
    pub(in crate::sched) fn wake_all(&self) {
        self.remotes.iter().for_each(|remote| remote.wake());
    }
}

//! What the workers of a runtime share, and what anybody may hand them.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};

use super::counters::Counters;
use super::current;
use super::idle::{Idle, Sleeper};
use super::inbox::Inbox;
use crate::driver::Wake;
use crate::fiber::{FiberRef, Home};
use crate::stack::pool::Pool;

/// One runtime's common state.
pub(crate) struct Shared {
    pub(crate) stacks: Pool,
    /// New fibers from outside the workers. Its bound is memory: `spawn` has no way to refuse.
    injector: Injector<FiberRef>,
    remotes: Vec<Arc<Remote>>,
    idle: Arc<Idle>,
    shut_down: AtomicBool,
}

/// What others may do with a worker.
pub(crate) struct Remote {
    stealer: Stealer<FiberRef>,
    /// Fibers of this worker that were woken elsewhere.
    inbox: Inbox<FiberRef>,
    pub(super) sleeper: Sleeper,
    pub(super) counters: Counters,
    idle: Arc<Idle>,
    /// There while the worker lives: handles to its fibers must not keep its ring open.
    waker: Mutex<Option<Box<dyn Wake>>>,
}

impl Shared {
    /// The state for one worker per deque.
    pub(crate) fn new<'a>(
        stack_size: usize,
        deques: impl Iterator<Item = &'a Deque<FiberRef>>,
    ) -> Shared {
        let idle = Arc::new(Idle::default());
        let remotes = deques
            .map(|deque| {
                Arc::new(Remote {
                    stealer: deque.stealer(),
                    inbox: Inbox::default(),
                    sleeper: Sleeper::default(),
                    counters: Counters::default(),
                    idle: Arc::clone(&idle),
                    waker: Mutex::new(None),
                })
            })
            .collect();
        Shared {
            stacks: Pool::new(stack_size),
            injector: Injector::new(),
            remotes,
            idle,
            shut_down: AtomicBool::new(false),
        }
    }

    pub(super) fn idle(&self) -> &Idle {
        &self.idle
    }

    pub(crate) fn remote(&self, index: usize) -> &Arc<Remote> {
        &self.remotes[index]
    }

    /// Queues a new fiber from outside the workers.
    pub(crate) fn inject(&self, fiber: FiberRef) {
        self.injector.push(fiber);
        self.wake_one();
    }

    /// Wakes a sleeper for work that any worker may take, where that is needed; whether it was.
    pub(super) fn wake_one(&self) -> bool {
        if (self.remotes.len() > 1 || self.called_from_outside())
            && self.idle.wanted()
            && let Some(remote) = self.remotes.iter().find(|remote| remote.claim())
        {
            remote.wake();
            return true;
        }
        false
    }

    /// A lone worker that queues work is awake.
    fn called_from_outside(&self) -> bool {
        current::with_worker(|worker| !std::ptr::eq(worker.shared(), self)).unwrap_or(true)
    }

    /// Whether there is work that any worker may take.
    pub(super) fn has_stealable_work(&self) -> bool {
        !self.injector.is_empty() || self.remotes.iter().any(|remote| !remote.stealer.is_empty())
    }

    /// What each worker counts.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.remotes.iter().map(|remote| &remote.counters)
    }

    /// Takes one fiber from outside.
    pub(super) fn take_injected(&self) -> Option<FiberRef> {
        take(|| self.injector.steal())
    }

    /// Takes fibers from outside. One is returned, more may be put into `deque`.
    pub(super) fn take_many_injected(&self, deque: &Deque<FiberRef>) -> Option<FiberRef> {
        take(|| self.injector.steal_batch_and_pop(deque))
    }

    /// Takes half of the fibers in another worker's deque. One is returned, the others are put into
    /// `deque`.
    pub(super) fn steal(&self, thief: usize, deque: &Deque<FiberRef>) -> Option<FiberRef> {
        let count = self.remotes.len();
        // Each thief starts with its neighbour, so that thieves spread over the victims.
        let victims = (1..count).map(|distance| &self.remotes[(thief + distance) % count]);
        take(|| {
            victims
                .clone()
                .map(|victim| victim.stealer.steal_batch_and_pop(deque))
                .collect()
        })
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        // Acquire pairs with the Release in `shut_down`.
        self.shut_down.load(Ordering::Acquire)
    }

    /// Tells every worker to cancel what is left and end.
    pub(crate) fn shut_down(&self) {
        self.shut_down.store(true, Ordering::Release);
        // Pairs with the fence in `announce_sleep`: a worker that has no waker yet sees the store.
        fence(Ordering::SeqCst);
        for remote in &self.remotes {
            remote.wake();
        }
    }
}

impl Remote {
    /// Called by the worker before it runs, and with `None` when it has ended.
    pub(super) fn set_waker(&self, waker: Option<Box<dyn Wake>>) {
        *self.waker() = waker;
    }

    fn waker(&self) -> MutexGuard<'_, Option<Box<dyn Wake>>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self) -> bool {
        self.idle.claim(&self.sleeper)
    }

    fn wake(&self) {
        // Without one it has ended, or not begun and will look at every queue before it sleeps.
        if let Some(waker) = &*self.waker() {
            waker.wake();
        }
    }

    /// Takes the new fiber that has waited longest in this worker's deque.
    pub(super) fn take_oldest(&self) -> Option<FiberRef> {
        take(|| self.stealer.steal())
    }

    pub(super) fn inbox(&self) -> &Inbox<FiberRef> {
        &self.inbox
    }
}

/// Steals until it is clear whether there was something.
fn take(mut steal: impl FnMut() -> Steal<FiberRef>) -> Option<FiberRef> {
    loop {
        match steal() {
            Steal::Success(fiber) => return Some(fiber),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

impl Home for Remote {
    fn enqueue(&self, fiber: &FiberRef) {
        if current::with_worker(|worker| worker.enqueue_own(self, fiber)) == Some(true) {
            return;
        }
        self.inbox.put(Arc::clone(fiber));
        let asleep = self.idle.claim_owner(&self.sleeper);
        if asleep {
            self.wake();
        }
        current::with_worker(|worker| worker.count_wake(asleep));
    }
}

//! A runtime reduced to what the idle protocol touches. The order of calls is that of the functions
//! of the same names in `sched/worker` and `sched/shared`; `sleep` and `rest` are `announce_sleep`,
//! or `announce_rest`, `wait` and `wake_up` there.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::thread::{self, JoinHandle};

use crate::sched::idle::{Idle, Sleeper};
use crate::sched::inbox::Inbox;
use crate::substitutes::{Latch, Queue, Ring};

/// `Shared`, with what each worker has in `remotes`.
pub(crate) struct Runtime {
    idle: Idle,
    injector: Queue,
    /// The new fibers of a priority other than normal, for all workers.
    prioritized: Queue,
    /// Set before the first of them is queued.
    ordered: AtomicBool,
    /// `true` if there may be such fibers. Otherwise no worker looks, which spares loom the loads.
    may_order: bool,
    /// The number of active workers, if that may change. Otherwise no worker looks.
    active: Option<AtomicUsize>,
    remotes: Vec<Remote>,
    shut_down: AtomicBool,
    ran: Latch,
    /// Number of fibers that must have started before a fiber ends; until then each of them
    /// occupies its worker. If it equals the number of workers, the model requires that no worker
    /// sleeps while a fiber waits for one.
    together: usize,
}

/// `Remote` and the worker's ring.
struct Remote {
    sleeper: Sleeper,
    deque: Queue,
    inbox: Inbox<()>,
    has_waker: AtomicBool,
    ring: Ring,
}

impl Runtime {
    pub(crate) fn new(workers: usize, together: usize) -> Arc<Runtime> {
        Arc::new(Runtime::of(workers, together, false))
    }

    /// Creates a runtime whose fibers may have priorities.
    pub(crate) fn ordering(workers: usize, together: usize) -> Arc<Runtime> {
        Arc::new(Runtime::of(workers, together, true))
    }

    /// Creates a runtime in which so many workers are active at first.
    pub(crate) fn resizing(workers: usize, together: usize, active: usize) -> Arc<Runtime> {
        Arc::new(Runtime {
            active: Some(AtomicUsize::new(active)),
            ..Runtime::of(workers, together, false)
        })
    }

    fn of(workers: usize, together: usize, may_order: bool) -> Runtime {
        Runtime {
            idle: Idle::default(),
            injector: Queue::default(),
            prioritized: Queue::default(),
            ordered: AtomicBool::new(false),
            may_order,
            active: None,
            remotes: (0..workers).map(|_| Remote::new()).collect(),
            shut_down: AtomicBool::new(false),
            ran: Latch::default(),
            together,
        }
    }

    pub(crate) fn inject(&self) {
        self.injector.push();
        self.wake_one();
    }

    /// Makes the workers order fibers, like `begin_ordering`.
    pub(crate) fn begin_ordering(&self) {
        self.ordered.store(true, Ordering::Release);
    }

    /// Changes the number of active workers, like `set_active_workers`.
    pub(crate) fn set_active(&self, count: usize) {
        let active = self.active.as_ref().expect("the number may change");
        let before = active.swap(count, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let changed = before.min(count)..before.max(count);
        self.remotes[changed].iter().for_each(Remote::wake);
    }

    fn is_active(&self, index: usize) -> bool {
        let active = self.active.as_ref();
        active.is_none_or(|active| index < active.load(Ordering::Relaxed))
    }

    /// Injects a fiber of a priority other than normal, like `queue_prioritized`.
    pub(crate) fn inject_prioritized(&self) {
        self.begin_ordering();
        self.prioritized.push();
        self.wake_one();
    }

    /// Enqueues a fiber from another thread than its worker, like `Scheduler::enqueue`.
    pub(crate) fn enqueue(&self, owner: usize) {
        let remote = &self.remotes[owner];
        remote.inbox.put(());
        if self.idle.claim_owner(&remote.sleeper) {
            remote.wake();
        }
    }

    /// Completes so many operations of this worker at once, as the kernel does. Their fibers can go
    /// on.
    pub(crate) fn complete(&self, owner: usize, count: usize) {
        self.remotes[owner].ring.complete(count);
    }

    /// Waits until so many fibers have begun, ends the workers, and sees that every one of them was
    /// counted out again.
    pub(crate) fn finish(&self, fibers: usize, workers: Vec<JoinHandle<()>>) {
        self.ran.wait_for(fibers);
        self.shut_down();
        for worker in workers {
            worker.join().unwrap();
        }
        self.check_counters();
    }

    /// Checks that nobody is left in the counters: one more sleeper is then all that is counted,
    /// and one searcher hides it.
    fn check_counters(&self) {
        assert!(!self.idle.wanted(), "somebody is still counted as asleep");
        let sleeper = Sleeper::default();
        self.idle.begin_search();
        self.idle.announce_sleep(&sleeper);
        assert!(self.idle.wanted(), "somebody is still counted as searching");
        self.idle.begin_search();
        assert!(!self.idle.wanted(), "fewer than none are searching");
    }

    fn shut_down(&self) {
        self.shut_down.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.remotes.iter().for_each(Remote::wake);
    }

    fn wake_one(&self) {
        if self.idle.wanted()
            && let Some(remote) = self
                .remotes
                .iter()
                .find(|remote| self.idle.claim(&remote.sleeper))
        {
            remote.wake();
        }
    }

    fn has_stealable_work(&self) -> bool {
        let stealable = |remote: &Remote| !remote.deque.is_empty();
        !self.injector.is_empty() || self.remotes.iter().any(stealable) || self.has_prioritized()
    }

    fn is_ordered(&self) -> bool {
        self.may_order && self.ordered.load(Ordering::Acquire)
    }

    fn has_prioritized(&self) -> bool {
        self.is_ordered() && !self.prioritized.is_empty()
    }

    fn run_fiber(&self) {
        self.ran.begin_one();
        self.ran.wait_for(self.together);
    }
}

impl Remote {
    fn new() -> Remote {
        Remote {
            sleeper: Sleeper::default(),
            deque: Queue::default(),
            inbox: Inbox::default(),
            has_waker: AtomicBool::new(false),
            ring: Ring::default(),
        }
    }

    fn set_waker(&self) {
        self.has_waker.store(true, Ordering::Release);
    }

    fn wake(&self) {
        if self.has_waker.load(Ordering::Acquire) {
            self.ring.wake();
        }
    }
}

/// One worker, reduced likewise.
pub(crate) struct Worker {
    runtime: Arc<Runtime>,
    index: usize,
    searching: bool,
    /// Set once it has seen that the runtime is ordered.
    ordered: bool,
    /// How many fibers are in its queue of those that can go on.
    ready: usize,
}

impl Worker {
    fn new(runtime: &Arc<Runtime>, index: usize) -> Worker {
        Worker {
            runtime: Arc::clone(runtime),
            index,
            searching: false,
            ordered: runtime.is_ordered(),
            ready: 0,
        }
    }

    /// Starts a worker that looks around first.
    pub(crate) fn start(runtime: &Arc<Runtime>, index: usize) -> JoinHandle<()> {
        let mut worker = Worker::new(runtime, index);
        thread::spawn(move || {
            worker.remote().set_waker();
            worker.run();
        })
    }

    /// Starts a worker that sleeps already, which spares loom its way there.
    pub(crate) fn start_asleep(runtime: &Arc<Runtime>, index: usize) -> JoinHandle<()> {
        let mut worker = Worker::new(runtime, index);
        runtime.idle.begin_search();
        runtime.idle.announce_sleep(&worker.remote().sleeper);
        worker.remote().set_waker();
        thread::spawn(move || {
            worker.remote().ring.wait();
            worker.end_sleep(false);
            worker.run();
        })
    }

    /// Starts a worker that has searched in vain and is about to announce its sleep.
    pub(crate) fn start_tired(runtime: &Arc<Runtime>, index: usize) -> JoinHandle<()> {
        let mut worker = Worker::new(runtime, index);
        runtime.idle.begin_search();
        worker.searching = true;
        worker.remote().set_waker();
        thread::spawn(move || {
            worker.sleep();
            worker.run();
        })
    }

    /// Starts a worker that has a fiber left after a batch.
    pub(crate) fn start_busy(runtime: &Arc<Runtime>, index: usize) -> JoinHandle<()> {
        let mut worker = Worker::new(runtime, index);
        worker.ready = 1;
        worker.remote().set_waker();
        thread::spawn(move || {
            worker.collect_events();
            worker.run();
        })
    }

    fn remote(&self) -> &Remote {
        &self.runtime.remotes[self.index]
    }

    /// Runs the worker until the shutdown; what fibers are left is no matter of this protocol.
    fn run(&mut self) {
        loop {
            if self.is_inactive() {
                self.tick_inactive();
                continue;
            }
            if self.collect_events() {
                self.run_batch();
                continue;
            }
            if self.search() {
                continue;
            }
            if self.is_shut_down() {
                break;
            }
            self.sleep();
        }
        self.end_search();
    }

    fn is_inactive(&self) -> bool {
        !self.runtime.is_active(self.index) && !self.is_shut_down()
    }

    fn is_shut_down(&self) -> bool {
        self.runtime.shut_down.load(Ordering::Acquire)
    }

    /// Passes all fibers on to others, and rests. All may move.
    fn tick_inactive(&mut self) {
        self.end_search();
        self.ready += self.remote().inbox.take().len();
        self.collect();
        let mut has_new = false;
        while self.remote().deque.pop() {
            self.runtime.injector.push();
            has_new = true;
        }
        if has_new {
            self.runtime.wake_one();
        }
        while self.pop_ready() {
            self.runtime.enqueue(0);
        }
        self.rest();
    }

    fn rest(&mut self) {
        let remote = self.remote();
        self.runtime.idle.announce_rest(&remote.sleeper);
        let is_due = self.runtime.is_active(self.index) || self.is_shut_down();
        if !is_due && !remote.inbox.has_mail() {
            remote.ring.wait();
        }
        self.runtime.idle.end_rest(&remote.sleeper);
    }

    /// Runs a batch without a bound.
    fn run_batch(&mut self) {
        while self.pop_ready() || self.remote().deque.pop() || self.pop_prioritized() {
            self.run_fiber();
        }
    }

    fn run_fiber(&self) {
        self.runtime.run_fiber();
    }

    fn pop_ready(&mut self) -> bool {
        let own = self.ready > 0;
        self.ready = self.ready.saturating_sub(1);
        own
    }

    /// Takes a fiber that any worker may take, unless this one searches: then its search takes it.
    fn pop_prioritized(&self) -> bool {
        self.ordered && !self.searching && self.runtime.prioritized.pop()
    }

    /// Takes what has arrived for this worker.
    fn collect(&mut self) {
        self.ready += self.remote().ring.reap().completions;
    }

    fn collect_events(&mut self) -> bool {
        self.ordered = self.runtime.is_ordered();
        if self.has_own_work() && self.runtime.injector.pop() {
            self.remote().deque.push();
            self.runtime.wake_one();
        }
        self.ready += self.remote().inbox.take().len();
        self.collect();
        let found = self.has_own_work();
        if found {
            self.end_search();
        }
        found
    }

    fn has_own_work(&self) -> bool {
        self.ready > 0
            || !self.remote().deque.is_empty()
            || (self.ordered && !self.searching && !self.runtime.prioritized.is_empty())
    }

    fn search(&mut self) -> bool {
        if !self.searching {
            self.searching = true;
            self.runtime.idle.begin_search();
        }
        let found = (self.ordered && self.runtime.prioritized.pop()) || self.steal();
        if found {
            self.end_search();
            self.run_fiber();
        }
        found
    }

    /// Takes one fiber, and one more into the deque if there is one, as a batch does.
    fn steal(&self) -> bool {
        let mut sources = vec![&self.runtime.injector];
        sources.extend(self.runtime.remotes.iter().map(|remote| &remote.deque));
        sources.into_iter().any(|source| {
            let found = source.pop();
            if found && source.pop() {
                self.remote().deque.push();
            }
            found
        })
    }

    fn end_search(&mut self) {
        if self.searching {
            self.searching = false;
            if self.runtime.idle.end_search() && self.runtime.has_stealable_work() {
                self.runtime.wake_one();
            }
        }
    }

    fn sleep(&mut self) {
        self.runtime.idle.announce_sleep(&self.remote().sleeper);
        self.searching = false;
        let saw_work = self.runtime.has_stealable_work();
        let has_work = saw_work
            || self.remote().inbox.has_mail()
            || self.runtime.shut_down.load(Ordering::Acquire);
        if !has_work {
            self.remote().ring.wait();
        }
        self.end_sleep(saw_work);
    }

    fn end_sleep(&mut self, saw_work: bool) {
        let sleeper = &self.runtime.remotes[self.index].sleeper;
        self.searching = self.runtime.idle.end_sleep(sleeper, saw_work);
    }
}

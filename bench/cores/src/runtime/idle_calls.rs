//! Searching, sleeping and waking, as in `sched/worker` of the library.

use super::calls::Calls;
use super::queue_calls::STOLEN_MAX;
use crate::atomic::Ordering;
use crate::machine::Step;

/// Time of the system call that wakes a worker.
const WAKE_NS: u64 = 1000;

impl Calls<'_> {
    pub(super) fn idle_of(&self, worker: usize) -> usize {
        worker / self.runtime.remedy.group
    }

    /// Models the part of `Worker::look_around` of worker/mod.rs before it takes its mail.
    pub(crate) fn look_around(&mut self, has_ready: bool) {
        let state = self.runtime.common.state;
        self.load(state);
        if self.has_new() || has_ready {
            self.take_in_injected();
            self.balance();
        }
    }

    /// Models `Neighbors::balance` of worker/neighbors.rs, with one victim.
    pub(super) fn balance(&mut self) {
        let count = self.runtime.workers.len();
        if count == 1 {
            return;
        }
        self.own().checks += 1;
        let distance = 1 + self.own().checks % (count - 1);
        let victim = (self.core + distance) % count;
        self.look_at_handed(victim);
        self.look_at_deque(victim);
        let is_long = self.runtime.workers[victim].deque.len() > 16;
        if is_long && self.own().deque.is_empty() && self.steal(victim) {
            self.wake_one();
        }
    }

    /// Models `Worker::search` of worker/search.rs. Returns a fiber that it has taken.
    pub(crate) fn search(&mut self) -> Option<u64> {
        let (core, idle) = (self.core, self.idle_of(self.core));
        if !std::mem::replace(&mut self.own().is_searching, true) {
            self.call(|runtime| runtime.idles[idle].0.begin_search());
        }
        let found = self.steal_injected(STOLEN_MAX).or_else(|| {
            if self.has_nothing_by_hint() {
                return None;
            }
            let stolen = self.victims().find(|victim| self.steal(*victim));
            stolen.and_then(|_| self.runtime.workers[core].deque.pop_back())
        });
        if found.is_some() {
            self.end_search();
        } else {
            self.look_at_all_handed();
            let shortage = self.runtime.common.shortage;
            self.load(shortage);
        }
        found
    }

    /// Models `Sleep::end_search` of worker/sleep.rs.
    pub(crate) fn end_search(&mut self) {
        let idle = self.idle_of(self.core);
        if std::mem::take(&mut self.own().is_searching)
            && self.call(|runtime| runtime.idles[idle].0.end_search())
            && self.look_for_stealable_work()
        {
            self.wake_one();
        }
    }

    /// Models `Sleep::announce` of worker/sleep.rs. Returns `true` if there is nothing to do.
    pub(crate) fn announce_sleep(&mut self) -> bool {
        let (core, idle) = (self.core, self.idle_of(self.core));
        self.call(|runtime| {
            let sleeper = &runtime.workers[core].remote.sleeper;
            runtime.idles[idle].0.announce_sleep(sleeper);
        });
        self.own().is_searching = false;
        let saw_work = self.look_for_stealable_work();
        self.own().saw_work = saw_work;
        let has_mail = self.call(|runtime| runtime.workers[core].remote.inbox.has_mail());
        if saw_work || has_mail {
            return false;
        }
        self.look_at_all_handed();
        true
    }

    /// Models `Sleep::wake_up` of worker/sleep.rs.
    pub(crate) fn wake_up(&mut self) {
        let (core, idle) = (self.core, self.idle_of(self.core));
        let saw_work = self.own().saw_work;
        let is_searching = self.call(|runtime| {
            let sleeper = &runtime.workers[core].remote.sleeper;
            runtime.idles[idle].0.end_sleep(sleeper, saw_work)
        });
        self.own().is_searching = is_searching;
        let notifier = self.runtime.common.notifier;
        self.load(notifier);
    }

    /// Models `Shared::has_stealable_work`: looks at the injector, the woken fibers, and each
    /// worker.
    pub(super) fn look_for_stealable_work(&mut self) -> bool {
        let common = &self.runtime.common;
        let (head, tail) = (common.injector_head, common.injector_tail);
        let (woken_head, woken_tail) = (common.woken_head, common.woken_tail);
        for line in [head, tail, woken_head, woken_tail] {
            self.load(line);
        }
        if !self.runtime.injected.is_empty() {
            return true;
        }
        if self.has_nothing_by_hint() {
            return false;
        }
        (0..self.runtime.workers.len()).any(|worker| {
            self.look_at_deque(worker);
            !self.runtime.workers[worker].deque.is_empty()
        })
    }

    /// Returns `true` if the hint, the single line of the remedy, tells that no deque has anything.
    pub(super) fn has_nothing_by_hint(&mut self) -> bool {
        if !self.runtime.remedy.has_hint {
            return false;
        }
        let hint = self.runtime.common.hint;
        self.load(hint);
        self.runtime
            .workers
            .iter()
            .all(|worker| worker.deque.is_empty())
    }

    pub(super) fn look_at_handed(&mut self, worker: usize) {
        let handed = self.runtime.workers[worker].handed;
        self.load(handed);
    }

    /// Models `Queues::others_have_handed`.
    pub(super) fn look_at_all_handed(&mut self) {
        if self.runtime.remedy.has_hint {
            let hint = self.runtime.common.hint;
            return self.load(hint);
        }
        self.victims()
            .for_each(|victim| self.look_at_handed(victim));
    }

    /// Models `Shared::wake_one` of worker/handoff.rs.
    pub(super) fn wake_one(&mut self) {
        let groups = self.runtime.idles.len();
        let own = self.idle_of(self.core) % groups;
        for idle in (own..groups).chain(0..own) {
            if !self.call(|runtime| runtime.idles[idle].0.wanted()) {
                continue;
            }
            let group = self.runtime.remedy.group;
            let workers = idle * group..((idle + 1) * group).min(self.runtime.workers.len());
            let claimed = workers.into_iter().find(|&worker| {
                self.call(|runtime| {
                    let sleeper = &runtime.workers[worker].remote.sleeper;
                    runtime.idles[idle].0.claim(sleeper)
                })
            });
            if let Some(worker) = claimed {
                return self.wake(worker);
            }
        }
    }

    /// Models `Remote::wake` of shared/remote.rs.
    pub(super) fn wake(&mut self, worker: usize) {
        let waker = self.runtime.workers[worker].waker;
        self.modify(waker);
        self.work(WAKE_NS);
        self.modify(waker);
        self.steps.push_back(Step::Wake(worker));
    }

    /// Models `Remote::mail` of worker/handoff.rs.
    pub(crate) fn mail(&mut self, worker: usize, item: u64) {
        let items = self.runtime.workers[worker].items;
        self.store(items);
        let idle = self.idle_of(worker);
        let is_asleep = self.call(|runtime| {
            let remote = &runtime.workers[worker].remote;
            remote.inbox.put(item);
            runtime.idles[idle].0.claim_owner(&remote.sleeper)
        });
        if is_asleep {
            self.wake(worker);
        }
    }

    /// Takes all mail, and returns it.
    pub(crate) fn take_mail(&mut self) -> Vec<u64> {
        let core = self.core;
        if !self.call(|runtime| runtime.workers[core].remote.inbox.has_mail()) {
            return Vec::new();
        }
        let items = self.own().items;
        self.load(items);
        self.call(|runtime| runtime.workers[core].remote.inbox.take())
    }

    /// Models `Queues::spread` and `Remote::hand`: hands a new fiber to the next worker in turn.
    pub(crate) fn hand(&mut self, item: u64) {
        let spread = self.runtime.common.spread;
        self.modify(spread);
        self.runtime.spread += 1;
        let worker = self.runtime.spread % self.runtime.workers.len();
        self.call(|runtime| {
            let handed = &runtime.workers[worker].remote.handed;
            handed.fetch_add(1, Ordering::Relaxed)
        });
        self.mail(worker, item);
    }

    /// Models `Remote::count_handed_taken`.
    pub(crate) fn count_handed_taken(&mut self) {
        let core = self.core;
        self.call(|runtime| {
            let handed = &runtime.workers[core].remote.handed;
            handed.fetch_sub(1, Ordering::Relaxed)
        });
    }

    /// Models a look at the parking lot's queue of a lock (sync/parking_lot.rs): `Mutex::lock`, the
    /// queue, `Mutex::unlock`.
    pub(crate) fn with_queue(&mut self, lock: u64) {
        let mixed = (lock + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bucket = self.runtime.buckets[(mixed >> 58) as usize];
        self.modify(bucket);
        self.store(bucket);
        self.modify(bucket);
    }
}

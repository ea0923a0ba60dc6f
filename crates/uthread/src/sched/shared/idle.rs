//! Sleeping, searching and waking workers. README.md describes the protocol and why no wake-up is
//! lost.

use crate::atomic::{AtomicIsize, AtomicU8, AtomicUsize, Ordering, fence};

/// The worker runs, or looks for work before it sleeps.
const AWAKE: u8 = 0;
/// The worker sleeps, or is about to: after adding work, it must be woken.
const SLEEPING: u8 = 1;
/// The worker sleeps, or is about to, and is woken only for what it alone may take.
const RESTING: u8 = 2;

/// The state of all workers of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Briefly negative when a worker ends a search that its waker has not counted yet.
    searching: AtomicIsize,
    sleeping: AtomicUsize,
}

/// The state of one worker.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    state: AtomicU8,
}

impl Idle {
    /// Counts a worker as searching. Called when it has no work of its own and starts to search
    /// that of others.
    pub(crate) fn begin_search(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a successful search. Returns `true` if no other worker is known to search: the caller
    /// must then check every queue that any worker may take from, as wakers have relied on this
    /// search.
    pub(crate) fn end_search(&self) -> bool {
        let last = self.searching.fetch_sub(1, Ordering::SeqCst) <= 1;
        // Pairs with the fence in `wanted`; see README.md.
        fence(Ordering::SeqCst);
        last
    }

    /// Announces sleep after an unsuccessful search. The worker must check every queue once more.
    pub(crate) fn announce_sleep(&self, sleeper: &Sleeper) {
        // Counted before the worker can be claimed, so that the count never becomes negative.
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        sleeper.state.store(SLEEPING, Ordering::SeqCst);
        self.searching.fetch_sub(1, Ordering::SeqCst);
        // Pairs with the fences in `wanted` and `claim_owner`; see README.md.
        fence(Ordering::SeqCst);
    }

    /// Ends the sleep of a worker. Returns `true` if the worker counts as searching: because a
    /// waker has claimed it, or because its last check `saw_work` for any worker, which may have
    /// been left to it.
    pub(crate) fn end_sleep(&self, sleeper: &Sleeper, saw_work: bool) -> bool {
        if !sleeper.claim() {
            return true;
        }
        if saw_work {
            self.begin_search();
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        saw_work
    }

    /// Announces the sleep of a worker that takes no work of others, and does not search. The worker
    /// must check its own queues once more.
    pub(crate) fn announce_rest(&self, sleeper: &Sleeper) {
        sleeper.state.store(RESTING, Ordering::SeqCst);
        // Pairs with the fence in `claim_owner`; see README.md.
        fence(Ordering::SeqCst);
    }

    /// Ends such a sleep.
    pub(crate) fn end_rest(&self, sleeper: &Sleeper) {
        // Otherwise a waker has ended it.
        sleeper.claim_from(RESTING);
    }

    /// Returns `true` if a worker should be woken for work that any worker may take. Called after
    /// the work was queued.
    pub(crate) fn wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.searching.load(Ordering::SeqCst) <= 0 && self.sleeping.load(Ordering::SeqCst) > 0
    }

    /// Claims a sleeping worker, to be woken. It then counts as searching.
    pub(crate) fn claim(&self, sleeper: &Sleeper) -> bool {
        let claimed = sleeper.claim();
        if claimed {
            self.searching.fetch_add(1, Ordering::SeqCst);
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
        }
        claimed
    }

    /// Claims a sleeping or resting worker for work that is in its own inbox. Called after the work
    /// was queued.
    pub(crate) fn claim_owner(&self, sleeper: &Sleeper) -> bool {
        fence(Ordering::SeqCst);
        self.claim(sleeper) || sleeper.claim_from(RESTING)
    }
}

impl Sleeper {
    /// Returns `true` unless the worker sleeps.
    #[allow(
        dead_code,
        reason = "the models, which include this file, do not call it"
    )]
    pub(crate) fn is_awake(&self) -> bool {
        self.state.load(Ordering::SeqCst) == AWAKE
    }

    /// Decides between a waker and a worker that has woken up by itself: only one of them succeeds.
    fn claim(&self) -> bool {
        self.claim_from(SLEEPING)
    }

    fn claim_from(&self, state: u8) -> bool {
        self.state.load(Ordering::SeqCst) == state
            && self
                .state
                .compare_exchange(state, AWAKE, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }
}

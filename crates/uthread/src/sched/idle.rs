//! Who sleeps, who searches, who wakes whom. The protocol and why no wake-up is lost: README.md.

use crate::atomic::{AtomicIsize, AtomicU8, AtomicUsize, Ordering, fence};

/// Running, or about to look for work before it sleeps.
const AWAKE: u8 = 0;
/// Asleep, or about to be: whoever adds work must wake it.
const SLEEPING: u8 = 1;

/// What is known of all workers of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Below zero for a moment when a worker ends a search that its waker has yet to count.
    searching: AtomicIsize,
    sleeping: AtomicUsize,
}

/// One worker's part.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    state: AtomicU8,
}

impl Idle {
    /// The worker found nothing of its own and starts to look at others'.
    pub(crate) fn begin_search(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// The search found something; true if nobody else is known to search: the caller then looks
    /// at every queue that any worker may take from, since wakers relied on this search.
    pub(crate) fn end_search(&self) -> bool {
        let last = self.searching.fetch_sub(1, Ordering::SeqCst) <= 1;
        // Pairs with the fence in `wanted`: see README.md.
        fence(Ordering::SeqCst);
        last
    }

    /// Announces sleep after a search in vain. The worker must look at every queue once more.
    pub(crate) fn announce_sleep(&self, sleeper: &Sleeper) {
        // Counted before it can be claimed, so that the count never drops below zero.
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        sleeper.state.store(SLEEPING, Ordering::SeqCst);
        self.searching.fetch_sub(1, Ordering::SeqCst);
        // Pairs with the fences in `wanted` and `claim_owner`: see README.md.
        fence(Ordering::SeqCst);
    }

    /// The worker is up, for whatever reason; true if it counts as searching: a waker had claimed
    /// it, or its last look `saw_work` for any worker, which its waker may have left to it.
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

    /// Whether work that any worker may take should wake one. Called after the work was queued.
    pub(crate) fn wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.searching.load(Ordering::SeqCst) <= 0 && self.sleeping.load(Ordering::SeqCst) > 0
    }

    /// Claims a sleeping worker for waking; it then counts as searching.
    pub(crate) fn claim(&self, sleeper: &Sleeper) -> bool {
        let claimed = sleeper.claim();
        if claimed {
            self.searching.fetch_add(1, Ordering::SeqCst);
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
        }
        claimed
    }

    /// The same for work that only this worker may take. Called after the work was queued.
    pub(crate) fn claim_owner(&self, sleeper: &Sleeper) -> bool {
        fence(Ordering::SeqCst);
        self.claim(sleeper)
    }
}

impl Sleeper {
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Ordering::SeqCst) == SLEEPING
    }

    /// One side wins: the waker that will wake the worker, or the worker that is up already.
    fn claim(&self) -> bool {
        self.is_asleep()
            && self
                .state
                .compare_exchange(SLEEPING, AWAKE, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }
}

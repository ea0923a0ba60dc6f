//! The requests that have not ended, and the fibers that perform them.
//!
//! A completion may submit a request. It is deferred until the completion has returned, and then
//! performed by the same fiber, so that a request that follows another costs neither a message nor
//! a fiber. All other requests get a fiber of their own.
//!
//! All this belongs to the manager's thread, the only worker of its runtime.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use uthread::sync::Semaphore;
use uthread::thread::{JoinHandle, Thread, is_cancelled};

use crate::batch::Batch;
use crate::completion::Completion;
use crate::registered::Access;
use crate::request::{self, Request};
use crate::stream::Stream;

/// Number of requests that a fiber performs before it ends. If none of them has to wait, all other
/// fibers wait for it meanwhile.
const REQUESTS_PER_FIBER: usize = 64;

/// A request that was submitted and has not started.
pub(crate) struct Submission {
    number: u64,
    work: Work,
}

/// The work of a fiber, until its end.
pub(crate) enum Work {
    Request(Request, Completion),
    Batch(Batch),
    Stream(Stream, Completion),
    Access(Access, Completion),
}

impl Submission {
    pub(crate) fn new(number: u64, work: Work) -> Submission {
        Submission { number, work }
    }

    /// Returns the items that a stream may still deliver.
    fn credit(&self) -> Option<Arc<Semaphore>> {
        match &self.work {
            Work::Stream(stream, _) => Some(stream.credit()),
            Work::Request(..) | Work::Batch(_) | Work::Access(..) => None,
        }
    }

    /// Performs the request in the calling fiber, until its end.
    fn perform(self) {
        let ((result, flags), completion) = match self.work {
            Work::Batch(batch) => return batch.perform(),
            Work::Stream(stream, completion) => return stream.run(completion),
            Work::Request(request, completion) => (request::perform(request), completion),
            Work::Access(access, completion) => ((access.perform(), 0), completion),
        };
        LIVE.with(|live| live.is_ending.set(true));
        completion.end(result, flags);
        LIVE.with(|live| live.is_ending.set(false));
    }
}

thread_local! {
    static LIVE: Live = Live::default();
    /// The manager of this thread; zero in other threads.
    static MANAGER: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
struct Live {
    /// By the number of the request.
    entries: RefCell<FxHashMap<u64, Entry>>,
    /// Requests that completions have submitted, in that order.
    deferred: RefCell<VecDeque<Submission>>,
    /// The fiber that starts requests. `None` before it has started, and after its end.
    owner: RefCell<Option<Thread>>,
    /// Set while the running fiber calls its last completion, and so looks for what was deferred.
    is_ending: Cell<bool>,
}

struct Entry {
    fiber: JoinHandle<()>,
    /// The items that a stream may still deliver.
    credit: Option<Arc<Semaphore>>,
}

/// The time in which the manager's thread accepts its own submissions.
pub(crate) struct Open(());

/// Accepts submissions of the calling fiber's thread, which is the manager's from now on, until the
/// result is dropped. The fiber is unparked when it has to start deferred requests.
pub(crate) fn open(manager: u64) -> Open {
    MANAGER.set(manager);
    LIVE.with(|live| live.owner.replace(Some(uthread::current())));
    Open(())
}

impl Drop for Open {
    fn drop(&mut self) {
        let deferred = LIVE.with(|live| {
            live.owner.take();
            live.deferred.take()
        });
        // Their completions may submit again.
        drop(deferred);
    }
}

/// Returns `true` on the thread of this manager.
pub(crate) fn is_thread_of(manager: u64) -> bool {
    MANAGER.get() == manager
}

/// Keeps a request until the running completion has returned. Cancels it if the manager has ended.
pub(crate) fn defer(submission: Submission) {
    let refused = LIVE.with(|live| {
        if live.owner.borrow().is_none() {
            return Some(submission);
        }
        live.deferred.borrow_mut().push_back(submission);
        if !live.is_ending.get() {
            live.wake_owner();
        }
        None
    });
    // Its completion may submit again.
    drop(refused);
}

/// Returns `true` if requests wait for a fiber.
pub(crate) fn has_deferred() -> bool {
    LIVE.with(|live| !live.deferred.borrow().is_empty())
}

/// Starts all requests that are deferred now, as no fiber has performed them.
pub(crate) fn start_deferred() {
    let deferred = LIVE.with(|live| live.deferred.take());
    deferred.into_iter().for_each(start);
}

/// Spawns a fiber for a request. It starts when the caller suspends, as there is one worker.
pub(crate) fn start(submission: Submission) {
    let number = submission.number;
    let credit = submission.credit();
    // Dropped in this order if the fiber is cancelled before it has started: the completion may
    // submit another request.
    let unstarted = (submission, Performer { number });
    let fiber = uthread::spawn(move || {
        let (submission, performer) = unstarted;
        performer.run(submission);
    });
    // A runtime that stops ends it at once.
    if !fiber.is_finished() {
        let entry = Entry { fiber, credit };
        LIVE.with(|live| live.entries.borrow_mut().insert(number, entry));
    }
}

/// Cancels a request, if it has not ended.
pub(crate) fn cancel(number: u64) {
    let cancelled = LIVE.with(|live| {
        if let Some(entry) = live.entries.borrow().get(&number) {
            entry.fiber.cancel();
            return None;
        }
        let index = live.index_of_deferred(number)?;
        live.deferred.borrow_mut().remove(index)
    });
    // Its completion may submit again.
    drop(cancelled);
}

/// Lets a stream deliver more items.
pub(crate) fn add_credit(number: u64, items: u32) {
    let credit = LIVE.with(|live| match live.entries.borrow().get(&number) {
        Some(entry) => entry.credit.clone(),
        None => {
            let index = live.index_of_deferred(number)?;
            live.deferred.borrow()[index].credit()
        }
    });
    if let Some(credit) = credit {
        credit.add_permits(items as usize);
    }
}

impl Live {
    fn wake_owner(&self) {
        if let Some(owner) = &*self.owner.borrow() {
            owner.unpark();
        }
    }

    fn index_of_deferred(&self, number: u64) -> Option<usize> {
        let deferred = self.deferred.borrow();
        deferred.iter().position(|next| next.number == number)
    }
}

/// The fiber of a request, which is live until this is dropped.
struct Performer {
    number: u64,
}

impl Performer {
    /// Performs a request, and then deferred ones.
    fn run(mut self, submission: Submission) {
        submission.perform();
        for _ in 1..REQUESTS_PER_FIBER {
            let Some(submission) = LIVE.with(|live| self.next(live)) else {
                break;
            };
            submission.perform();
        }
    }

    /// Takes a deferred request in place of the one that has ended. Returns `None` if there is
    /// none, or if this fiber was cancelled, which is final.
    fn next(&mut self, live: &Live) -> Option<Submission> {
        let mut deferred = live.deferred.borrow_mut();
        if deferred.is_empty() || is_cancelled() {
            return None;
        }
        let mut entries = live.entries.borrow_mut();
        let mut entry = entries.remove(&self.number)?;
        let submission = deferred.pop_front()?;
        // This fiber may wait for long.
        if !deferred.is_empty() {
            live.wake_owner();
        }
        entry.credit = submission.credit();
        self.number = submission.number;
        entries.insert(self.number, entry);
        Some(submission)
    }
}

impl Drop for Performer {
    fn drop(&mut self) {
        // A thread that ends has no live requests any more.
        let removed = LIVE.try_with(|live| {
            if !live.deferred.borrow().is_empty() {
                live.wake_owner();
            }
            live.entries.borrow_mut().remove(&self.number)
        });
        // To drop the handle of the own fiber may let others run, which use the live requests.
        drop(removed);
    }
}

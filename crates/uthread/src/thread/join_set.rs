//! A set of fibers whose results are taken in the order in which they end.
//!
//! ```text
//!   insert      an observer with the fiber's key waits for the fiber's outcome
//!   the end     the observer appends the key to `ended`, which wakes the set's owner
//!   join_next   takes the first key, and joins that fiber
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use slab::Slab;

use super::builder::start;
use super::{Cancelled, JoinHandle, Result, Scope, spawn};
use crate::fiber::wake_handle::Observer;
use crate::fiber::{Children, Identity, WakeHandle, drop_quietly};
use crate::sched::caller::{self, turn, wait};
use crate::sync::change::Notified;
use crate::sync::notify_mutex::{NotifyMutex, WaiterId};
use crate::sync::selection::{ArmHandle, Joins, JoinsNext};

/// A set of fibers whose results are taken in the order in which they end, for programs that start
/// many fibers and go on with the results of the first, or start more for each result.
///
/// Dropping the set [cancels](JoinHandle::cancel) its fibers and waits until they have ended. Their
/// results are dropped, and so are the payloads of their panics.
///
/// The name and the methods are those of Tokio's `JoinSet`.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use uthread::thread::JoinSet;
///
/// /// Returns the first two answers.
/// fn ask(replicas: u32) -> Vec<u32> {
///     let mut asking = JoinSet::new();
///     for replica in 0..replicas {
///         asking.spawn(move || {
///             uthread::sleep(Duration::from_millis(10 * u64::from(replica)));
///             replica
///         });
///     }
///     let answers = std::iter::from_fn(|| asking.join_next());
///     answers.flatten().take(2).collect()
///     // The other fibers are cancelled here.
/// }
///
/// assert_eq!(uthread::run(|| ask(100)), [0, 1]);
/// ```
///
/// A crawler starts fibers for what the first ones have found:
///
/// ```
/// use uthread::thread::JoinSet;
///
/// fn links(page: u32) -> Vec<u32> {
///     [2 * page, 2 * page + 1].into_iter().filter(|page| *page < 100).collect()
/// }
///
/// let mut pages = 0;
/// let mut fetching = JoinSet::new();
/// fetching.spawn(|| links(1));
/// while let Some(found) = fetching.join_next() {
///     pages += 1;
///     for page in found.expect("no fiber panics") {
///         fetching.spawn(move || links(page));
///     }
/// }
/// assert_eq!(pages, 99);
/// ```
pub struct JoinSet<T> {
    /// Bounded by the number of fibers that the program adds.
    members: Slab<Member<T>>,
    /// The keys of members that have ended, each once.
    ended: Arc<NotifyMutex<VecDeque<usize>>>,
}

struct Member<T> {
    handle: JoinHandle<T>,
    /// The fibers of its scope, if it is in one.
    children: Option<Arc<Children>>,
}

impl<T> JoinSet<T> {
    /// Creates an empty set. See the example of [`JoinSet`].
    #[must_use]
    pub fn new() -> JoinSet<T> {
        JoinSet {
            members: Slab::new(),
            ended: Arc::new(NotifyMutex::new(VecDeque::new())),
        }
    }

    /// Spawns a fiber in the set, like [`spawn`](super::spawn()). See the example of [`JoinSet`].
    ///
    /// # Panics
    ///
    /// Panics if the default runtime is needed and cannot start.
    #[track_caller]
    pub fn spawn<F>(&mut self, f: F)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.insert(spawn(f));
    }

    /// Spawns a fiber of a scope in the set, like [`Scope::spawn`]. The scope does not panic for a
    /// panic that the set has returned.
    ///
    /// # Panics
    ///
    /// Panics if the default runtime is needed and cannot start.
    ///
    /// ```
    /// use uthread::thread::{JoinSet, scope};
    ///
    /// let words = ["plain".to_owned(), "blocking".to_owned(), "code".to_owned()];
    /// let longest = scope(|scope| {
    ///     let mut lengths = JoinSet::new();
    ///     for word in &words {
    ///         lengths.spawn_scoped(scope, || word.len());
    ///     }
    ///     std::iter::from_fn(|| lengths.join_next()).flatten().max()
    /// });
    /// assert_eq!(longest, Some(8));
    /// ```
    #[track_caller]
    pub fn spawn_scoped<'scope, F>(&mut self, scope: &'scope Scope<'scope, '_>, f: F)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let identity = Identity::anonymous(Location::caller());
        let (handle, children) = start(|| scope.fiber(identity, f)).into_parts();
        self.admit(handle, Some(children));
    }

    /// Moves a fiber into the set, for example one that a [`Builder`](super::Builder) or a
    /// [`Runtime`](crate::Runtime) has spawned.
    ///
    /// ```
    /// use uthread::thread::{Builder, JoinSet};
    ///
    /// let mut set = JoinSet::new();
    /// set.insert(Builder::new().name("first".into()).spawn(|| 6 * 7)?);
    /// assert_eq!(set.join_next().unwrap().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn insert(&mut self, handle: JoinHandle<T>) {
        self.admit(handle, None);
    }

    fn admit(&mut self, handle: JoinHandle<T>, children: Option<Arc<Children>>) {
        let entry = self.members.vacant_entry();
        let end: Box<dyn Observer> = Box::new(End {
            key: entry.key(),
            ended: Arc::clone(&self.ended),
        });
        let end = WakeHandle::Thread(thread::current(), Some(Arc::new(end)));
        if !handle.await_end_by(end.clone()) {
            end.wake();
        }
        entry.insert(Member { handle, children });
    }

    /// Waits until a fiber of the set has ended, removes it from the set and returns its result.
    /// Returns `None` if the set is empty.
    ///
    /// If the caller is cancelled, it is unwound, as by [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// Those of [`JoinHandle::join`]: the payload of the fiber's panic, or [`Cancelled`].
    ///
    /// ```
    /// use uthread::thread::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.spawn(|| "5".parse::<u32>().unwrap());
    /// assert_eq!(set.join_next().unwrap().unwrap(), 5);
    /// set.spawn(|| "many".parse::<u32>().unwrap());
    /// assert!(set.join_next().unwrap().is_err());
    /// assert!(set.join_next().is_none());
    /// ```
    pub fn join_next(&mut self) -> Option<Result<T>> {
        if self.members.is_empty() {
            return None;
        }
        // A caller that is cancelled and cannot be unwound waits as in `JoinHandle::join`.
        let key = self.ended.wait(None, VecDeque::pop_front).ok();
        key.or_else(|| self.await_end()).map(|key| self.take(key))
    }

    /// Waits like [`join_next`](JoinSet::join_next), but at most for `timeout`. Returns `None` if
    /// no fiber has ended by then, if the caller is cancelled, or if the set is empty.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::thread::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.spawn(|| uthread::sleep(Duration::from_secs(3600)));
    /// assert!(set.join_next_timeout(Duration::from_millis(1)).is_none());
    /// assert_eq!(set.len(), 1);
    /// ```
    pub fn join_next_timeout(&mut self, timeout: Duration) -> Option<Result<T>> {
        if self.members.is_empty() {
            return None;
        }
        let deadline = caller::after(caller::now(), timeout);
        let key = self.ended.wait(Some(deadline), VecDeque::pop_front).ok();
        key.map(|key| self.take(key))
    }

    /// Removes a fiber that has ended from the set and returns its result, without waiting. Returns
    /// `None` if none has ended, or if the set is empty.
    ///
    /// ```
    /// use uthread::thread::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// set.spawn(|| 6 * 7);
    /// let answer = loop {
    ///     match set.try_join_next() {
    ///         Some(answer) => break answer,
    ///         None => uthread::yield_now(),
    ///     }
    /// };
    /// assert_eq!(answer.unwrap(), 42);
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T>> {
        let next = self.take_next();
        if next.is_none() {
            turn::spend_try();
        }
        next
    }

    /// Requests all fibers of the set to end; see [`JoinHandle::cancel`]. They stay in the set until
    /// [`join_next`](JoinSet::join_next) returns their results. Fibers that are added later are not
    /// cancelled.
    ///
    /// ```
    /// use uthread::thread::{Cancelled, JoinSet, park};
    ///
    /// let mut set = JoinSet::new();
    /// for _ in 0..3 {
    ///     set.spawn(|| loop {
    ///         park();
    ///     });
    /// }
    /// set.cancel_all();
    /// while let Some(ended) = set.join_next() {
    ///     assert!(ended.unwrap_err().is::<Cancelled>());
    /// }
    /// ```
    pub fn cancel_all(&self) {
        self.members
            .iter()
            .for_each(|(_, member)| member.handle.cancel());
    }

    /// Returns the number of fibers in the set, with those that have ended and whose results were
    /// not taken. See the example of [`join_next_timeout`](JoinSet::join_next_timeout).
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns `true` if the set has no fibers.
    ///
    /// ```
    /// assert!(uthread::thread::JoinSet::<()>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn take_next(&mut self) -> Option<Result<T>> {
        let key = self.ended.with(VecDeque::pop_front);
        key.map(|key| self.take(key))
    }

    /// Removes a member that has ended, and returns its result.
    fn take(&mut self, key: usize) -> Result<T> {
        let Member { handle, children } = self.members.remove(key);
        let result = handle.join();
        if let (Some(children), Err(payload)) = (children, &result) {
            children.take_end(payload);
        }
        result
    }

    /// Waits until a member has ended, whatever happens.
    #[cold]
    fn await_end(&self) -> Option<usize> {
        let has_ended = |ended: &VecDeque<usize>| !ended.is_empty();
        let waiter = self.ended.enlist(caller::wake_handle, has_ended);
        wait::park_until(|| self.ended.with(|ended| has_ended(ended)));
        if let Some(waiter) = waiter {
            self.ended.withdraw(waiter);
        }
        self.ended.with(VecDeque::pop_front)
    }
}

/// Waits for the end of one member.
struct End {
    key: usize,
    ended: Arc<NotifyMutex<VecDeque<usize>>>,
}

impl Observer for End {
    fn notify(&self) {
        self.ended.change(|ended| ended.push_back(self.key));
    }
}

impl<T> Notified for &mut JoinSet<T> {
    type Output = Result<T>;

    fn take(&mut self) -> Option<Result<T>> {
        self.take_next()
    }

    fn enlist(&self, handle: ArmHandle) -> Option<WaiterId> {
        let has_ended = |ended: &VecDeque<usize>| !ended.is_empty();
        self.ended.enlist(|| handle.wake_handle(), has_ended)
    }

    fn withdraw(&self, id: WaiterId) {
        self.ended.withdraw(id);
    }

    fn closed() -> Result<T> {
        Err(Box::new(Cancelled))
    }
}

impl<T> JoinsNext for &mut JoinSet<T> {
    fn has_members(&self) -> bool {
        !self.members.is_empty()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("JoinSet");
        shown.field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.cancel_all();
        for Member { handle, .. } in self.members.drain() {
            handle.withdraw();
            drop_quietly(handle.join_to_end());
        }
    }
}

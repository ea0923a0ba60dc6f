//! The work that is left: a stack that all readers share, and the end of the search once it is
//! empty.

use std::collections::VecDeque;
use std::sync::PoisonError;

use uthread::sync::{Condvar, Mutex, MutexGuard};

/// Maximum number of files that a reader takes at once: few, so that all readers end at about the
/// same time, and more than one, so that not each file takes the lock.
const FILES_AT_ONCE: usize = 4;

/// Work that readers take from each other.
pub(crate) struct Queue<D, F> {
    state: Mutex<State<D, F>>,
    changed: Condvar,
    /// `true` if readers take the newest files, which bounds the queue by the depth of the tree;
    /// `false` if they take the oldest, in the order of the output. Of the directories, they take
    /// the newest.
    newest_first: bool,
}

struct State<D, F> {
    directories: Vec<D>,
    files: VecDeque<F>,
    /// Number of participants that may add work.
    busy: usize,
    /// Number of readers that wait for work.
    waiting: usize,
    is_stopped: bool,
}

/// The next work of a reader.
pub(crate) enum Work<D, F> {
    Directory(D),
    Files(Vec<F>),
}

impl<D, F> Queue<D, F> {
    /// Returns a queue with one participant, which may add work.
    pub(crate) fn new(newest_first: bool) -> Queue<D, F> {
        Queue {
            state: Mutex::new(State {
                directories: Vec::new(),
                files: VecDeque::new(),
                busy: 1,
                waiting: 0,
                is_stopped: false,
            }),
            changed: Condvar::new(),
            newest_first,
        }
    }

    /// Adds a participant, which may add work until it [leaves](Queue::leave) or waits for work.
    pub(crate) fn join(&self) {
        self.lock().busy += 1;
    }

    /// Adds work. Readers take the last of the directories first, and files before directories.
    /// Wakes readers that wait, and returns how many more readers would have work.
    pub(crate) fn add(&self, directories: Vec<D>, files: Vec<F>) -> usize {
        let added = directories.len() + files.len().div_ceil(FILES_AT_ONCE);
        let mut state = self.lock();
        if state.is_stopped {
            return 0;
        }
        state.directories.extend(directories);
        state.files.extend(files);
        let woken = added.min(state.waiting);
        drop(state);
        (0..woken).for_each(|_| self.changed.notify_one());
        added - woken
    }

    /// Takes work without waiting. Returns `None` if there is none.
    pub(crate) fn try_take(&self) -> Option<Work<D, F>> {
        let mut state = self.lock();
        self.pop(&mut state)
    }

    /// Waits for work, as a participant that adds none meanwhile. Returns `None` once all
    /// participants are done or the search is stopped.
    pub(crate) fn take(&self) -> Option<Work<D, F>> {
        let mut state = self.lock();
        state.busy -= 1;
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(work) = self.pop(&mut state) {
                state.busy += 1;
                return Some(work);
            }
            if state.busy == 0 {
                drop(state);
                self.stop();
                return None;
            }
            state.waiting += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Ends a participant that takes no more work.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        let is_last = state.busy == 0 && state.directories.is_empty() && state.files.is_empty();
        drop(state);
        if is_last {
            self.stop();
        }
    }

    /// Ends the search: what is left is dropped.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        let dropped = (
            std::mem::take(&mut state.directories),
            std::mem::take(&mut state.files),
        );
        drop(state);
        drop(dropped);
        self.changed.notify_all();
    }

    fn pop(&self, state: &mut State<D, F>) -> Option<Work<D, F>> {
        if state.files.is_empty() {
            return state.directories.pop().map(Work::Directory);
        }
        let count = state.files.len().min(FILES_AT_ONCE);
        Some(Work::Files(if self.newest_first {
            state
                .files
                .drain(state.files.len() - count..)
                .rev()
                .collect()
        } else {
            state.files.drain(..count).collect()
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State<D, F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

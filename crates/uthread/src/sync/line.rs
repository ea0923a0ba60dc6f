//! Lines: who waits at an address, in the order in which they came.
//!
//! A lock is a word and has no room for those who wait for it. They stand in lines, one for each address where
//! somebody waits, in a table of the process: so a lock that nobody waits for takes no memory but its word. Who
//! serves a line takes a waiter out of it and wakes it. Being out of the line is what a waiter waits for; what
//! that means (to own a lock, to have been notified) is the matter of the lock.
//!
//! One lock, for a short time, guards a line, and the lines that share its part of the table. What a lock decides
//! together with its line (to join only while the lock is taken, to note that nobody waits any more) it decides
//! in [`at`]. Nobody is woken there.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::PoisonError;
use std::time::Instant;

use super::table;
use crate::atomic::MutexGuard;
use crate::fiber::WakeHandle;
use crate::sched::wait;

/// The lines of one part of the table.
#[derive(Default)]
pub(super) struct Lines {
    next_ticket: u64,
    /// By address and ticket; bounded by the number of fibers and threads.
    waiting: BTreeMap<(usize, u64), Waiting>,
}

struct Waiting {
    waiter: WakeHandle,
    /// What it waits for, in the words of the lock.
    want: usize,
}

impl Lines {
    pub(super) const fn new() -> Lines {
        Lines {
            next_ticket: 0,
            waiting: BTreeMap::new(),
        }
    }
}

/// A line, which nobody else touches meanwhile.
pub(super) struct Line {
    lines: MutexGuard<'static, Lines>,
    address: usize,
}

/// Calls `action` with the line of those who wait at `target`.
pub(super) fn at<T, R>(target: &T, action: impl FnOnce(&mut Line) -> R) -> R {
    action(&mut Line::at(ptr::from_ref(target).addr()))
}

impl Line {
    fn at(address: usize) -> Line {
        let lines = table::lines(address).lock();
        Line {
            lines: lines.unwrap_or_else(PoisonError::into_inner),
            address,
        }
    }

    /// What each wants, from the first on.
    pub(super) fn wants(&self) -> impl Iterator<Item = usize> {
        let line = (self.address, 0)..=(self.address, u64::MAX);
        self.lines
            .waiting
            .range(line)
            .map(|(_, waiting)| waiting.want)
    }

    /// Whether there are more than so many.
    pub(super) fn is_longer_than(&self, count: usize) -> bool {
        self.wants().nth(count).is_some()
    }

    /// Puts the caller at the end.
    pub(super) fn join(&mut self, want: usize) -> Place {
        let ticket = self.lines.next_ticket;
        self.lines.next_ticket += 1;
        let place = Place {
            address: self.address,
            ticket,
        };
        self.rejoin(&place, want);
        place
    }

    /// Puts the caller, who has been taken out, back to where it was: before all that came later.
    pub(super) fn rejoin(&mut self, place: &Place, want: usize) {
        let waiter = wait::wake_handle();
        let waiting = Waiting { waiter, want };
        self.lines.waiting.insert(place.key(), waiting);
    }

    /// Takes so many out, if there are.
    pub(super) fn take(&mut self, count: usize) -> Woken {
        let mut woken = Woken::default();
        for _ in 0..count {
            let Some(first) = self.take_first() else {
                break;
            };
            match woken.first {
                None => woken.first = Some(first),
                Some(_) => woken.others.push(first),
            }
        }
        woken
    }

    fn take_first(&mut self) -> Option<WakeHandle> {
        let line = (self.address, 0)..=(self.address, u64::MAX);
        let (&key, _) = self.lines.waiting.range(line).next()?;
        let waiting = self.lines.waiting.remove(&key)?;
        Some(waiting.waiter)
    }
}

/// Those who were taken out of a line, to be woken when it is let go.
#[derive(Default)]
#[must_use]
pub(super) struct Woken {
    first: Option<WakeHandle>,
    /// Mostly none, which takes no memory.
    others: Vec<WakeHandle>,
}

impl Woken {
    pub(super) fn wake(self) {
        self.first.iter().for_each(WakeHandle::wake);
        self.others.iter().for_each(WakeHandle::wake);
    }
}

/// The caller's place in a line.
pub(super) struct Place {
    address: usize,
    ticket: u64,
}

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Somebody took the caller out of the line.
    Served,
    /// The caller is cancelled, and has left the line.
    Cancelled,
    /// The deadline has passed, and the caller has left the line.
    Late,
}

impl Place {
    /// Waits until somebody takes the caller out of the line, cancelled or not.
    pub(super) fn wait(&self) {
        self.wait_or_vanish(|_| Woken::default());
    }

    /// The same. A caller that its runtime abandons leaves the line for ever, and calls `left` before anybody else can touch
    /// the line.
    pub(super) fn wait_or_vanish(&self, left: impl FnOnce(&mut Line) -> Woken) {
        while !wait::is_abandoned() {
            wait::park();
            if self.is_over() {
                return;
            }
        }
        if self.leave(Ended::Cancelled, left) == Ended::Cancelled {
            wait::vanish_if_abandoned("it waits for a lock");
        }
    }

    /// The same, until the caller is cancelled or the deadline passes. If it leaves the line then, it calls
    /// `left` before anybody else can touch the line.
    pub(super) fn wait_for(
        &self,
        deadline: Option<Instant>,
        left: impl FnOnce(&mut Line) -> Woken,
    ) -> Ended {
        loop {
            match deadline {
                None if wait::park_unless_cancelled() => {}
                None => return self.leave(Ended::Cancelled, left),
                Some(_) if wait::is_cancelled() => return self.leave(Ended::Cancelled, left),
                Some(time) if wait::now() >= time => return self.leave(Ended::Late, left),
                Some(time) => wait::park_deadline(time),
            }
            if self.is_over() {
                return Ended::Served;
            }
        }
    }

    /// Leaves the line because of `reason`, unless somebody has taken the caller out.
    fn leave(&self, reason: Ended, left: impl FnOnce(&mut Line) -> Woken) -> Ended {
        let mut line = Line::at(self.address);
        if line.lines.waiting.remove(&self.key()).is_none() {
            return Ended::Served;
        }
        let woken = left(&mut line);
        drop(line);
        woken.wake();
        reason
    }

    fn is_over(&self) -> bool {
        let line = Line::at(self.address);
        !line.lines.waiting.contains_key(&self.key())
    }

    fn key(&self) -> (usize, u64) {
        (self.address, self.ticket)
    }
}

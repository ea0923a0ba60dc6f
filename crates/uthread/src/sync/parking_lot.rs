//! The parking lot: a process-wide table of wait queues, by address.
//!
//! A lock is one word and has no room for its waiters. They wait in queues, one for each address
//! with waiters, in a table of the process: so an uncontended lock takes no memory but its word. A
//! waiter waits until another fiber or thread dequeues it; what that means (owning a lock, having
//! been notified) is the lock's business.
//!
//! A mutex, held for a short time, guards a bucket of queues. What a lock decides together with its
//! queue (to enqueue only while the lock is taken, to clear a bit when the queue is empty) it
//! decides in [`with_queue`]. Nobody is woken there.
//!
//! A fiber that its runtime abandons takes nothing any more. It leaves its queue when its worker
//! comes to it, which another fiber may delay for ever, so until then it counts as absent. What it
//! was granted before, and has not noticed, it returns.

use std::time::Instant;

use super::bucket::{Bucket, Key};
use super::buckets;
use crate::atomic::{MutexGuard, lock};
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, turn, wait};

/// The locked queue of one address.
pub(super) struct WaitQueue {
    bucket: MutexGuard<'static, Bucket>,
    address: usize,
}

/// Calls `action` with the locked queue of the waiters at `target`.
pub(super) fn with_queue<T, R>(target: *const T, action: impl FnOnce(&mut WaitQueue) -> R) -> R {
    action(&mut WaitQueue::at(target.addr()))
}

impl WaitQueue {
    fn at(address: usize) -> WaitQueue {
        WaitQueue {
            bucket: lock(buckets::bucket(address)),
            address,
        }
    }

    /// Returns what each waiter wants, the first one first.
    pub(super) fn wants(&self) -> impl Iterator<Item = usize> {
        self.bucket.wants(self.address)
    }

    /// Returns `true` if there are more than `count` waiters.
    pub(super) fn is_longer_than(&self, count: usize) -> bool {
        self.wants().nth(count).is_some()
    }

    /// Returns the position of the first waiter, or of the next one that comes.
    pub(super) fn first_position(&mut self) -> u64 {
        self.bucket.first_position(self.address)
    }

    /// Appends the caller.
    pub(super) fn enqueue(&mut self, want: usize) -> Waiter {
        let waiter = Waiter {
            address: self.address,
            position: self.bucket.new_position(),
        };
        self.requeue(&waiter, want);
        waiter
    }

    /// Puts the caller, which has been dequeued, back to its position: before all that came later.
    pub(super) fn requeue(&mut self, waiter: &Waiter, want: usize) {
        let handle = caller::wake_handle();
        self.bucket.insert(waiter.key(), handle, want);
    }

    /// Removes the first `count` waiters that are not abandoned, or all if there are fewer.
    pub(super) fn dequeue(&mut self, count: usize) -> Dequeued {
        self.dequeue_by(count, Bucket::take_first)
    }

    /// Removes all waiters, abandoned or not.
    pub(super) fn dequeue_all(&mut self) -> Dequeued {
        self.dequeue_by(usize::MAX, Bucket::take_any)
    }

    fn dequeue_by(
        &mut self,
        count: usize,
        take: impl Fn(&mut Bucket, usize) -> Option<WakeHandle>,
    ) -> Dequeued {
        let mut woken = Dequeued::default();
        for _ in 0..count {
            let Some(first) = take(&mut self.bucket, self.address) else {
                break;
            };
            match woken.first {
                None => woken.first = Some(first),
                Some(_) => woken.others.push(first),
            }
        }
        woken
    }
}

/// Dequeued waiters, to be woken after the queue is unlocked.
#[derive(Default)]
#[must_use]
pub(super) struct Dequeued {
    first: Option<WakeHandle>,
    /// Mostly empty, which takes no memory.
    others: Vec<WakeHandle>,
}

impl Dequeued {
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    pub(super) fn wake(self) {
        self.first.iter().for_each(WakeHandle::wake);
        self.others.iter().for_each(WakeHandle::wake);
    }
}

/// The caller's entry in a wait queue.
pub(super) struct Waiter {
    address: usize,
    position: u64,
}

const IN_A_QUEUE: &str = "it waits for a lock";

/// Calls `give_back` and does not return if the runtime of the caller abandons it.
pub(super) fn vanish_after(give_back: impl FnOnce()) {
    if cancellation::is_abandoned() {
        give_back();
        cancellation::vanish_if_abandoned(IN_A_QUEUE);
    }
}

/// The reason why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Another fiber or thread has dequeued the caller.
    Dequeued,
    /// The caller is cancelled, and has left the queue.
    Cancelled,
    /// The deadline has passed, and the caller has left the queue.
    TimedOut,
}

impl Waiter {
    /// Waits until the caller is dequeued, cancelled or not.
    pub(super) fn wait(&self) {
        self.wait_or_vanish(|_| Dequeued::default());
    }

    /// Waits until the caller is dequeued. A caller that its runtime abandons leaves the queue for
    /// ever, and calls `left` while the queue is still locked. If it was dequeued before, this
    /// returns, and the caller [returns](vanish_after) what it was granted.
    pub(super) fn wait_or_vanish(&self, left: impl FnOnce(&mut WaitQueue) -> Dequeued) {
        while !cancellation::is_abandoned() {
            wait::park();
            if self.is_dequeued() {
                return;
            }
        }
        if self.leave(WaitEnd::Cancelled, left) == WaitEnd::Cancelled {
            cancellation::vanish_if_abandoned(IN_A_QUEUE);
        }
    }

    /// Waits until the caller is dequeued or cancelled, or the deadline passes. If it leaves the
    /// queue by itself, it calls `left` while the queue is still locked. A caller that was
    /// dequeued, and is abandoned since, calls `give_back`, and does not return.
    pub(super) fn wait_for(
        &self,
        deadline: Option<Instant>,
        left: impl FnOnce(&mut WaitQueue) -> Dequeued,
        give_back: impl FnOnce(),
    ) -> WaitEnd {
        let ended = self.wait_until(deadline, left);
        if ended == WaitEnd::Dequeued {
            vanish_after(give_back);
        }
        ended
    }

    fn wait_until(
        &self,
        deadline: Option<Instant>,
        left: impl FnOnce(&mut WaitQueue) -> Dequeued,
    ) -> WaitEnd {
        loop {
            match deadline {
                None if wait::park_unless_cancelled() => {}
                None => return self.leave(WaitEnd::Cancelled, left),
                Some(_) if cancellation::is_cancelled() => {
                    return self.leave(WaitEnd::Cancelled, left);
                }
                Some(time) if caller::now() >= time => {
                    let ended = self.leave(WaitEnd::TimedOut, left);
                    turn::spend_within_wait();
                    return ended;
                }
                Some(time) => wait::park_deadline(time),
            }
            if self.is_dequeued() {
                return WaitEnd::Dequeued;
            }
        }
    }

    /// Leaves the queue because of `reason`, unless the caller was dequeued before.
    fn leave(&self, reason: WaitEnd, left: impl FnOnce(&mut WaitQueue) -> Dequeued) -> WaitEnd {
        let mut queue = WaitQueue::at(self.address);
        if !queue.bucket.remove(self.key()) {
            return WaitEnd::Dequeued;
        }
        let woken = left(&mut queue);
        drop(queue);
        woken.wake();
        reason
    }

    fn is_dequeued(&self) -> bool {
        let queue = WaitQueue::at(self.address);
        !queue.bucket.contains(self.key())
    }

    /// Returns the position among the waiters: greater than those of all that came before.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    fn key(&self) -> Key {
        (self.address, self.position)
    }
}

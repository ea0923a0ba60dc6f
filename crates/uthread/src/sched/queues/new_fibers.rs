//! The new fibers of one worker: a deque from which other workers steal or, if there is no other
//! worker, a plain queue, which needs no fences.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};

use crate::fiber::FiberRef;

/// Maximum number of fibers that a worker without others takes at once from outside, as many as the
/// deque takes.
const TAKEN_MAX: usize = 32;

/// Number of fibers for which a sleeping worker without others keeps room.
const ROOM_KEPT: usize = 1024;

/// Number of new fibers beyond which a fiber that spawns another one lets the first of them start:
/// less than a MiB of them, and more than programs spawn at a time while they hold a lock of `std`,
/// during which a fiber had better not be suspended.
const WAITING_MAX: usize = 4096;

/// Bounded by [`WAITING_MAX`] if a fiber of the worker spawns them, unless it panics, and by memory
/// otherwise, as `spawn` cannot refuse.
pub(crate) enum NewFibers {
    Own(Own),
    Stealable(Deque<FiberRef>, Stealer<FiberRef>),
}

/// The queue of the only worker.
pub(crate) struct Own {
    queue: RefCell<VecDeque<FiberRef>>,
    /// For other threads. Relaxed: they may see a slightly old length.
    length: Arc<AtomicUsize>,
}

/// The new fibers of a worker, as other threads access them.
pub(crate) enum NewFibersHandle {
    Own(Arc<AtomicUsize>),
    Stealable(Stealer<FiberRef>),
}

impl NewFibers {
    /// Creates the queue of a worker. `only` if there is no other one.
    pub(in crate::sched) fn new(only: bool) -> (NewFibers, NewFibersHandle) {
        if only {
            let own = Own {
                queue: RefCell::default(),
                length: Arc::default(),
            };
            let handle = NewFibersHandle::Own(Arc::clone(&own.length));
            return (NewFibers::Own(own), handle);
        }
        let deque = Deque::new_lifo();
        let stealer = deque.stealer();
        let handle = NewFibersHandle::Stealable(stealer.clone());
        (NewFibers::Stealable(deque, stealer), handle)
    }

    pub(in crate::sched) fn push(&self, fiber: FiberRef) {
        match self {
            NewFibers::Own(own) => own.access(|queue| queue.push_back(fiber)),
            NewFibers::Stealable(deque, _) => deque.push(fiber),
        }
    }

    /// Returns `true` if there are so many that the caller has to let some start.
    pub(in crate::sched) fn is_full(&self) -> bool {
        let count = match self {
            NewFibers::Own(own) => own.length.load(Ordering::Relaxed),
            NewFibers::Stealable(deque, _) => deque.len(),
        };
        count > WAITING_MAX
    }

    pub(in crate::sched) fn pop_newest(&self) -> Option<FiberRef> {
        match self {
            NewFibers::Own(own) => own.access(VecDeque::pop_back),
            NewFibers::Stealable(deque, _) => deque.pop(),
        }
    }

    pub(in crate::sched) fn pop_oldest(&self) -> Option<FiberRef> {
        match self {
            NewFibers::Own(own) => own.access(VecDeque::pop_front),
            NewFibers::Stealable(_, stealer) => take(|| stealer.steal()),
        }
    }

    pub(in crate::sched) fn is_empty(&self) -> bool {
        match self {
            NewFibers::Own(own) => own.length.load(Ordering::Relaxed) == 0,
            NewFibers::Stealable(deque, _) => deque.is_empty(),
        }
    }

    /// Gives back the room that a peak has needed. Called before a sleep.
    #[inline]
    pub(in crate::sched) fn release_room(&self) {
        if let NewFibers::Own(own) = self
            && own.queue.borrow().capacity() > ROOM_KEPT
        {
            own.access(|queue| queue.shrink_to(ROOM_KEPT));
        }
    }

    /// Takes fibers from outside the workers. Returns one, and may queue more.
    pub(in crate::sched) fn take_from(&self, injector: &Injector<FiberRef>) -> Option<FiberRef> {
        match self {
            NewFibers::Own(_) => {
                let first = take(|| injector.steal())?;
                let others = std::iter::from_fn(|| take(|| injector.steal()));
                others
                    .take(TAKEN_MAX - 1)
                    .for_each(|fiber| self.push(fiber));
                Some(first)
            }
            NewFibers::Stealable(deque, _) => take(|| injector.steal_batch_and_pop(deque)),
        }
    }

    /// Returns the deque that others steal from, if there are others.
    pub(in crate::sched) fn deque(&self) -> Option<&Deque<FiberRef>> {
        match self {
            NewFibers::Own(_) => None,
            NewFibers::Stealable(deque, _) => Some(deque),
        }
    }
}

impl Own {
    /// Takes and queues a fiber if the queue need not grow and is not [full](NewFibers::is_full).
    /// Returns `true` if it did.
    #[inline]
    pub(in crate::sched) fn push_in_place(&self, fiber: &mut Option<FiberRef>) -> bool {
        self.access(|queue| {
            let has_room = queue.len() < WAITING_MAX && queue.len() < queue.capacity();
            if has_room && let Some(fiber) = fiber.take() {
                queue.push_back(fiber);
            }
            has_room
        })
    }

    /// Calls `action` with the queue, which runs no code of the program.
    #[inline]
    fn access<R>(&self, action: impl FnOnce(&mut VecDeque<FiberRef>) -> R) -> R {
        let mut queue = self.queue.borrow_mut();
        let result = action(&mut queue);
        self.length.store(queue.len(), Ordering::Relaxed);
        result
    }
}

impl NewFibersHandle {
    pub(in crate::sched) fn len(&self) -> usize {
        match self {
            NewFibersHandle::Own(length) => length.load(Ordering::Relaxed),
            NewFibersHandle::Stealable(stealer) => stealer.len(),
        }
    }

    pub(in crate::sched) fn is_empty(&self) -> bool {
        match self {
            NewFibersHandle::Own(length) => length.load(Ordering::Relaxed) == 0,
            NewFibersHandle::Stealable(stealer) => stealer.is_empty(),
        }
    }

    /// Returns the handle that steals them, if there are other workers.
    pub(in crate::sched) fn stealer(&self) -> Option<&Stealer<FiberRef>> {
        match self {
            NewFibersHandle::Own(_) => None,
            NewFibersHandle::Stealable(stealer) => Some(stealer),
        }
    }
}

/// Repeats a steal until its result is definite.
pub(in crate::sched) fn take<T>(mut steal: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(fiber) => return Some(fiber),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fiber::{Fiber, Identity};

    #[test]
    fn an_only_worker_gives_back_what_a_peak_has_needed() {
        let (new, handle) = NewFibers::new(true);
        let fiber = || Fiber::owning(Identity::anonymous(std::panic::Location::caller()), || ()).0;
        (0..10 * ROOM_KEPT).for_each(|_| new.push(fiber()));
        new.release_room();
        assert_eq!(handle.len(), 10 * ROOM_KEPT);
        while new.pop_oldest().is_some() {}
        new.release_room();
        let NewFibers::Own(own) = &new else {
            unreachable!("the worker is the only one")
        };
        assert!(own.queue.borrow().capacity() <= 2 * ROOM_KEPT && handle.is_empty());
    }
}

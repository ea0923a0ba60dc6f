//! Calls of a fiber on a stack that it shares with others.

use crate::fiber::Started;
use crate::sched::worker::current;
use crate::stack::{Extent, Stack};

/// Calls `action` on a stack of the worker, if the caller is a fiber, and there is one.
#[inline]
pub(crate) fn call<R>(action: impl FnOnce() -> R) -> R {
    let mut lent = Lent::take();
    match lent.as_mut().and_then(|lent| lent.stack.as_mut()) {
        Some(stack) => stack.call(action),
        None => action(),
    }
}

/// A stack that a fiber is on instead of its own, until this is dropped.
struct Lent {
    /// `None` only while this is dropped.
    stack: Option<Stack>,
    own: Extent,
    fiber: Started,
}

impl Lent {
    /// Returns `None` if the caller is no fiber on a worker, if its own stack is larger than those
    /// of the pool, or if there is no memory.
    #[inline(never)]
    fn take() -> Option<Lent> {
        current::with_running(|worker, fiber| {
            let stack = worker.take_stack(fiber)?;
            let own = fiber.control().exchange_extent(stack.extent());
            Some(Lent {
                stack: Some(stack),
                own,
                fiber,
            })
        })?
    }
}

impl Drop for Lent {
    #[inline(never)]
    fn drop(&mut self) {
        self.fiber.control().exchange_extent(self.own);
        // In a forked child, there is no worker, and the stack stays lent.
        current::with_fiber(|worker| {
            if let Some(stack) = self.stack.take() {
                worker.give_stack(stack);
            }
        });
    }
}

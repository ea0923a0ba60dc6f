//! How a fiber starts on a worker, runs there, and ends.

use std::sync::Arc;

use super::{BATCH_FIBERS, Worker};
use crate::fiber::control::Resumed;
use crate::fiber::{Body, Cancelled, FiberRef, Home, Pause, Started};
use crate::stack::Stack;

/// Stacks a worker keeps for its next fibers, warm in the cache: one batch's worth.
const HOT_STACKS: usize = BATCH_FIBERS;

impl Worker {
    pub(super) fn run_fiber(&self, fiber: Started) {
        self.remote.counters.switches.add(1);
        self.running.set(Some(fiber));
        let resumed = resume(fiber);
        self.running.set(None);
        match resumed {
            Resumed::Paused(pause) => {
                self.note_unwinding(fiber);
                self.hand_on(fiber, pause);
            }
            Resumed::Ended(stack) => {
                if self.unwinding.get() > 0 && fiber.control().unwinding.get() {
                    self.unwinding.update(|count| count - 1);
                }
                let registration = fiber.control().registration.get();
                let ended = self.desk.borrow_mut().discharge(registration);
                self.return_stack(stack);
                drop(ended);
            }
        }
    }

    /// Puts a fiber that has left its stack where it waits. From then on others may resume it.
    fn hand_on(&self, fiber: Started, pause: Pause) {
        match pause {
            Pause::Yielded => self.ready.push(fiber),
            Pause::Asleep => {
                let wake_at = fiber.control().wake_at.take();
                let wake_at = wake_at.expect("who sleeps has said until when");
                self.desk.borrow_mut().sleep(fiber, wake_at);
            }
            Pause::Parked => {
                if !fiber.control().token.settle_park() {
                    self.ready.push(fiber);
                }
            }
            // Its entry reaches the kernel with the loop's next look around, not earlier.
            Pause::Submitted => {}
        }
    }

    /// Gives a new fiber a stack and a home; none if there is no memory for a stack, and the fiber was
    /// abandoned.
    #[allow(unsafe_code, reason = "starting a fiber")]
    pub(super) fn start(&self, fiber: FiberRef) -> Option<Started> {
        let hot = self.hot_stacks.borrow_mut().pop();
        let stack = match hot.map_or_else(|| self.shared.stacks.take(), Ok) {
            Ok(stack) => stack,
            Err(error) => {
                fiber.abandon(Box::new(format!("uthread: no stack for a fiber: {error}")));
                return None;
            }
        };
        let entry = match self.shared.is_shut_down() {
            false => |body: &dyn Body| body.run(),
            true => |body: &dyn Body| body.abandon(Box::new(Cancelled)),
        };
        let home: Arc<dyn Home> = Arc::clone(&self.remote) as Arc<dyn Home>;
        self.remote.counters.fibers.add(1);
        let body: *const dyn Body = Arc::as_ptr(&fiber);
        // SAFETY: a fiber that has not started was taken from a queue by this worker alone, which
        // runs it to its end; the desk keeps it alive until then.
        unsafe { fiber.control().start(body, entry, stack, home) };
        // SAFETY: the desk keeps it until it has ended, and then no queue has it.
        let started = unsafe { Started::new(fiber.control()) };
        let place = self.desk.borrow_mut().admit(fiber);
        started.control().registration.set(place);
        Some(started)
    }

    fn return_stack(&self, stack: Stack) {
        let mut hot = self.hot_stacks.borrow_mut();
        if hot.len() < HOT_STACKS {
            hot.push(stack);
        } else {
            self.shared.stacks.give(stack);
        }
    }
}

#[allow(unsafe_code, reason = "entering a fiber's stack")]
fn resume(fiber: Started) -> Resumed {
    // SAFETY: called by the loop of the worker that started the fiber.
    unsafe { fiber.control().resume() }
}

//! The state that few fibers have.

use std::cell::{Cell, OnceCell};

use super::{Control, Finish};
use crate::fiber::context::Saved;
use crate::fiber::lazy_box::LazyBox;
use crate::fiber::locals::Locals;
use crate::fiber::{Payload, Runner};
use crate::stack::Stack;

/// State that few fibers need. Accessed only by the holder of the fiber, which runs it or has taken
/// it from a queue.
#[derive(Default)]
pub(in crate::fiber) struct ColdState {
    pub(super) name: Option<Box<str>>,
    /// The fiber-local values.
    locals: OnceCell<Locals>,
    /// Reserved for the fiber before its start.
    reserved: Cell<Option<Reserved>>,
    /// The result of a fiber that ends without running its closure. Set before its start.
    refusal: Cell<Option<Payload>>,
    /// Completes the outcome, once the C library has ended the thread of a fiber with thread-local
    /// storage of its own.
    finish: Cell<Option<Finish>>,
    /// Context that was in thread-locals while the fiber ran.
    context: Cell<Option<Saved>>,
    /// The number of its last panic among those of the process.
    last_panic: Cell<Option<u32>>,
    /// The epoch in which its worker counts it among the fibers suspended during a panic.
    counted_panic: Cell<Option<u32>>,
    /// `true` if it runs on a thread of its own. Set before its start, so that any thread may look.
    is_thread: Cell<bool>,
}

/// A larger stack for a fiber.
pub(crate) enum Reserved {
    /// Without a runner.
    Stack(Stack),
    /// With a runner that has run other fibers, and a block.
    Runner(Runner),
}

impl ColdState {
    /// Returns the state of a new fiber.
    #[inline]
    pub(in crate::fiber) fn of_new(name: Option<Box<str>>) -> LazyBox<ColdState> {
        LazyBox::new(name.map(|name| ColdState {
            name: Some(name),
            ..ColdState::default()
        }))
    }
}

impl Control {
    /// Returns `true` if the fiber has cold state: a name, local values, a stack of its own, or a
    /// result without having run.
    #[inline]
    pub(crate) fn has_cold_state(&self) -> bool {
        self.cold.get().is_some()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.cold.get()?.name.as_deref()
    }

    /// Returns the fiber-local values, if there are any. Called by the fiber itself.
    pub(crate) fn locals(&self) -> Option<&Locals> {
        self.cold.get()?.locals.get()
    }

    /// Returns the fiber-local values. Called by the fiber itself.
    pub(crate) fn locals_or_new(&self) -> &Locals {
        let cold = self.cold.get_or_default();
        cold.locals.get_or_init(Locals::default)
    }

    /// Reserves a larger stack. Called before the fiber is queued.
    pub(crate) fn reserve(&self, reserved: Reserved) {
        self.cold.get_or_default().reserved.set(Some(reserved));
    }

    /// Takes the reserved stack, if there is one. Called by the worker that starts the fiber.
    pub(crate) fn take_reserved(&self) -> Option<Reserved> {
        self.cold.get()?.reserved.take()
    }

    /// Makes the fiber end with this result instead of running its closure. Called before its
    /// start.
    #[cold]
    pub(crate) fn refuse(&self, payload: Payload) {
        self.cold.get_or_default().refusal.set(Some(payload));
    }

    /// Records that the fiber runs on a thread of its own. Called before its start.
    pub(crate) fn set_thread(&self) {
        self.cold.get_or_default().is_thread.set(true);
    }

    /// Returns `true` if the fiber runs on a thread of its own.
    pub(crate) fn is_thread(&self) -> bool {
        self.cold.get().is_some_and(|cold| cold.is_thread.get())
    }

    /// Takes the result of a fiber that ends without running its closure. Called by the fiber
    /// itself.
    pub(in crate::fiber) fn take_refusal(&self) -> Option<Payload> {
        self.cold.get()?.refusal.take()
    }

    /// Leaves the completion of the outcome to the worker. Called by the fiber at its end.
    pub(in crate::fiber) fn finish_later(&self, finish: Finish) {
        self.cold.get_or_default().finish.set(Some(finish));
    }

    /// Takes what completes the outcome of a fiber that has ended, if it is not complete.
    pub(crate) fn take_finish(&self) -> Option<Finish> {
        self.cold.get()?.finish.take()
    }

    /// Keeps the context of the fiber, which has left its stack.
    pub(in crate::fiber) fn set_context(&self, context: Saved) {
        self.cold.get_or_default().context.set(Some(context));
    }

    /// Drops the context of a fiber that has ended.
    pub(crate) fn drop_context(&self) {
        drop(self.take_context());
    }

    /// Takes the context of the fiber, if there is one.
    pub(in crate::fiber) fn take_context(&self) -> Option<Saved> {
        self.cold.get()?.context.take()
    }

    /// Returns the number of the fiber's last panic among those of the process.
    pub(crate) fn last_panic(&self) -> Option<u32> {
        self.cold.get()?.last_panic.get()
    }

    pub(crate) fn set_last_panic(&self, number: u32) {
        self.set_cold_number(|cold| &cold.last_panic, Some(number));
    }

    /// Returns the epoch in which its worker counts it among the fibers suspended during a panic.
    pub(crate) fn counted_panic(&self) -> Option<u32> {
        self.cold.get()?.counted_panic.get()
    }

    pub(crate) fn set_counted_panic(&self, epoch: Option<u32>) {
        self.set_cold_number(|cold| &cold.counted_panic, epoch);
    }

    /// Sets a number of the cold state. Only `Some` creates that state.
    fn set_cold_number(
        &self,
        field: impl Fn(&ColdState) -> &Cell<Option<u32>>,
        number: Option<u32>,
    ) {
        let cold = match number {
            Some(_) => Some(self.cold.get_or_default()),
            None => self.cold.get(),
        };
        if let Some(cold) = cold {
            field(cold).set(number);
        }
    }
}

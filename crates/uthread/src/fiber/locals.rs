//! The local values of a fiber or thread, initialized on first access and dropped at its end.
//!
//! ```text
//!   vacant --set--> alive --end, newest first--> destroyed    never created again, so that the end terminates
//! ```

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::thread;

/// The values, indexed by the numbers of their keys.
#[derive(Default)]
pub(crate) struct Locals {
    slots: RefCell<Slots>,
    /// `true` for the fiber that continues in a forked child. Its end is that of the process.
    is_in_child: Cell<bool>,
}

#[derive(Default)]
struct Slots {
    /// At most one entry per key, of which a program has as many as its source declares.
    values: Vec<Slot>,
    /// Keys whose values need a drop, the newest last.
    to_drop: Vec<usize>,
    /// `true` once no more values may be created.
    closed: bool,
}

#[derive(Default)]
enum Slot {
    #[default]
    Vacant,
    Alive(Rc<dyn Any>),
    Destroyed,
}

/// The error that a key's value has been destroyed, or is being destroyed.
pub(crate) struct Destroyed;

impl Locals {
    pub(crate) const fn new() -> Locals {
        Locals {
            slots: RefCell::new(Slots {
                values: Vec::new(),
                to_drop: Vec::new(),
                closed: false,
            }),
            is_in_child: Cell::new(false),
        }
    }

    /// Records that the fiber continues in a forked child.
    pub(crate) fn mark_child(&self) {
        self.is_in_child.set(true);
    }

    pub(crate) fn is_in_child(&self) -> bool {
        self.is_in_child.get()
    }

    /// Returns the value of a key, or `None` if it is not initialized.
    #[inline]
    pub(crate) fn get<T: 'static>(&self, key: usize) -> Result<Option<Rc<T>>, Destroyed> {
        let slots = self.slots.borrow();
        match slots.values.get(key) {
            Some(Slot::Alive(value)) => Ok(Rc::clone(value).downcast().ok()),
            Some(Slot::Destroyed) => Err(Destroyed),
            Some(Slot::Vacant) | None if slots.closed => Err(Destroyed),
            Some(Slot::Vacant) | None => Ok(None),
        }
    }

    /// Sets the value of a key that had none. A value that was set meanwhile is dropped.
    pub(crate) fn set<T: 'static>(&self, key: usize, value: Rc<T>) {
        let mut slots = self.slots.borrow_mut();
        if slots.values.len() <= key {
            slots.values.resize_with(key + 1, Slot::default);
        }
        let before = mem::replace(&mut slots.values[key], Slot::Alive(value));
        // Other values stay until the memory is freed, so that the last destructor can still use
        // them.
        if mem::needs_drop::<T>() && matches!(before, Slot::Vacant) {
            slots.to_drop.push(key);
        }
        drop(slots);
        drop(before);
    }

    /// Drops the values, the newest first, and the values that their destructors create.
    ///
    /// # Errors
    ///
    /// The payload of the first destructor that panics. All other destructors run nevertheless.
    pub(crate) fn end(&self) -> thread::Result<()> {
        let mut result = Ok(());
        while let Some(value) = self.take_newest() {
            let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
            match (dropped, &result) {
                (Ok(()), _) => {}
                (Err(payload), Ok(())) => result = Err(payload),
                // The destructor of the second payload might panic as well.
                (Err(payload), Err(_)) => mem::forget(payload),
            }
        }
        result
    }

    /// Prevents the creation of more values. The remaining values need no drop.
    pub(crate) fn close(&self) {
        let mut slots = self.slots.borrow_mut();
        slots.closed = true;
        let values = mem::take(&mut slots.values);
        drop(slots);
        drop(values);
    }

    fn take_newest(&self) -> Option<Slot> {
        let mut slots = self.slots.borrow_mut();
        let key = slots.to_drop.pop()?;
        Some(mem::replace(&mut slots.values[key], Slot::Destroyed))
    }
}

//! What a fiber, or a thread, keeps by keys: made when it is first asked for, dropped at the end.
//!
//! ```text
//!   vacant --set--> alive --end, newest first--> destroyed    never made again, so that the end has an end
//! ```

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::thread;

/// The values, by the numbers of their keys.
#[derive(Default)]
pub(crate) struct Locals {
    places: RefCell<Places>,
    /// Whether this is the fiber that goes on in a child made by `fork`, whose end is that of the process.
    is_in_child: Cell<bool>,
}

#[derive(Default)]
struct Places {
    /// One for each key at most, of which a program has as many as it writes down.
    values: Vec<Place>,
    /// The keys whose values have to be dropped, the newest last.
    to_drop: Vec<usize>,
    /// Whether no more values may be made.
    closed: bool,
}

#[derive(Default)]
enum Place {
    #[default]
    Vacant,
    Alive(Rc<dyn Any>),
    Destroyed,
}

/// The value of the key is destroyed, or just being.
pub(crate) struct Destroyed;

impl Locals {
    pub(crate) const fn new() -> Locals {
        Locals {
            places: RefCell::new(Places {
                values: Vec::new(),
                to_drop: Vec::new(),
                closed: false,
            }),
            is_in_child: Cell::new(false),
        }
    }

    /// Notes that the fiber is the one that goes on in a child made by `fork`.
    pub(crate) fn mark_child(&self) {
        self.is_in_child.set(true);
    }

    pub(crate) fn is_in_child(&self) -> bool {
        self.is_in_child.get()
    }

    /// The value of a key; none if there is none yet.
    #[inline]
    pub(crate) fn get<T: 'static>(&self, key: usize) -> Result<Option<Rc<T>>, Destroyed> {
        let places = self.places.borrow();
        match places.values.get(key) {
            Some(Place::Alive(value)) => Ok(Rc::clone(value).downcast().ok()),
            Some(Place::Destroyed) => Err(Destroyed),
            Some(Place::Vacant) | None if places.closed => Err(Destroyed),
            Some(Place::Vacant) | None => Ok(None),
        }
    }

    /// Sets the value of a key, of which there was none. One that has come meanwhile, while this one was
    /// made, is dropped.
    pub(crate) fn set<T: 'static>(&self, key: usize, value: Rc<T>) {
        let mut places = self.places.borrow_mut();
        if places.values.len() <= key {
            places.values.resize_with(key + 1, Place::default);
        }
        let before = mem::replace(&mut places.values[key], Place::Alive(value));
        // Others stay until the memory is freed: also the last destructor may use them.
        if mem::needs_drop::<T>() && matches!(before, Place::Vacant) {
            places.to_drop.push(key);
        }
        drop(places);
        drop(before);
    }

    /// Drops the values, the newest first, and those that their destructors make.
    ///
    /// # Errors
    ///
    /// The first panic of a destructor; the others are called all the same.
    pub(crate) fn end(&self) -> thread::Result<()> {
        let mut result = Ok(());
        while let Some(value) = self.take_newest() {
            let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
            match (dropped, &result) {
                (Ok(()), _) => {}
                (Err(payload), Ok(())) => result = Err(payload),
                // Its destructor might panic as well.
                (Err(payload), Err(_)) => mem::forget(payload),
            }
        }
        result
    }

    /// Makes no more values; those that are left need no destructor.
    pub(crate) fn close(&self) {
        let mut places = self.places.borrow_mut();
        places.closed = true;
        let values = mem::take(&mut places.values);
        drop(places);
        drop(values);
    }

    fn take_newest(&self) -> Option<Place> {
        let mut places = self.places.borrow_mut();
        let key = places.to_drop.pop()?;
        Some(mem::replace(&mut places.values[key], Place::Destroyed))
    }
}

//! Fiber-local storage: [`local!`](crate::local!) declares a [`Key`], the counterpart of
//! `std::thread::LocalKey`.
//!
//! The values of a fiber are in its control block; those of a thread outside the runtime are in a
//! thread-local. In both, the number of a key is the index of its value.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fiber::locals::{Destroyed, Locals};
use crate::sched::caller;

/// Declares fiber-local values; the counterpart of [`std::thread_local!`].
///
/// Each fiber has its own value, initialized at its first use. The initializer may wait. Outside
/// the runtime, each thread has its own value. [`Key`] describes the methods, and when a value is
/// dropped.
///
/// ```
/// use std::cell::{Cell, RefCell};
///
/// uthread::local! {
///     pub static REQUEST: Cell<u64> = const { Cell::new(0) };
///     static LOG: RefCell<Vec<String>> = RefCell::new(Vec::new());
/// }
///
/// uthread::run(|| {
///     REQUEST.set(1);
///     let other = uthread::spawn(|| {
///         LOG.with_borrow_mut(|log| log.push("another fiber's".into()));
///         REQUEST.get()
///     });
///     assert_eq!(other.join().unwrap(), 0);
///     assert_eq!(REQUEST.get(), 1);
///     assert!(LOG.take().is_empty());
/// });
/// ```
///
/// A value belongs to its fiber; other fibers cannot borrow it unless its type permits that:
///
/// ```compile_fail,E0277
/// uthread::local!(static COUNT: std::cell::Cell<u32> = std::cell::Cell::new(1));
///
/// COUNT.with(|count| {
///     uthread::scope(|scope| {
///         scope.spawn(|| count.set(2));
///     });
/// });
/// ```
#[macro_export]
macro_rules! local {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $init:expr; $($rest:tt)*) => {
        $crate::local!($(#[$attribute])* $visibility static $name: $type = $init);
        $crate::local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $init:expr) => {
        $(#[$attribute])*
        $visibility static $name: $crate::local::Key<$type> = {
            fn init() -> $type {
                $init
            }
            $crate::local::Key::new(init)
        };
    };
}

/// A key to fiber-local values, declared by [`local!`](crate::local!); the counterpart of
/// [`std::thread::LocalKey`].
///
/// # Destruction
///
/// When a fiber ends, its values are dropped on its stack in the reverse order of their
/// initialization, before the fiber can be joined. This also happens if it panics or is cancelled.
/// Destructors may wait, as in a [`shield`](crate::shield), and may use other keys; values
/// initialized meanwhile are dropped as well.
///
/// A dropped value is not initialized again: from then on the key returns [`AccessError`], unless
/// the type needs no drop. If a destructor panics and the fiber has not panicked before, the panic
/// becomes that of the fiber. Outside the runtime the values are dropped when the thread ends, and
/// a panic then aborts the process.
///
/// The second closure of [`join`](crate::join) may run in the fiber of the first one, and then uses
/// its values.
///
/// ```
/// use std::cell::Cell;
/// use uthread::local::Key;
///
/// fn next(key: &'static Key<Cell<u32>>) -> u32 {
///     key.replace(key.get() + 1)
/// }
///
/// uthread::local!(static TICKET: Cell<u32> = Cell::new(1));
/// assert_eq!([next(&TICKET), next(&TICKET)], [1, 2]);
/// ```
pub struct Key<T: 'static> {
    /// The number of the key, starting from one; zero before the first use.
    number: AtomicUsize,
    init: fn() -> T,
}

impl<T: 'static> fmt::Debug for Key<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").finish_non_exhaustive()
    }
}

/// An error returned by [`Key::try_with`]: the value has been destroyed, or is being destroyed.
///
/// ```
/// use std::sync::Mutex;
/// use uthread::local::AccessError;
///
/// struct Last;
///
/// static FOUND: Mutex<Option<AccessError>> = Mutex::new(None);
/// uthread::local!(static LAST: Last = Last);
///
/// impl Drop for Last {
///     fn drop(&mut self) {
///         *FOUND.lock().unwrap() = LAST.try_with(|_| ()).err();
///     }
/// }
///
/// uthread::spawn(|| LAST.with(|_| ())).join().unwrap();
/// assert!(FOUND.lock().unwrap().is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the fiber-local value has already been destroyed")
    }
}

impl Error for AccessError {}

impl<T: 'static> Key<T> {
    /// Creates the key that [`local!`](crate::local!) declares.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(init: fn() -> T) -> Key<T> {
        Key {
            number: AtomicUsize::new(0),
            init,
        }
    }

    /// Calls `f` with a reference to the fiber's value, initializing it first if necessary.
    ///
    /// # Panics
    ///
    /// Panics if the value has been destroyed.
    ///
    /// ```
    /// uthread::local!(static NAME: String = String::from("nobody"));
    /// assert_eq!(NAME.with(|name| name.len()), 6);
    /// ```
    ///
    /// The reference cannot be kept:
    ///
    /// ```compile_fail
    /// uthread::local!(static NAME: String = String::from("nobody"));
    /// let name: &'static String = NAME.with(|name| name);
    /// ```
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.value())
    }

    /// Calls `f` with a reference to the fiber's value, initializing it first if necessary, or
    /// returns an error if the value has been destroyed.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if the value has been destroyed.
    ///
    /// ```
    /// uthread::local!(static NAME: String = String::from("nobody"));
    /// assert_eq!(NAME.try_with(String::len), Ok(6));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let value = self.get_or_make(self.init)?;
        Ok(f(&value))
    }

    #[track_caller]
    fn value(&'static self) -> Rc<T> {
        self.or_panic(self.get_or_make(self.init))
    }

    #[track_caller]
    fn or_panic<V>(&self, value: Result<V, AccessError>) -> V {
        match value {
            Ok(value) => value,
            Err(error) => panic!("cannot access a fiber-local value: {error}"),
        }
    }

    /// Returns the value, initialized by `make` if there is none yet.
    fn get_or_make(&'static self, make: impl FnOnce() -> T) -> Result<Rc<T>, AccessError> {
        let key = self.number();
        if let Some(value) =
            with_locals(|locals| locals.get(key)).map_err(|Destroyed| AccessError)?
        {
            return Ok(value);
        }
        let value = Rc::new(make());
        with_locals(|locals| locals.set(key, Rc::clone(&value)));
        Ok(value)
    }

    #[inline]
    fn number(&self) -> usize {
        #[cold]
        fn first(number: &AtomicUsize) -> usize {
            static NEXT: AtomicUsize = AtomicUsize::new(1);
            let new = NEXT.fetch_add(1, Ordering::Relaxed);
            let set = number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
            set.map_or_else(|number| number, |_| new)
        }
        // Relaxed throughout: the number guards no other memory, and no two keys have the same one.
        match self.number.load(Ordering::Relaxed) {
            0 => first(&self.number),
            number => number,
        }
    }
}

impl<T: 'static> Key<Cell<T>> {
    /// Sets the value. If it was not initialized, the initializer does not run.
    ///
    /// # Panics
    ///
    /// Panics if the value has been destroyed.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// uthread::local!(static USER: Cell<u32> = panic!("the initializer does not run"));
    /// USER.set(7);
    /// assert_eq!(USER.get(), 7);
    /// ```
    #[track_caller]
    pub fn set(&'static self, value: T) {
        let mut value = Some(value);
        let cell = self.get_or_make(|| Cell::new(value.take().expect("the value is made once")));
        let cell = self.or_panic(cell);
        if let Some(value) = value {
            cell.set(value);
        }
    }

    /// Returns a copy of the value.
    ///
    /// # Panics
    ///
    /// Panics if the value has been destroyed.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// uthread::local!(static DEPTH: Cell<u32> = Cell::new(1));
    /// assert_eq!(DEPTH.get(), 1);
    /// ```
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.value().get()
    }

    /// Takes the value, leaving the default of its type.
    ///
    /// # Panics
    ///
    /// Panics if the value has been destroyed.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// uthread::local!(static ERROR: Cell<Option<&'static str>> = Cell::new(Some("none yet")));
    /// assert_eq!(ERROR.take(), Some("none yet"));
    /// assert_eq!(ERROR.take(), None);
    /// ```
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.value().take()
    }

    /// Replaces the value and returns the old one.
    ///
    /// # Panics
    ///
    /// Panics if the value has been destroyed.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// uthread::local!(static DEPTH: Cell<u32> = Cell::new(1));
    /// assert_eq!(DEPTH.replace(2), 1);
    /// assert_eq!(DEPTH.take(), 2);
    /// assert_eq!(DEPTH.get(), 0);
    /// ```
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.value().replace(value)
    }
}

impl<T: 'static> Key<RefCell<T>> {
    /// Calls `f` with the value borrowed.
    ///
    /// # Panics
    ///
    /// Panics if the value is mutably borrowed or has been destroyed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// uthread::local!(static STACK: RefCell<Vec<u32>> = RefCell::default());
    /// STACK.with_borrow_mut(|stack| stack.push(1));
    /// assert_eq!(STACK.with_borrow(Vec::len), 1);
    /// ```
    #[track_caller]
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.value().borrow())
    }

    /// Calls `f` with the value mutably borrowed.
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed or has been destroyed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// uthread::local!(static STACK: RefCell<Vec<u32>> = RefCell::default());
    /// let length = STACK.with_borrow_mut(|stack| {
    ///     stack.push(1);
    ///     stack.len()
    /// });
    /// assert_eq!(length, 1);
    /// ```
    #[track_caller]
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.value().borrow_mut())
    }

    /// Sets the value. If it was not initialized, the initializer does not run.
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed or has been destroyed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// uthread::local!(static WORDS: RefCell<Vec<&'static str>> = panic!("none yet"));
    /// WORDS.set(vec!["plain", "blocking"]);
    /// assert_eq!(WORDS.replace(vec!["code"]).len(), 2);
    /// assert_eq!(WORDS.take(), ["code"]);
    /// ```
    #[track_caller]
    pub fn set(&'static self, value: T) {
        let mut value = Some(value);
        let cell = self.get_or_make(|| RefCell::new(value.take().expect("the value is made once")));
        let cell = self.or_panic(cell);
        if let Some(value) = value {
            cell.replace(value);
        }
    }

    /// Takes the value, leaving the default of its type.
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed or has been destroyed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// uthread::local!(static WORDS: RefCell<Vec<&'static str>> = RefCell::new(vec!["code"]));
    /// assert_eq!(WORDS.take(), ["code"]);
    /// assert!(WORDS.take().is_empty());
    /// ```
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.value().take()
    }

    /// Replaces the value and returns the old one.
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed or has been destroyed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// uthread::local!(static NAME: RefCell<String> = RefCell::new("first".into()));
    /// assert_eq!(NAME.replace("second".into()), "first");
    /// ```
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.value().replace(value)
    }
}

thread_local! {
    /// Never dropped automatically: other destructors may use it until the thread has ended.
    static OF_THREAD: ManuallyDrop<Locals> = const { ManuallyDrop::new(Locals::new()) };
    static END_OF_THREAD: EndOfThread = const { EndOfThread };
}

/// Calls `action` with the values of the calling fiber, or of the calling thread outside the
/// runtime.
#[inline]
fn with_locals<R>(action: impl FnOnce(&Locals) -> R) -> R {
    let mut action = Some(action);
    let mut call = |locals: &Locals| action.take().map(|action| action(locals));
    caller::with_locals(&mut call)
        .unwrap_or_else(|| with_locals_of_thread(&mut call))
        .expect("the action is called once")
}

/// Calls the action with the locals of the calling thread. Never inlined, like every access to a
/// thread-local that fibers may make.
#[inline(never)]
fn with_locals_of_thread<R>(action: impl FnOnce(&Locals) -> R) -> R {
    // Registers the destructor. This fails only at the end of the thread, when the destructor runs
    // anyway.
    let _ = END_OF_THREAD.try_with(|_| ());
    OF_THREAD.with(|locals| action(locals))
}

/// Drops the thread's values when the thread ends.
struct EndOfThread;

impl Drop for EndOfThread {
    fn drop(&mut self) {
        let ended = OF_THREAD.with(|locals| {
            let ended = locals.end();
            locals.close();
            ended
        });
        if let Err(payload) = ended {
            panic::resume_unwind(payload);
        }
    }
}

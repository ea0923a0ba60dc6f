//! The identity of a fiber or thread: its id, its name, and its token for `park`.

use std::fmt;
use std::num::NonZeroU64;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;

use crate::fiber::WakeHandle;
use crate::sched::caller::{self, turn};

/// The identity of a fiber, or of a thread outside the runtime. See the example of [`current`].
#[derive(Clone)]
#[repr(transparent)]
pub struct Thread(WakeHandle);

/// An identifier of a fiber or thread, unique in the process. See the example of [`Thread::id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(Id);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Fiber(NonZeroU64),
    Native(std::thread::ThreadId),
}

impl Thread {
    /// Returns the identity of which this is the only field.
    #[allow(unsafe_code, reason = "a reference to a transparent type")]
    pub(super) fn of(handle: &WakeHandle) -> &Thread {
        let thread: *const Thread = ptr::from_ref(handle).cast();
        // SAFETY: both types have the same layout, and the pointer is that of a reference of this
        // lifetime.
        unsafe { &*thread }
    }

    /// Returns the identifier.
    ///
    /// ```
    /// let fiber = uthread::spawn(|| uthread::current().id());
    /// let id = fiber.thread().id();
    /// assert_eq!(fiber.join().unwrap(), id);
    /// ```
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(match &self.0 {
            WakeHandle::Fiber(fiber) => Id::Fiber(fiber.control().id()),
            WakeHandle::Thread(thread, _) => Id::Native(thread.id()),
        })
    }

    /// Returns the name, if the fiber or thread has one.
    ///
    /// ```
    /// let name = uthread::run(|| uthread::current().name().map(str::to_owned));
    /// assert_eq!(name.as_deref(), Some("main"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            WakeHandle::Fiber(fiber) => fiber.control().name(),
            WakeHandle::Thread(thread, _) => thread.name(),
        }
    }

    /// Ends the current [`park`](super::park) of the fiber or thread, or its next one.
    ///
    /// ```
    /// let waits = uthread::current();
    /// uthread::spawn(move || waits.unpark());
    /// uthread::thread::park();
    /// ```
    pub fn unpark(&self) {
        self.0.unpark();
        turn::spend_try();
    }
}

impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}

impl fmt::Debug for Thread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Thread")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Returns the identity of the calling fiber, or of the calling thread outside the runtime.
///
/// ```
/// let outside = uthread::current().id();
/// let inside = uthread::spawn(|| uthread::current().id()).join().unwrap();
/// assert_ne!(outside, inside);
/// ```
#[must_use]
pub fn current() -> Thread {
    Thread(caller::wake_handle())
}

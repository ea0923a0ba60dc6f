//! The protocols of the layer `fiber`, and the wake handle that stands in for a fiber.

use std::cell::RefCell;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU8, Ordering};
use loom::thread::{self, Thread};

#[path = "../../../../crates/uthread/src/fiber/last_worker.rs"]
pub(crate) mod last_worker;
#[path = "../../../../crates/uthread/src/fiber/outcome.rs"]
pub(crate) mod outcome;
#[path = "../../../../crates/uthread/src/fiber/wake.rs"]
pub(crate) mod wake;

/// A thread of the model that parks.
#[derive(Clone)]
pub(crate) struct WakeHandle {
    thread: Thread,
    token: Option<Token>,
}

/// It begins as RUNNING.
pub(crate) type Token = Arc<AtomicU8>;

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

loom::thread_local! {
    static TOKEN: RefCell<Option<Token>> = RefCell::new(None);
}

/// Lets the calling thread be woken by a token of its own, which makes a model larger. An `unpark`
/// of loom's is lost if the thread waits for a lock at that time, as it may that waits at several
/// channels.
pub(crate) fn keep_wakes() {
    keep_wakes_in(Arc::default());
}

/// Lets the calling thread be woken by this token, which other threads know already.
pub(crate) fn keep_wakes_in(token: Token) {
    TOKEN.with(|here| *here.borrow_mut() = Some(token));
}

fn token() -> Option<Token> {
    TOKEN.with(|token| token.borrow().clone())
}

impl WakeHandle {
    pub(crate) fn current() -> WakeHandle {
        WakeHandle::of(thread::current(), token())
    }

    /// Returns a handle to a thread, by the token that it keeps its wakes in, if it does.
    pub(crate) fn of(thread: Thread, token: Option<Token>) -> WakeHandle {
        WakeHandle { thread, token }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.thread.id() == thread::current().id()
    }

    /// Returns `false`: the models abandon no runtime.
    pub(crate) fn is_abandoned(&self) -> bool {
        false
    }

    pub(crate) fn wake(&self) {
        // AcqRel pairs with itself in `park`.
        let token = self.token.as_ref();
        if token.is_none_or(|token| token.swap(NOTIFIED, Ordering::AcqRel) == PARKED) {
            self.thread.unpark();
        }
    }
}

/// Waits until the caller is woken.
pub(crate) fn park() {
    let Some(token) = token() else {
        return thread::park();
    };
    let (order, or_else) = (Ordering::AcqRel, Ordering::Acquire);
    let parked = token.compare_exchange(RUNNING, PARKED, order, or_else);
    if parked.is_ok() {
        thread::park();
    }
    token.swap(RUNNING, Ordering::AcqRel);
}

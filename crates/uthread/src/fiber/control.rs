//! A fiber's control block: who it is, whether it may sleep, and the coroutine it runs on.

use std::cell::{Cell, UnsafeCell};
use std::num::NonZeroU64;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::wake::WakeToken;
use super::{Body, Home, Identity};
use crate::stack::{Extent, Stack};

/// Why a fiber gave up its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Whoever shall resume the fiber holds it already.
    Held,
    /// The fiber waits for [`wake`](super::wake).
    Parked,
}

/// What became of a fiber that was resumed.
pub(crate) enum Resumed {
    Paused(Pause),
    Ended(Stack),
}

type Context = Coroutine<(), Pause, (), Stack>;

pub(crate) struct Control {
    id: NonZeroU64,
    identity: Identity,
    pub(crate) token: WakeToken,
    home: OnceLock<Arc<dyn Home>>,
    /// Present from start to end. Only the worker that runs the fiber touches it.
    context: UnsafeCell<Option<Context>>,
    /// The stack's extent, for the overflow report; `None` before the start.
    extent: Cell<Option<Extent>>,
    /// Where the running coroutine switches away; null before the start.
    yielder: Cell<*const Yielder<(), Pause>>,
    /// The result of the last operation, left here by the worker for the resumed fiber.
    pub(crate) completion: Cell<Completion>,
    /// The fiber's place in its worker's table of live fibers.
    pub(crate) registration: Cell<usize>,
    /// Calls refused because the runtime is shut down.
    pub(crate) refusals: Cell<u32>,
}

/// What an operation came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Completion {
    /// The kernel's result: a count or descriptor, or a negated errno.
    pub(crate) result: i32,
    /// Whether our own deadline asked for the cancellation.
    pub(crate) timed_out: bool,
}

#[allow(unsafe_code, reason = "cells that only the worker and its fiber touch")]
// SAFETY: the cells are used only by the thread that runs the fiber
// (see the contracts of `start`, `resume` and `suspend`); all else is `Sync`.
unsafe impl Sync for Control {}
#[allow(unsafe_code, reason = "an unstarted control block holds no stack")]
// SAFETY: a fiber moves between threads only before it starts, without a coroutine; after that it
// is dropped when it has ended, again without one.
unsafe impl Send for Control {}

impl Control {
    pub(crate) fn new(identity: Identity) -> Control {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: an id only has to be unique.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Control {
            id: NonZeroU64::new(id).expect("2^64 fibers take centuries to spawn"),
            identity,
            token: WakeToken::new(),
            home: OnceLock::new(),
            context: UnsafeCell::new(None),
            extent: Cell::default(),
            yielder: Cell::new(ptr::null()),
            completion: Cell::default(),
            registration: Cell::default(),
            refusals: Cell::default(),
        }
    }

    pub(crate) fn id(&self) -> NonZeroU64 {
        self.id
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.identity.name.as_deref()
    }

    pub(crate) fn spawn_site(&self) -> &'static Location<'static> {
        self.identity.spawn_site
    }

    pub(crate) fn has_started(&self) -> bool {
        self.home.get().is_some()
    }

    /// The size of the fiber's stack in bytes, if `address` is in its guard page.
    pub(crate) fn guarding_stack_size(&self, address: usize) -> Option<usize> {
        let extent = self.extent.get()?;
        extent.guards(address).then(|| extent.size())
    }

    /// Leaves a wake-up token; the home to enqueue the fiber at, if it was parked.
    pub(super) fn note_wake(&self) -> Option<&Arc<dyn Home>> {
        self.token.leave().then(|| self.home.get()).flatten()
    }
}

#[allow(unsafe_code, reason = "entering and leaving a coroutine")]
impl Control {
    /// Gives the fiber a stack and a home. `body` must be the fiber this control block is in;
    /// `entry` is what its stack runs.
    ///
    /// # Safety
    ///
    /// Called once, by the worker that will run the fiber to its end; `body` outlives the run.
    pub(crate) unsafe fn start(
        &self,
        body: *const dyn Body,
        entry: fn(&dyn Body),
        stack: Stack,
        home: Arc<dyn Home>,
    ) {
        self.extent.set(Some(stack.extent()));
        let context = Context::with_stack(stack, move |yielder, ()| {
            // SAFETY: the caller of `start` keeps the fiber alive until it has ended.
            let body = unsafe { &*body };
            body.control().yielder.set(yielder);
            entry(body);
        });
        // SAFETY: nothing runs or resumes the fiber yet.
        let slot = unsafe { &mut *self.context.get() };
        *slot = Some(context);
        let first = self.home.set(home).is_ok();
        assert!(first, "a fiber starts once");
    }

    /// Runs the fiber until it pauses or ends.
    ///
    /// # Safety
    ///
    /// Only on the worker that started it, and not from within the fiber.
    pub(crate) unsafe fn resume(&self) -> Resumed {
        // SAFETY: the fiber is not running, and only its worker gets here.
        let slot = unsafe { &mut *self.context.get() };
        let context = slot
            .as_mut()
            .expect("a fiber is resumed between start and end");
        match context.resume(()) {
            CoroutineResult::Yield(pause) => Resumed::Paused(pause),
            CoroutineResult::Return(()) => {
                let context = slot.take().expect("it was resumed just now");
                Resumed::Ended(context.into_stack())
            }
        }
    }

    /// Leaves the fiber's stack for the worker's; returns when the fiber is resumed.
    ///
    /// # Safety
    ///
    /// Only from within the running fiber, and, for `Held`, after its reference was handed on.
    pub(crate) unsafe fn suspend(&self, pause: Pause) {
        // SAFETY: the fiber is running, so the yielder was set at its start and is alive.
        let yielder = unsafe { &*self.yielder.get() };
        yielder.suspend(pause);
    }
}

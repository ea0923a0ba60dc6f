//! A fiber's control block: who it is, whether it may sleep, and the coroutine it runs on.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::num::NonZeroU64;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::last_worker::LastWorker;
use super::limits::Limits;
use super::locals::Locals;
use super::wake::WakeToken;
use super::{Body, Identity, Scheduler};
use crate::stack::{Extent, Stack, cache};

/// So much of a stack is asked for before its fiber goes on: the frames between a call of ours and the switch, and the
/// first of the caller's.
const PREFETCHED_STACK_BYTES: usize = 12 * cache::LINE_BYTES;

/// Why a fiber gave up its worker: what the worker's loop does with it, once it has left its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It goes on after the others that can.
    Yielded,
    /// It waits for [`wake`](super::wake).
    Parked,
    /// It waits for the completion of the operation that the driver has from it.
    Submitted,
    /// It is never resumed: its stack, and all that is on it, is leaked.
    Abandoned,
}

/// What became of a fiber that was resumed.
pub(crate) enum Resumed {
    Paused(Pause),
    Ended(Stack),
}

type Context = Coroutine<(), Pause, (), Stack>;

#[repr(C)]
pub(crate) struct Control {
    switch: Switch,
    id: NonZeroU64,
    identity: Identity,
    /// Ends the present wait of whatever kind; who waits looks whether it came for that.
    pub(crate) token: WakeToken,
    /// Whether the next `park` shall return. Not the token, which a join in between would take.
    unparked: AtomicBool,
    /// Present from the start on. Read by whoever finds the fiber parked, and by its worker.
    scheduler: UnsafeCell<Option<Arc<dyn Scheduler>>>,
    /// What the fiber keeps by keys. Only the fiber itself touches it.
    pub(crate) locals: OnceCell<Box<Locals>>,
    /// A stack that was taken for the fiber before its start, as it needs more than the others.
    pub(crate) reserved: Cell<Option<Box<Stack>>>,
    /// The stack's extent, for the overflow report; `None` before the start.
    extent: Cell<Option<Extent>>,
    /// The result of the last operation, left here by the worker for the resumed fiber.
    pub(crate) operation_result: Cell<OperationResult>,
    pub(crate) key: Cell<FiberKey>,
    /// The worker that the suspended fiber must not leave, where fibers migrate.
    pub(crate) stays_on: Cell<Option<u32>>,
    pub(crate) limits: Limits,
    pub(crate) last_worker: LastWorker,
    /// The name of the last operation, for the worker that has it. Relaxed: that one tells by the entry of
    /// this name whether it is still meant.
    pub(crate) operation: AtomicU64,
    /// The fiber's place among the children of its scope.
    pub(super) place_in_scope: Cell<usize>,
    /// Whether the fiber panics, as far as its worker knows.
    pub(crate) panics: Cell<bool>,
    /// The number of its last panic among those of the process.
    pub(crate) last_panic: Cell<Option<u32>>,
    /// Whether it is in a panic hook. Set when it suspends during a panic.
    pub(crate) in_panic_hook: Cell<bool>,
    /// The epoch in which its worker counts it among those suspended during their panics.
    pub(crate) counted_panic: Cell<Option<u32>>,
}

/// All that a switch to the fiber and back touches outside the stacks, together in as many bytes as a
/// cache line has. Not aligned to one: an aligned allocation costs more than the second line.
#[derive(Default)]
struct Switch {
    /// Present from start to end. Only the worker that runs the fiber touches it.
    context: UnsafeCell<Option<Context>>,
    /// Where on its stack the suspended fiber left off.
    left_off: Cell<Option<NonNull<u8>>>,
    /// Where the running coroutine switches away, at the base of its stack.
    yielder: Cell<Option<NonNull<Yielder<(), Pause>>>>,
}

// The sanitizer keeps more of each stack.
const _: () = assert!(cfg!(feature = "sanitizer") || size_of::<Switch>() <= cache::LINE_BYTES);

/// Identifies a live fiber: the worker it started on, and its index in the reactor there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FiberKey {
    pub(crate) worker: u32,
    pub(crate) index: u32,
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OperationResult {
    /// The kernel's result: a count or descriptor, or a negated errno.
    pub(crate) result: i32,
    /// Set if the operation was cancelled at its own deadline.
    pub(crate) timed_out: bool,
}

#[allow(unsafe_code, reason = "cells that only the worker and its fiber touch")]
// SAFETY: the cells are used only by the thread that runs the fiber, or that took it from where it was put
// after it had left its stack (see the contracts of `start`, `resume` and `suspend`), but for `scheduler`,
// which is written before the fiber can be parked and only read after; all else is `Sync`.
unsafe impl Sync for Control {}
#[allow(unsafe_code, reason = "a coroutine that changes its thread")]
// SAFETY: a fiber moves between threads before it starts, without a coroutine; and after that, suspended,
// only where whoever built the runtime has promised that what is on its stack allows it. It is dropped when
// it has ended, again without one.
unsafe impl Send for Control {}

impl Control {
    pub(crate) fn new(identity: Identity) -> Control {
        Control {
            switch: Switch::default(),
            id: next_id(),
            identity,
            token: WakeToken::new(),
            unparked: AtomicBool::new(false),
            scheduler: UnsafeCell::new(None),
            locals: OnceCell::new(),
            reserved: Cell::default(),
            extent: Cell::default(),
            operation_result: Cell::default(),
            key: Cell::default(),
            stays_on: Cell::default(),
            limits: Limits::default(),
            last_worker: LastWorker::new(),
            operation: AtomicU64::new(u64::MAX),
            place_in_scope: Cell::default(),
            panics: Cell::default(),
            last_panic: Cell::default(),
            in_panic_hook: Cell::default(),
            counted_panic: Cell::default(),
        }
    }

    /// The same for a fiber whose calls stop to wait then.
    pub(crate) fn with_deadline(identity: Identity, deadline: Option<Instant>) -> Control {
        Control {
            limits: Limits::with_deadline(deadline),
            ..Control::new(identity)
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

    /// The size of the fiber's stack in bytes, if `address` is in its guard page.
    pub(crate) fn guarding_stack_size(&self, address: usize) -> Option<usize> {
        let extent = self.extent.get()?;
        extent.guards(address).then(|| extent.size())
    }

    /// Lets the next `park` return; the caller wakes the fiber then.
    pub(super) fn store_unpark(&self) {
        // Release pairs with the Acquire in `take_unpark`.
        self.unparked.store(true, Ordering::Release);
    }

    /// Whether `park` shall return, once. Called by the fiber itself.
    pub(crate) fn take_unpark(&self) -> bool {
        // Acquire pairs with the Release in `store_unpark`.
        self.unparked.swap(false, Ordering::Acquire)
    }

    /// Gives the fiber a scheduler. Called once, by the thread that is about to run it.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(crate) fn set_scheduler(&self, scheduler: Arc<dyn Scheduler>) {
        // SAFETY: nobody reads it before the fiber parks, or says where it is, which is after this.
        unsafe { *self.scheduler.get() = Some(scheduler) };
    }

    /// Leaves a wake-up token; the scheduler to enqueue the fiber at, if it was parked.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(super) fn store_wake_up(&self) -> Option<&Arc<dyn Scheduler>> {
        if !self.token.leave() {
            return None;
        }
        // SAFETY: the fiber was parked, so `start` has come before (the token orders it), and nothing
        // writes the cell again.
        unsafe { &*self.scheduler.get() }.as_ref()
    }

    /// The fiber's scheduler, and the worker there that may have an operation of it; none before the first.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(super) fn find(&self) -> Option<(&Arc<dyn Scheduler>, u32)> {
        let worker = self.last_worker.get()?;
        // SAFETY: the fiber has said where it is, so `start` has come before (which `find` orders), and
        // nothing writes the cell again.
        let scheduler = unsafe { &*self.scheduler.get() }.as_ref();
        scheduler.map(|scheduler| (scheduler, worker))
    }
}

/// An id nobody else has, from the calling thread's block of them. Never inlined, as every access to
/// a thread-local that fibers make.
#[inline(never)]
fn next_id() -> NonZeroU64 {
    /// Ids taken at once: few enough that ids still tell the order of spawning, roughly.
    const BLOCK: u64 = 64;
    static NEXT_BLOCK: AtomicU64 = AtomicU64::new(BLOCK);
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let mut id = NEXT.get();
    if id.is_multiple_of(BLOCK) {
        // Relaxed: an id only has to be unique.
        id = NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed);
    }
    NEXT.set(id + 1);
    NonZeroU64::new(id).expect("2^64 fibers take centuries to spawn")
}

#[allow(unsafe_code, reason = "entering and leaving a coroutine")]
impl Control {
    /// Gives the fiber a stack and a scheduler. `body` must be the fiber this control block is in;
    /// `entry` is what its stack runs.
    ///
    /// # Safety
    ///
    /// Called once, by the worker that took the fiber from a queue; `body` outlives the run.
    pub(crate) unsafe fn start(
        &self,
        body: *const dyn Body,
        entry: impl FnOnce(&dyn Body) + 'static,
        stack: Stack,
        scheduler: Arc<dyn Scheduler>,
    ) {
        self.extent.set(Some(stack.extent()));
        let context = Context::with_stack(stack, move |yielder, ()| {
            // SAFETY: the caller of `start` keeps the fiber alive until it has ended.
            let body = unsafe { &*body };
            let yielder = NonNull::from_ref(yielder);
            body.control().switch.yielder.set(Some(yielder));
            entry(body);
        });
        // SAFETY: nothing runs or resumes the fiber yet.
        let slot = unsafe { &mut *self.switch.context.get() };
        *slot = Some(context);
        self.set_scheduler(scheduler);
    }

    /// Runs the fiber until it pauses or ends.
    ///
    /// # Safety
    ///
    /// By the only holder of a fiber that can go on, and not from within it; on the worker that started it
    /// or, where fibers migrate, on any.
    pub(crate) unsafe fn resume(&self) -> Resumed {
        // SAFETY: the fiber is not running, and only its holder gets here.
        let slot = unsafe { &mut *self.switch.context.get() };
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
    /// Only from within the running fiber.
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self, pause: Pause) {
        let mark = 0_u8;
        self.switch.left_off.set(Some(NonNull::from_ref(&mark)));
        let yielder = self.switch.yielder.get().expect("a running fiber has one");
        // SAFETY: the fiber is running, so its yielder is alive.
        let yielder = unsafe { yielder.as_ref() };
        yielder.suspend(pause);
    }
}

/// A started fiber as queues hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Started(NonNull<Control>);

#[allow(unsafe_code, reason = "a reference to what may be sent and shared")]
// SAFETY: it is a `&Control`, whose target outlives it as promised to `new`.
unsafe impl Send for Started {}

#[allow(unsafe_code, reason = "a reference without a lifetime or a count")]
impl Started {
    /// # Safety
    ///
    /// The fiber outlives every use of the handle and of its copies: a reactor keeps it until it has ended,
    /// and until then at most one queue has it.
    pub(crate) unsafe fn new(control: &Control) -> Started {
        Started(NonNull::from_ref(control))
    }

    #[inline(always)]
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: promised to `new`.
        unsafe { self.0.as_ref() }
    }

    /// Begins to load the control block into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        cache::prefetch(self.0);
    }

    /// Begins to look for the page of the stack where the fiber goes on. The control block must be there by then.
    #[inline(always)]
    pub(crate) fn prefetch_page(self) {
        if let Some(left_off) = self.control().switch.left_off.get() {
            cache::prefetch_bytes(left_off, 1);
        }
    }

    /// Begins to load the stack, from where the fiber goes on towards its base, where the switch links the
    /// worker's. The control block must be there by then.
    #[inline(always)]
    pub(crate) fn prefetch_stack(self) {
        let switch = &self.control().switch;
        if let (Some(left_off), Some(yielder)) = (switch.left_off.get(), switch.yielder.get()) {
            let used = yielder.addr().get().saturating_sub(left_off.addr().get());
            cache::prefetch_bytes(left_off, used.min(PREFETCHED_STACK_BYTES));
            cache::prefetch(yielder);
        }
    }
}

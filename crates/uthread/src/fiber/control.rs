//! The control block of a fiber: its identity, wake-up token and runner.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

mod cold;
pub(super) mod layout;

use std::cell::{Cell, UnsafeCell};
use std::mem::{self, MaybeUninit, offset_of};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::os::fd::RawFd;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(super) use self::cold::ColdState;
pub(crate) use self::cold::Reserved;
use super::Scheduler;
use super::destination::{self, Destination};
use super::lazy_box::LazyBox;
use super::limits::Limits;
use super::pause::Pause;
use super::reference::{FiberRef, Functions};
use super::runner::{Exit, Runner};
use super::wake::WakeToken;
use crate::cache;
use crate::root::Reason;
use crate::stack::Extent;
use crate::tls;
use crate::tls::claim::Named;
use crate::tls::record::Record;

/// Number of stack bytes prefetched before a fiber is resumed: the frames between a call of the
/// crate and the switch, and the first frame of the caller.
const PREFETCHED_STACK_BYTES: usize = 12 * cache::LINE_BYTES;

/// Maximum number of bytes that corosensei uses below [`address_below_caller`] to suspend a fiber,
/// for its frame and the saved registers: three times the 336 bytes that these take without
/// optimization on x86-64, as other versions, architectures and sanitizers may take more.
const SWITCH_BYTES_MAX: usize = 1024;

/// The second visit of a suspended fiber returns what it does not use. Later ones do nothing.
const VISITS_MAX: usize = 2;

/// Completes the outcome of a fiber. Called once, while there is a reference to the fiber.
pub(crate) struct Finish {
    pub(crate) complete: Box<dyn FnOnce() + Send>,
    /// `true` if that drops values, whose destructors may wait.
    pub(crate) drops_values: bool,
}

#[repr(C)]
pub(crate) struct Control {
    switch: Switch,
    id: NonZeroU64,
    spawn_site: &'static Location<'static>,
    /// The low half of the number of its last switch among those of its worker; or of the number at
    /// which it has come from another worker.
    last_switch: Cell<u32>,
    /// Why it has left its stack, for a debugger.
    pub(super) reason: Cell<Reason>,
    /// `true` if the next `park` returns at once. Separate from the token, which a join in between
    /// would take.
    unparked: AtomicBool,
    /// Ends the current wait of any kind. The waiter checks whether its condition holds.
    pub(crate) token: WakeToken,
    /// `true` while the fiber panics, as far as its worker knows.
    pub(crate) panics: Cell<bool>,
    /// What a switch touches ends with the first word of it.
    pub(crate) limits: Limits,
    /// The functions of the fiber's type.
    pub(super) functions: &'static Functions,
    /// Number of references to the fiber.
    pub(super) references: AtomicU32,
    /// The result of the last operation, stored by the worker for the resumed fiber. Until then the
    /// number of the descriptor that the operation is on, for a debugger; negative if it is on none.
    operation_result: Cell<OperationResult>,
    /// Set when the fiber starts. Read by its worker and by any thread that finds the fiber parked.
    scheduler: UnsafeCell<Option<Destination>>,
    cold: LazyBox<ColdState>,
    /// The id of the last operation, for the worker that holds it. Relaxed: the worker looks the id
    /// up, and ignores one that it does not know.
    pub(crate) operation: AtomicU64,
    /// The worker whose reactor keeps it: the one that has started it, unless it has moved. Changed
    /// while it is ready, by the worker that is about to queue it.
    pub(crate) home: Cell<u32>,
    /// The index of the fiber among those that its reactor keeps. Accessed only by the holder of
    /// the reactor.
    pub(crate) live_index: Cell<u32>,
    /// The index of the fiber among the children of its scope.
    pub(super) index_in_scope: Cell<u32>,
    /// `true` while the fiber is in a panic hook. Set when it suspends during a panic.
    pub(crate) in_panic_hook: Cell<bool>,
}

/// A switch touches the words at the begin, and so one line or two.
const _: () = assert!(offset_of!(Control, limits) + size_of::<u64>() <= cache::LINE_BYTES);

// There may be a million. The sanitizer keeps more data per stack.
const _: () = assert!(cfg!(feature = "sanitizer") || size_of::<Control>() <= CONTROL_BYTES_MAX);

/// Maximum size of a control block. A fiber that captures a reference and returns nothing then
/// takes 184 bytes, and with the header of the allocator and its rounding 192.
const CONTROL_BYTES_MAX: usize = 128;

/// The data that a switch to the fiber and back touches, besides the stack.
struct Switch {
    /// Set from start to end.
    runner: Cell<Option<Runner>>,
    /// The [`address_below_caller`] of the last suspension, plus the number of calls of
    /// [`Control::unused_stack`] since then, up to [`VISITS_MAX`].
    left_off: Cell<Option<NonZeroUsize>>,
    /// The handle by which the running fiber switches away; it lies at the base of its stack.
    exit: Cell<Option<NonNull<Exit>>>,
    /// The record in its thread-local storage, if it has its own, once it has run.
    record: Cell<Option<NonNull<Record>>>,
}

/// The result of an operation: that of the kernel (a count, a descriptor, or a negated errno), or
/// [`TIMED_OUT`](OperationResult::TIMED_OUT).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OperationResult(pub(crate) i32);

impl OperationResult {
    /// The operation was cancelled because of a deadline. No errno has this value.
    pub(crate) const TIMED_OUT: OperationResult = OperationResult(i32::MIN);
}

#[allow(unsafe_code, reason = "cells that only the worker and its fiber touch")]
// SAFETY: the cells are used only by the thread that runs the fiber, or that has taken it from a
// queue after it had left its stack (see the contracts of `start`, `resume` and `suspend`). The
// exceptions are `scheduler`, which is written before the fiber can be parked and only read
// afterwards, and `live_index`, which the reactor's owner or lock guards. All other fields are
// `Sync`.
unsafe impl Sync for Control {}
#[allow(unsafe_code, reason = "a coroutine that changes its thread")]
// SAFETY: a fiber moves between threads before it starts, when it has no coroutine. A suspended
// fiber moves only with thread-local storage of its own: no value on its stack leaves what is its
// thread to all code. It is dropped after it has ended, again without a coroutine.
unsafe impl Send for Control {}

impl Control {
    /// Creates the control block of a fiber with this [id](next_id), to which there are two
    /// references. Makes no call, so that it is written where it is to be.
    pub(super) fn new(
        functions: &'static Functions,
        id: NonZeroU64,
        cold: LazyBox<ColdState>,
        spawn_site: &'static Location<'static>,
        limits: Limits,
    ) -> Control {
        Control {
            switch: Switch {
                runner: Cell::new(None),
                left_off: Cell::new(None),
                exit: Cell::new(None),
                record: Cell::new(None),
            },
            functions,
            id,
            spawn_site,
            references: AtomicU32::new(2),
            cold,
            token: WakeToken::new(),
            unparked: AtomicBool::new(false),
            panics: Cell::default(),
            in_panic_hook: Cell::default(),
            operation_result: Cell::default(),
            last_switch: Cell::default(),
            scheduler: UnsafeCell::new(None),
            operation: AtomicU64::new(u64::MAX),
            limits,
            home: Cell::default(),
            live_index: Cell::default(),
            index_in_scope: Cell::default(),
            reason: Cell::new(Reason::Ready),
        }
    }

    pub(crate) fn id(&self) -> NonZeroU64 {
        self.id
    }

    pub(crate) fn spawn_site(&self) -> &'static Location<'static> {
        self.spawn_site
    }

    /// Returns the size of the fiber's stack in bytes if `address` is in its guard. Called for a
    /// running fiber.
    pub(crate) fn guarding_stack_size(&self, address: usize) -> Option<usize> {
        let runner = self.switch.runner.get()?;
        let extent = runner.extent();
        let block = runner.thread_pointer().map_or(0, |_| tls::block_size());
        extent.guards(address).then(|| extent.size() - block)
    }

    /// Replaces the extent of the stack that the fiber is on. Called by the fiber itself.
    pub(crate) fn exchange_extent(&self, extent: Extent) -> Extent {
        let runner = self.switch.runner.get().expect("a running fiber has one");
        runner.exchange_extent(extent)
    }

    /// Returns the extent of the stack that the fiber is on. Called by the fiber itself.
    pub(crate) fn extent(&self) -> Extent {
        let runner = self.switch.runner.get().expect("a running fiber has one");
        runner.extent()
    }

    /// Returns `true` if `address` is on the fiber's stack. Called for a running fiber.
    pub(crate) fn has_on_stack(&self, address: usize) -> bool {
        let runner = self.switch.runner.get();
        runner.is_some_and(|runner| runner.extent().contains(address))
    }

    /// Makes the next `park` return. The caller then wakes the fiber.
    pub(super) fn store_unpark(&self) {
        // Release pairs with the acquire in `take_unpark`.
        self.unparked.store(true, Ordering::Release);
    }

    /// Returns `true`, once, if `park` has to return. Called by the fiber itself.
    pub(crate) fn take_unpark(&self) -> bool {
        // Checked first, as usually there is none. Acquire pairs with the release in
        // `store_unpark`.
        self.unparked.load(Ordering::Relaxed) && self.unparked.swap(false, Ordering::Acquire)
    }

    /// Sets the scheduler of the fiber. Called once, by the thread that is about to run it.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(crate) fn set_scheduler(&self, scheduler: Destination) {
        // SAFETY: the cell is read only after the fiber has parked or has stored its worker, which
        // happens after this.
        let slot = unsafe { &mut *self.scheduler.get() };
        debug_assert!(slot.is_none(), "the scheduler is written once");
        mem::forget(slot.replace(scheduler));
    }

    /// Returns the scheduler of the fiber. Called by the running fiber.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(crate) fn scheduler(&self) -> Option<&Arc<dyn Scheduler>> {
        // SAFETY: the cell was written before the fiber ran.
        unsafe { &*self.scheduler.get() }.as_deref()
    }

    /// Returns `true` if the fiber has neither cold state nor limits.
    #[inline]
    pub(super) fn is_plain(&mut self) -> bool {
        self.cold.is_empty() && self.limits.is_plain()
    }

    /// Gives the reference to the scheduler back, if the fiber has started.
    #[inline]
    pub(super) fn give_scheduler_back(&mut self) {
        if let Some(scheduler) = self.scheduler.get_mut().take() {
            destination::give_back(scheduler);
        }
    }

    /// Leaves a wake-up token. Returns the scheduler that the caller must enqueue the fiber at if
    /// it was parked.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(super) fn store_wake_up(&self) -> Option<&Arc<dyn Scheduler>> {
        if !self.token.leave() {
            return None;
        }
        // SAFETY: the fiber was parked, so `start` happened before (the token orders it), and the
        // cell is not written again.
        unsafe { &*self.scheduler.get() }.as_deref()
    }

    /// Returns the fiber's scheduler, and the worker that may hold an operation of it. Returns
    /// `None` before the first operation.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(super) fn find(&self) -> Option<(&Arc<dyn Scheduler>, u32)> {
        let worker = self.limits.last_worker.get()?;
        // SAFETY: the fiber has stored its worker, so `start` happened before (`find` orders it),
        // and the cell is not written again.
        let scheduler = unsafe { &*self.scheduler.get() }.as_deref();
        scheduler.map(|scheduler| (scheduler, worker))
    }

    /// Returns `true` if its runtime abandons the fiber, which has entered a wait queue.
    #[allow(unsafe_code, reason = "a cell that is written once, before it is read")]
    pub(super) fn is_abandoned(&self) -> bool {
        // SAFETY: the fiber has entered a queue, so `start` happened before (the lock of the queue
        // orders it), and the cell is not written again.
        let scheduler = unsafe { &*self.scheduler.get() };
        scheduler
            .as_ref()
            .is_some_and(|scheduler| scheduler.is_abandoned())
    }
}

/// Returns a unique id from the calling thread's block of ids. Never inlined, like every access to
/// a thread-local that fibers make.
#[inline(never)]
pub(super) fn next_id() -> NonZeroU64 {
    /// Number of ids per block: small enough that ids still show roughly the order of spawning.
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
    /// Gives the fiber, which has this address, a stack and a scheduler.
    ///
    /// # Safety
    ///
    /// Called once, by the worker that has taken the fiber from a queue, and which keeps it until
    /// it has ended, or has moved. The runner runs no other fiber.
    pub(crate) unsafe fn start(
        &self,
        fiber: NonNull<Control>,
        runner: Runner,
        scheduler: Destination,
    ) {
        // SAFETY: by the caller's contract.
        unsafe { runner.load(fiber) };
        self.switch.runner.set(Some(runner));
        self.set_scheduler(scheduler);
    }

    /// Records that the fiber runs, and how it switches away.
    pub(super) fn begin(&self, exit: &Exit) {
        self.switch.exit.set(Some(NonNull::from_ref(exit)));
    }

    /// Runs the fiber until it pauses, or returns `None` when it has ended. Also returns the fiber,
    /// read from its stack, so that the caller keeps nothing in a register across the switch.
    ///
    /// # Safety
    ///
    /// Called by the only holder of a fiber that can run, and not from within the fiber; on its
    /// worker.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self) -> (Started, Option<Pause>) {
        // SAFETY: a queue holds a fiber from its start to its end, and in between it has a runner.
        let runner = unsafe { self.switch.runner.get().unwrap_unchecked() };
        // SAFETY: the fiber is not running, and only its holder calls this.
        let pause = unsafe { runner.resume() };
        (Started(runner.fiber()), pause)
    }

    /// Returns the thread pointer of a started fiber, if it has thread-local storage of its own.
    pub(crate) fn thread_pointer(&self) -> Option<NonZeroUsize> {
        self.switch.runner.get()?.thread_pointer()
    }

    /// Returns `true` if the runner of a fiber that has ended must not run another one.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        let has_block = self.switch.record.get().is_some();
        has_block && self.switch.runner.get().is_some_and(Runner::is_used_up)
    }

    /// Returns the record in the fiber's own thread-local storage, if it has one, and has run.
    #[inline]
    pub(crate) fn record(&self) -> Option<&Record> {
        // SAFETY: the record lives as long as the runner of the fiber.
        self.switch
            .record
            .get()
            .map(|record| unsafe { record.as_ref() })
    }

    /// Returns `true` if the fiber runs on a thread from which its worker was taken, or is on its
    /// way back. Called by the loop of its worker.
    pub(crate) fn runs_alone(&self) -> bool {
        self.record()
            .is_some_and(|record| record.claim.named() == Named::Taken)
    }

    /// Sets the record in the fiber's own thread-local storage.
    pub(crate) fn set_record(&self, record: NonNull<Record>) {
        self.switch.record.set(Some(record));
    }

    /// Records the number of the switch to the fiber among those of its worker.
    #[inline(always)]
    pub(crate) fn set_last_switch(&self, number: u64) {
        self.last_switch.set(number as u32);
    }

    /// Returns the number of the last switch to the fiber, or a later one of as many as 32 bits
    /// count, if its worker has made `now` switches.
    pub(crate) fn last_switch(&self, now: u64) -> u64 {
        let later = (now as u32).wrapping_sub(self.last_switch.get());
        now.saturating_sub(later.into())
    }

    /// Stores the id of the operation that the fiber is about to wait for, and the number of its
    /// descriptor.
    pub(crate) fn begin_operation(&self, id: u64, fd: RawFd) {
        // Relaxed: the worker looks the id up.
        self.operation.store(id, Ordering::Relaxed);
        self.operation_result.set(OperationResult(fd));
    }

    /// Returns the number of the descriptor that the operation is on for which the fiber waits, if
    /// it is on one.
    pub(super) fn awaited_fd(&self) -> Option<RawFd> {
        let OperationResult(fd) = self.operation_result.get();
        (fd >= 0).then_some(fd)
    }

    /// Returns the result of the operation for which the fiber has waited.
    pub(crate) fn operation_result(&self) -> OperationResult {
        self.operation_result.get()
    }

    /// Stores the result of the fiber's operation, which has completed.
    pub(crate) fn complete_operation(&self, result: OperationResult) {
        self.operation_result.set(result);
        self.reason.set(Reason::Ready);
    }

    /// Returns the word that says what the fiber waits for, if it has started on a stack.
    pub(super) fn awaited_word(&self) -> Option<&Cell<u64>> {
        let word = self.switch.runner.get()?.awaited();
        // SAFETY: the fiber has its runner as long as it lives, and gives it away when it has ended.
        Some(unsafe { word.as_ref() })
    }

    /// Takes the runner of a fiber that has ended.
    pub(crate) fn take_runner(&self) -> Runner {
        self.switch.record.set(None);
        self.switch.runner.take().expect("the fiber has run")
    }

    /// Switches from the fiber's stack to the worker's. Returns when the fiber is resumed.
    ///
    /// # Safety
    ///
    /// Called only from within the running fiber.
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self, pause: Pause) {
        self.switch
            .left_off
            .set(NonZeroUsize::new(address_below_caller()));
        self.reason.set(pause.reason());
        // SAFETY: the fiber is running, so it has stored its exit.
        let exit = unsafe { self.switch.exit.get().unwrap_unchecked() };
        // SAFETY: the fiber is running, so its exit is alive.
        let exit = unsafe { exit.as_ref() };
        exit.suspend(Some(pause));
    }

    /// Waits until the fiber has its worker again, if that was taken from it. Called in a call of
    /// the library, by the fiber with this record.
    ///
    /// # Safety
    ///
    /// Called only from within the running fiber.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn await_worker(&self, record: &Record) {
        while record.claim.named() == Named::Taken {
            // SAFETY: by the caller's contract.
            unsafe { self.suspend(Pause::Alone) };
        }
    }
}

#[allow(unsafe_code, reason = "reading the cells of a suspended fiber")]
impl Control {
    /// Returns the pages of the stack below what the fiber uses, if the fiber has been suspended
    /// since the previous call. Returns them once per suspension.
    ///
    /// # Safety
    ///
    /// The fiber has started, is suspended, and is not resumed during the call.
    pub(crate) unsafe fn unused_stack(&self) -> Option<Range<usize>> {
        let left_off = self.switch.left_off.get()?.get();
        let visits = left_off % align_of::<Mark>();
        let extent = self.switch.runner.get()?.extent();
        // A program may have switched to a stack of its own.
        if visits == VISITS_MAX || !extent.contains(left_off) {
            return None;
        }
        self.switch.left_off.set(NonZeroUsize::new(left_off + 1));
        let has_waited = visits + 1 == VISITS_MAX;
        has_waited.then(|| extent.pages_below(left_off - visits - SWITCH_BYTES_MAX))
    }
}

/// A variable whose address has room for the number of visits.
type Mark = u64;

/// Returns an address below the stack pointer of the caller, by no more than a call takes: that of
/// a variable in a frame of its own. One in the caller's frame could be above a large array, as the
/// caller is inlined into other functions.
#[inline(never)]
fn address_below_caller() -> usize {
    let mark = MaybeUninit::<Mark>::uninit();
    (&raw const mark).addr()
}

/// A reference to a started fiber, as queues hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Started(NonNull<Control>);

#[allow(unsafe_code, reason = "a reference to what may be sent and shared")]
// SAFETY: the pointer is a `&Control`, whose target outlives it by the contract of `new`.
unsafe impl Send for Started {}

#[allow(unsafe_code, reason = "a reference without a lifetime or a count")]
impl Started {
    /// Creates a reference to a started fiber.
    ///
    /// # Safety
    ///
    /// The fiber outlives all uses of the reference and its copies: a reactor keeps the fiber until
    /// it has ended, and until then at most one queue holds it.
    pub(crate) unsafe fn new(control: &Control) -> Started {
        Started(NonNull::from_ref(control))
    }

    /// Returns a counted reference to the fiber.
    pub(crate) fn reference(self) -> FiberRef {
        // SAFETY: there is a counted reference by the contract of `new`.
        let uncounted = unsafe { FiberRef::uncounted(self.0) };
        FiberRef::clone(&uncounted)
    }

    /// Returns the fiber as a pointer without its type.
    pub(crate) fn into_raw(self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// Returns the fiber of such a pointer, unless that is null.
    ///
    /// # Safety
    ///
    /// The pointer is null or that of [`into_raw`](Started::into_raw), and the contract of `new`
    /// holds.
    pub(crate) unsafe fn from_raw(pointer: *const ()) -> Option<Started> {
        NonNull::new(pointer.cast_mut().cast()).map(Started)
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: by the contract of `new`.
        unsafe { self.0.as_ref() }
    }

    /// Prefetches the control block.
    pub(crate) fn prefetch(self) {
        cache::prefetch(self.0);
    }

    /// Prefetches what the switch needs, with the address translations of its pages: from the stack,
    /// where the fiber continues and where it is linked to the worker's stack; and the record in the
    /// fiber's thread-local storage. The control block must be in the cache.
    pub(crate) fn prefetch_pages(self) {
        let switch = &self.control().switch;
        if let Some(left_off) = switch.left_off.get() {
            cache::prefetch_bytes(NonNull::without_provenance(left_off), 1);
        }
        if let Some(exit) = switch.exit.get() {
            cache::prefetch(exit);
        }
        if let Some(record) = switch.record.get() {
            // It has a line of its own.
            cache::prefetch_bytes(record.cast(), 1);
        }
    }

    /// Prefetches the stack from where the fiber continues towards its base, where the switch links
    /// it to the worker's stack. The control block must be in the cache.
    pub(crate) fn prefetch_stack(self) {
        let switch = &self.control().switch;
        if let (Some(left_off), Some(exit)) = (switch.left_off.get(), switch.exit.get()) {
            let used = exit.addr().get().saturating_sub(left_off.get());
            let start = NonNull::without_provenance(left_off);
            cache::prefetch_bytes(start, used.min(PREFETCHED_STACK_BYTES));
            cache::prefetch(exit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use corosensei::{Coroutine, CoroutineResult};

    use super::*;
    use crate::stack::pool::Pool;
    use crate::stack::sizes::STACK_SIZE_MIN;

    /// The value of the bytes of the stack that nothing has used.
    const UNUSED: u8 = 0xa5;

    #[test]
    #[cfg_attr(feature = "sanitizer", ignore = "it forbids to read between variables")]
    #[allow(unsafe_code, reason = "reading a suspended coroutine's stack")]
    fn a_switch_uses_only_what_trimming_leaves_to_it() {
        let pool = Pool::new(STACK_SIZE_MIN);
        let mut stacks = Vec::new();
        pool.take(&mut stacks).unwrap();
        let stack = stacks.pop().unwrap();
        let length = stack.top().addr().get() - stack.contents().start;
        // SAFETY: the address is within the same mapping.
        let start = unsafe { stack.top().sub(length) };
        // SAFETY: no fiber uses the stack.
        unsafe { start.write_bytes(UNUSED, length) };

        let below = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&below);
        let mut coroutine = Coroutine::with_stack(stack, move |exit: &Exit, ()| {
            seen.store(address_below_caller() as u64, Ordering::Relaxed);
            exit.suspend(None);
        });
        assert_eq!(coroutine.resume(()), CoroutineResult::Yield(None));
        // SAFETY: the coroutine does not run, and all bytes are initialized.
        let bytes = unsafe { slice::from_raw_parts(start.as_ptr(), length) };
        let lowest = bytes.iter().position(|byte| *byte != UNUSED);
        let lowest = start.addr().get() + lowest.expect("the coroutine has run");
        let used = below.load(Ordering::Relaxed) as usize - lowest;
        assert!(used <= SWITCH_BYTES_MAX, "{used} bytes");

        assert_eq!(coroutine.resume(()), CoroutineResult::Return(()));
        stacks.push(coroutine.into_stack());
        pool.give(stacks);
    }
}

//! A stack with a coroutine that runs one fiber after another, so that only the first fiber of a
//! stack pays for creating the coroutine.
//!
//! ```text
//!   high  +--------------------+
//!         | Top                |  the coroutine's handle, and the fiber to run
//!         +--------------------+  the coroutine starts here and grows down
//!         | loop of the runner |
//!         | frames of a fiber  |
//! ```
//!
//! The handle is on the stack itself, beside what each switch touches there, so that a fiber
//! without a stack needs no room for it.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::cell::Cell;
use std::mem::{self, offset_of};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;
use std::{hint, io};

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{Control, FiberRef, Pause};
use crate::stack::{Extent, Stack, TOP_BYTES};
use crate::tls::block::Block as ThreadBlock;
use crate::tls::images::{self, Values};
use crate::tls::record;

/// `None` says that the fiber has ended.
type Context = Coroutine<(), Option<Pause>, (), Stack>;

/// The handle by which a running fiber switches away.
pub(super) type Exit = Yielder<(), Option<Pause>>;

/// The memory of a runner at the high end of its stack.
#[repr(C)]
struct Top {
    context: Context,
    extent: Extent,
    /// Dangles until a fiber is loaded.
    fiber: NonNull<Control>,
    /// What the fiber waits for while it is parked, as [`Awaited`](crate::root::Awaited) has it.
    awaited: Cell<u64>,
    /// The thread pointer of the fibers, if they have thread-local storage of their own: a
    /// [`Block`] follows then.
    thread_pointer: Option<NonZeroUsize>,
}

/// The thread control block of the fibers of a runner, which follows its top.
struct Block {
    thread: ThreadBlock,
    /// The base of the stack without the block.
    base: NonZeroUsize,
    /// `true` if no other fiber may use the block: the C library has to end its thread.
    is_used_up: bool,
}

/// Where a debugger finds the extent of the stack and the fiber, from the top of a stack.
pub(super) const EXTENT_AT: usize = offset_of!(Top, extent);
pub(super) const FIBER_AT: usize = offset_of!(Top, fiber);
pub(super) const AWAITED_AT: usize = offset_of!(Top, awaited);

/// Number of bytes below the top that a runner with a larger stack keeps while it runs no fiber: its
/// own frames, and those of a thread that serves a request. A page that is touched again takes as
/// long as the other work for a short fiber.
const IDLE_BYTES: usize = 32 * 1024;

const _: () = assert!(size_of::<Top>() <= TOP_BYTES && align_of::<Top>() <= align_of::<usize>());

/// A runner, which is copied between its fiber and its worker: only one of them uses it at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runner(NonNull<Top>);

#[allow(unsafe_code, reason = "a coroutine between two fibers")]
// SAFETY: only the owner of a runner that runs no fiber uses the runner, and its coroutine is
// suspended in its loop, which holds nothing of a thread's.
unsafe impl Send for Runner {}

#[allow(unsafe_code, reason = "a coroutine on its own stack")]
impl Runner {
    /// Creates a runner on a stack that is not in use.
    pub(crate) fn new(stack: Stack) -> Runner {
        Runner::with_pointer(stack, None)
    }

    /// Creates a runner whose fibers have thread-local storage of their own.
    ///
    /// # Errors
    ///
    /// The errors of `pthread_create(3)`, with the stack.
    pub(crate) fn with_thread_locals(mut stack: Stack) -> Result<Runner, (Stack, io::Error)> {
        // SAFETY: the stack is not in use, and the runner leaves the block alone.
        let thread = match unsafe { ThreadBlock::create(stack.contents()) } {
            Ok(thread) => thread,
            Err(error) => return Err((stack, error)),
        };
        let pointer = NonZeroUsize::new(thread.pointer());
        let base = stack.lower_base(thread.free_end(), size_of::<Block>());
        let runner = Runner::with_pointer(stack, pointer);
        let block = Block {
            thread,
            base,
            is_used_up: false,
        };
        // SAFETY: the base was lowered so far that the block fits.
        unsafe { runner.block().write(block) };
        Ok(runner)
    }

    fn with_pointer(stack: Stack, thread_pointer: Option<NonZeroUsize>) -> Runner {
        let (top, extent) = (stack.top().cast(), stack.extent());
        // SAFETY: the function is called by the runner alone.
        let run = move |exit: &Exit, ()| unsafe { outermost(top, exit, run_fibers) };
        let context = Context::with_stack(stack, run);
        let fiber = NonNull::dangling();
        // SAFETY: the memory between the base of the stack and its end belongs to the runner, and
        // has room.
        unsafe {
            top.write(Top {
                context,
                extent,
                fiber,
                awaited: Cell::new(0),
                thread_pointer,
            })
        };
        Runner(top)
    }

    /// Ends the runner. Returns its stack, unless that has to stay as it is until the process ends:
    /// the C library still lists its block as that of a thread.
    ///
    /// # Safety
    ///
    /// It runs no fiber, and it and its copies are not used any more.
    pub(crate) unsafe fn into_stack(self) -> Option<Stack> {
        // SAFETY: the top was initialized when the runner was created, and is not used any more.
        let Top {
            mut context,
            thread_pointer,
            ..
        } = unsafe { self.0.read() };
        // SAFETY: a runner with a thread pointer has a block, which is not used any more.
        let block = thread_pointer.map(|_| unsafe { self.block().read() });
        // SAFETY: the coroutine has not started, or is suspended in its loop, which has nothing to
        // drop.
        unsafe { context.force_reset() };
        let mut stack = context.into_stack();
        if let Some(Block { thread, base, .. }) = block {
            // SAFETY: no fiber runs on the stack, and none will with this block.
            if !unsafe { thread.end() } {
                return None;
            }
            stack.restore_base(base);
        }
        Some(stack)
    }

    /// Makes the runner run a fiber, as soon as it is [resumed](Runner::resume).
    ///
    /// # Safety
    ///
    /// It runs no other fiber. There is a reference to this one until it has ended.
    pub(super) unsafe fn load(self, fiber: NonNull<Control>) {
        // SAFETY: the top lives as long as the runner, and the coroutine is not running.
        unsafe { (*self.0.as_ptr()).fiber = fiber };
    }

    /// Runs the fiber until it pauses, or returns `None` when it has ended.
    ///
    /// # Safety
    ///
    /// A fiber was loaded that has not ended, and the coroutine is not running.
    #[inline(always)]
    pub(super) unsafe fn resume(self) -> Option<Pause> {
        // SAFETY: by the caller's contract, nothing else uses the handle.
        let context = unsafe { &mut (*self.0.as_ptr()).context };
        // SAFETY: the loop of the runner does not return.
        unsafe { hint::assert_unchecked(!context.done()) };
        let result = context.resume(());
        assert!(!context.done(), "a runner runs fibers forever");
        match result {
            CoroutineResult::Yield(pause) => pause,
            // The switch has checked this; the variant would be checked again.
            // SAFETY: a coroutine that returns is done.
            CoroutineResult::Return(()) => unsafe { hint::unreachable_unchecked() },
        }
    }

    /// Returns the fiber that was loaded last.
    pub(super) fn fiber(self) -> NonNull<Control> {
        // SAFETY: the top was initialized when the runner was created.
        unsafe { (*self.0.as_ptr()).fiber }
    }

    /// Returns the word that says what the fiber waits for.
    pub(super) fn awaited(self) -> NonNull<Cell<u64>> {
        // SAFETY: the top was initialized when the runner was created.
        NonNull::from_ref(unsafe { &(*self.0.as_ptr()).awaited })
    }

    /// Returns the thread pointer of the fibers, if they have thread-local storage of their own.
    pub(crate) fn thread_pointer(self) -> Option<NonZeroUsize> {
        // SAFETY: the top was initialized when the runner was created, and the pointer never
        // changes.
        unsafe { (*self.0.as_ptr()).thread_pointer }
    }

    /// Returns `true` if the runner must not run another fiber.
    pub(crate) fn is_used_up(self) -> bool {
        // SAFETY: a runner with a thread pointer has a block.
        self.thread_pointer().is_some() && unsafe { self.block().as_ref() }.is_used_up
    }

    /// Returns the block of a runner with a thread pointer.
    fn block(self) -> NonNull<Block> {
        // SAFETY: the block follows the top.
        unsafe { self.0.add(1) }.cast()
    }

    /// Returns the pages of the stack that the runner gives back while it runs no fiber: all but
    /// the [highest](IDLE_BYTES).
    pub(crate) fn unused_stack(self) -> Range<usize> {
        self.extent().pages_below(self.0.addr().get() - IDLE_BYTES)
    }

    /// Returns the extent of the stack that the fiber is on.
    pub(crate) fn extent(self) -> Extent {
        // SAFETY: the top was initialized when the runner was created.
        unsafe { (*self.0.as_ptr()).extent }
    }

    /// Replaces the extent of the stack that the fiber is on. Called by the fiber, which leaves its
    /// own stack or comes back to it.
    pub(super) fn exchange_extent(self, extent: Extent) -> Extent {
        // SAFETY: the top was initialized when the runner was created, and only the running fiber
        // and who has the suspended one read the extent.
        mem::replace(unsafe { &mut (*self.0.as_ptr()).extent }, extent)
    }
}

#[allow(unsafe_code, reason = "the block of a runner")]
impl Runner {
    /// Makes the block ready for the next fiber. Called by the loop of the runner.
    fn end_thread(self, fiber: &Control) {
        // The end of the fiber may have created values again.
        let values = fiber.limits.without(images::drop_values);
        // SAFETY: the record is that of the block.
        let record = unsafe { record::own().as_ref() };
        record.claim.begin_call();
        // SAFETY: the caller is the loop, on the stack of the fiber.
        unsafe { fiber.await_worker(record) };
        let mut is_reset = false;
        if values == Values::Dropped {
            record::across(|| is_reset = images::reset());
        }
        if !is_reset {
            // SAFETY: a runner with a thread pointer has a block.
            unsafe { self.block().as_mut() }.is_used_up = true;
        }
    }
}

/// Runs the fibers that are loaded, one after another.
#[allow(unsafe_code, reason = "fibers that outlive their run")]
unsafe extern "C" fn run_fibers(top: NonNull<Top>, exit: &Exit) {
    loop {
        // SAFETY: the worker writes the field only while the coroutine is not running.
        let fiber = unsafe { (*top.as_ptr()).fiber };
        // SAFETY: the worker has loaded a fiber, to which there is a reference until it has ended.
        let fiber = unsafe { FiberRef::uncounted(fiber) };
        fiber.control().begin(exit);
        let runner = Runner(top);
        let has_thread_locals = runner.thread_pointer().is_some();
        if has_thread_locals {
            images::reset_later_modules();
            // SAFETY: the record is that of the block.
            unsafe { record::own().as_ref() }.claim.end_call(false);
        }
        match fiber.control().take_refusal() {
            None => fiber.run(),
            Some(payload) => fiber.abandon(payload),
        }
        if has_thread_locals {
            runner.end_thread(fiber.control());
        }
        exit.suspend(None);
    }
}

/// Calls `run`, as the outermost function of the stack for those that unwind it. The next ones would be those of
/// the worker that has resumed the fiber: other ones once the fiber has been suspended during its backtrace, as the
/// default panic hook prints while it walks the stack. Its frame is a line of the cache, so that those of the fiber
/// are where they would be without it.
///
/// # Safety
///
/// That of the function.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "an instruction for unwinding")]
unsafe extern "C" fn outermost(
    top: NonNull<Top>,
    exit: &Exit,
    run: unsafe extern "C" fn(NonNull<Top>, &Exit),
) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "sub rsp, 56",
        "call rdx",
        "add rsp, 56",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls `run`.
///
/// # Safety
///
/// That of the function.
#[cfg(not(target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "the function of the other platform")]
unsafe extern "C" fn outermost(
    top: NonNull<Top>,
    exit: &Exit,
    run: unsafe extern "C" fn(NonNull<Top>, &Exit),
) {
    // SAFETY: by the caller's contract.
    unsafe { run(top, exit) }
}

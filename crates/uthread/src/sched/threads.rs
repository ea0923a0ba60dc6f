//! The threads driver: each fiber is a thread of the operating system, and its calls are the ordinary ones.
//!
//! There is no worker and nothing to schedule. Who waits goes by the same token as a fiber on a worker, so
//! that all that wakes a fiber wakes such a thread too; it only blocks where a fiber would leave its stack.
//! Cancellation is a flag, and a signal that interrupts the system call in which a thread may be.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::cancellation::STILL_TIME_MAX;
use super::counters::Counters;
use super::local_or_shared::lock;
use super::shared::{Abandonment, Decision};
use super::thread_ends;
use crate::driver::native::interrupt::Interruptible;
use crate::fiber::{Cancelled, Control, FiberRef, Home, Started, Waiter, end_park, wake};
use crate::stack::pool::STACK_SIZE_MIN;

/// How long threads are given to end before they are interrupted again: a signal that came before the
/// call it was meant for was lost. Doubled up to the longest, for threads that compute.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(32);

/// What the C library keeps at the end of a thread's stack: its guard, its thread-locals.
const RESERVED_BYTES: usize = 32 * 1024;

/// The fibers of one runtime.
pub(crate) struct Threads {
    stack_size: usize,
    shut_down: AtomicBool,
    abandonment: Decision,
    /// Whether those that are left are not to be ended, as they end by themselves or are abandoned. Relaxed: only the runtime's
    /// owner uses it.
    is_left_alone: AtomicBool,
    /// Fibers that wait for what will come from outside, as of workers.
    outside: AtomicUsize,
    /// Those that have not ended, by the fibers' ids. Bounded by the system's limit of threads.
    members: Mutex<Members>,
    /// Somebody has.
    left: Condvar,
    /// Written under the lock of the members.
    counters: Counters,
}

#[derive(Default)]
struct Members {
    by_id: HashMap<NonZeroU64, Member>,
    /// Those that were abandoned: their joiners have to wait until no other is left.
    abandoned: Vec<FiberRef>,
    /// Whether a thread repeats summonses.
    repeating: bool,
}

struct Member {
    fiber: FiberRef,
    /// None before it runs.
    thread: Option<(Interruptible, Arc<Berth>)>,
}

/// The fiber that the calling thread is.
pub(super) struct Seat {
    threads: Arc<Threads>,
    fiber: FiberRef,
    berth: Arc<Berth>,
}

/// Where a fiber blocks.
struct Berth {
    thread: Thread,
    /// Whether its wait is over.
    resumed: AtomicBool,
    /// Whether it may be in a call that shall not wait any more.
    summoned: AtomicBool,
    /// Whether it waits for a wake-up, and for that alone.
    parked: AtomicBool,
    /// How often it has begun to.
    parks: AtomicU32,
    threads: Weak<Threads>,
}

impl Home for Berth {
    fn enqueue(&self, _: Started) {
        // Release pairs with the Acquire in `block`.
        self.resumed.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn interrupt(&self, fiber: FiberRef, _: u32) {
        // Release pairs with the Acquire in `begin_call`: what comes then sees why.
        self.summoned.store(true, Ordering::Release);
        if let Some(threads) = self.threads.upgrade() {
            threads.summon(&fiber);
        }
    }
}

impl Threads {
    /// No fibers yet; each will have a stack of so many bytes, and at least what a fiber on a worker has.
    pub(crate) fn new(stack_size: usize) -> Arc<Threads> {
        Arc::new(Threads {
            stack_size: with_reserve(stack_size),
            shut_down: AtomicBool::new(false),
            abandonment: Decision::default(),
            is_left_alone: AtomicBool::new(false),
            outside: AtomicUsize::new(0),
            members: Mutex::default(),
            left: Condvar::new(),
            counters: Counters::default(),
        })
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Starts a fiber, with a stack of so many bytes, if that is said. Where there is no thread for it, it is
    /// abandoned.
    ///
    /// # Errors
    ///
    /// The system's, `EAGAIN` above all.
    pub(crate) fn spawn(
        self: &Arc<Threads>,
        fiber: FiberRef,
        stack_size: Option<usize>,
    ) -> io::Result<()> {
        let control = fiber.control();
        let mut members = lock(&self.members);
        if self.is_shut_down() {
            drop(members);
            fiber.abandon(Box::new(Cancelled));
            return Ok(());
        }
        let member = Member {
            fiber: Arc::clone(&fiber),
            thread: None,
        };
        members.by_id.insert(control.id(), member);
        self.counters.fibers.add(1);
        drop(members);
        let stack_size = stack_size.map_or(self.stack_size, with_reserve);
        let mut builder = thread::Builder::new().stack_size(stack_size);
        if let Some(name) = control.name() {
            // Where a fiber's name may have a NUL byte, a thread's may not.
            builder = builder.name(name.replace('\0', ""));
        }
        let (threads, body) = (Arc::clone(self), Arc::clone(&fiber));
        match builder.spawn(move || threads.run(&body)) {
            Ok(thread) => thread_ends::keep(control.id(), thread),
            Err(error) => {
                self.leave(control.id());
                fiber.abandon(Box::new(format!("uthread: no thread for a fiber: {error}")));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The life of a fiber's thread.
    fn run(self: Arc<Threads>, fiber: &FiberRef) {
        let id = fiber.control().id();
        let berth = Arc::new(Berth {
            thread: thread::current(),
            resumed: AtomicBool::new(false),
            summoned: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            parks: AtomicU32::new(0),
            threads: Arc::downgrade(&self),
        });
        if let Some(member) = lock(&self.members).by_id.get_mut(&id) {
            member.thread = Some((Interruptible::new(), Arc::clone(&berth)));
        }
        fiber.control().settle(Arc::clone(&berth) as Arc<dyn Home>);
        let seat = Seat {
            threads: Arc::clone(&self),
            fiber: Arc::clone(fiber),
            berth,
        };
        CURRENT.set(Some(Rc::new(seat)));
        match fiber.control().limits.is_cancelled(self.is_shut_down()) {
            false => fiber.run(),
            true if self.abandonment.get() != Abandonment::None => vanish(),
            true => fiber.abandon(Box::new(Cancelled)),
        }
        CURRENT.set(None);
        self.leave(id);
    }

    fn leave(&self, id: NonZeroU64) {
        self.remove(id, |_, _| ());
    }

    /// Takes a fiber off the list. With the last one those that were abandoned are joined: nothing uses any more what they
    /// have lent or borrowed, and they are leaked with their threads.
    fn remove(&self, id: NonZeroU64, then: impl FnOnce(&mut Members, &Member)) {
        let mut members = lock(&self.members);
        let member = members.by_id.remove(&id);
        self.counters.ended.add(1);
        if let Some(member) = &member {
            then(&mut members, member);
        }
        let abandoned = match members.by_id.is_empty() {
            true => mem::take(&mut members.abandoned),
            false => Vec::new(),
        };
        drop(members);
        for fiber in abandoned {
            fiber.give_up();
            mem::forget(fiber);
        }
        self.left.notify_all();
        drop(member);
    }

    /// Interrupts the call in which a fiber may be, again until it has seen why.
    #[allow(unsafe_code, reason = "a signal to a thread that must not have ended")]
    fn summon(self: &Arc<Threads>, fiber: &FiberRef) {
        let mut members = lock(&self.members);
        let Some(member) = members.by_id.get(&fiber.control().id()) else {
            return; // It has ended.
        };
        if let Some((thread, _)) = &member.thread {
            // SAFETY: a thread takes itself off the list, whose lock is held, before it ends.
            unsafe { thread.interrupt() };
        }
        if !mem::replace(&mut members.repeating, true) {
            let threads = Arc::clone(self);
            let builder = thread::Builder::new().name("uthread-cancel".into());
            // Without a thread the signal that was sent has to do.
            members.repeating = builder.spawn(move || threads.repeat_summonses()).is_ok();
        }
    }

    /// The life of the thread that interrupts those who have been summoned.
    fn repeat_summonses(&self) {
        let mut members = lock(&self.members);
        let mut pause = PAUSE_MIN;
        while interrupt(&members, |berth| berth.summoned.load(Ordering::Relaxed)) {
            members = self.wait_for_leaving(members, pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        members.repeating = false;
    }

    fn wait_for_leaving<'a>(
        &self,
        members: MutexGuard<'a, Members>,
        pause: Duration,
    ) -> MutexGuard<'a, Members> {
        let waited = self.left.wait_timeout(members, pause);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_shut_down(&self) -> bool {
        // Acquire pairs with the Release in `end`.
        self.shut_down.load(Ordering::Acquire)
    }

    /// Cancels what is left, and waits until all have ended but the caller, should it be one of them.
    pub(crate) fn end(self: &Arc<Threads>) {
        if self.is_left_alone.load(Ordering::Relaxed) {
            return;
        }
        self.shut_down();
        let own = self.own();
        let mut members = lock(&self.members);
        let mut pause = PAUSE_MIN;
        let mut still_since = (0, Instant::now());
        let caller = thread::current().id();
        while members.by_id.keys().any(|id| Some(*id) != own) {
            let parks = self.count_if_still(&members, own);
            if parks.is_none() || parks != Some(still_since.0) {
                still_since = (parks.unwrap_or(0), Instant::now());
            } else if still_since.1.elapsed() >= STILL_TIME_MAX && !self.is_abandoned() {
                drop(members);
                self.abandon(Abandonment::Reported);
                members = lock(&self.members);
            }
            interrupt(&members, |berth| berth.thread.id() != caller);
            members = self.wait_for_leaving(members, pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// How often all that are left, but `own`, have begun to wait for a wake-up, if they all do. While this is the same,
    /// nothing goes on.
    fn count_if_still(&self, members: &Members, own: Option<NonZeroU64>) -> Option<u64> {
        let others = members.by_id.iter().filter(|(id, _)| Some(**id) != own);
        let mut sum = 1;
        for (_, member) in others {
            let (_, berth) = member.thread.as_ref()?;
            if !berth.parked.load(Ordering::Relaxed) {
                return None;
            }
            sum += u64::from(berth.parks.load(Ordering::Relaxed));
        }
        (self.outside.load(Ordering::Relaxed) == 0).then_some(sum)
    }

    /// Waits until all have ended by themselves, unless the caller is one of them.
    pub(crate) fn join(self: &Arc<Threads>) {
        self.is_left_alone.store(true, Ordering::Relaxed);
        if self.own().is_some() {
            return;
        }
        let mut members = lock(&self.members);
        while !members.by_id.is_empty() {
            let waited = self.left.wait(members);
            members = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves all where they are as soon as they wait; the runtime is shut down with that. Does not wait for it.
    pub(crate) fn abandon(self: &Arc<Threads>, abandonment: Abandonment) {
        if abandonment == Abandonment::Quiet {
            self.is_left_alone.store(true, Ordering::Relaxed);
        }
        self.abandonment.make(abandonment);
        self.shut_down();
        let members = lock(&self.members);
        let running = members.by_id.values().map(|member| &member.fiber);
        let running: Vec<_> = running.cloned().collect();
        for (_, berth) in members
            .by_id
            .values()
            .filter_map(|member| member.thread.as_ref())
        {
            berth.summoned.store(true, Ordering::Release);
        }
        drop(members);
        running.iter().for_each(|fiber| self.summon(fiber));
    }

    fn is_abandoned(&self) -> bool {
        self.abandonment.get() != Abandonment::None
    }

    /// The caller, should it be one of them.
    fn own(self: &Arc<Threads>) -> Option<NonZeroU64> {
        let own = current().filter(|seat| Arc::ptr_eq(&seat.threads, self));
        own.map(|seat| seat.fiber.control().id())
    }

    /// Cancels what is left.
    fn shut_down(&self) {
        let members = lock(&self.members);
        // Under the lock: whoever spawns sees it, or is among those to be woken.
        self.shut_down.store(true, Ordering::Release);
        let fibers: Vec<_> = members
            .by_id
            .values()
            .map(|member| member.fiber.clone())
            .collect();
        drop(members);
        fibers.iter().for_each(wake);
    }
}

/// Interrupts the calls of the chosen that run; whether there are any.
#[allow(unsafe_code, reason = "a signal to a thread that must not have ended")]
fn interrupt(members: &Members, chosen: impl Fn(&Berth) -> bool) -> bool {
    let running = members.by_id.values();
    let running = running.filter_map(|member| member.thread.as_ref());
    let mut any = false;
    for (thread, _) in running.filter(|(_, berth)| chosen(berth)) {
        // SAFETY: a thread takes itself off the list, whose lock the caller holds, before it ends.
        unsafe { thread.interrupt() };
        any = true;
    }
    any
}

/// What a thread is given whose fiber has asked for so many bytes.
fn with_reserve(stack_size: usize) -> usize {
    stack_size.max(STACK_SIZE_MIN) + RESERVED_BYTES
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Seat>>> = const { RefCell::new(None) };
}

/// The fiber that the calling thread is, if it is one. Never inlined, as every access to a thread-local that
/// fibers make.
#[inline(never)]
pub(super) fn current() -> Option<Rc<Seat>> {
    CURRENT
        .try_with(|seat| seat.borrow().clone())
        .ok()
        .flatten()
}

/// Makes the calling thread a plain one until it ends, if it is a fiber, which must not return.
pub(super) fn leave_for_good() {
    // What it has belongs to threads that may be in the midst of a change of it.
    let _ = CURRENT.try_with(|seat| {
        seat.try_borrow_mut()
            .map(|mut seat| mem::forget(seat.take()))
    });
}

/// The calling fiber has seen that it may not wait, if it is a thread.
#[cold]
pub(super) fn note_end() {
    if let Some(seat) = current() {
        seat.berth.summoned.store(false, Ordering::Relaxed);
    }
}

/// Leaves the calling fiber, which is a thread, where it is for ever.
pub(super) fn vanish() -> ! {
    if let Some(seat) = current() {
        let id = seat.control().id();
        thread_ends::give_up(id);
        seat.threads.remove(id, |members, member| {
            members.abandoned.push(Arc::clone(&member.fiber));
        });
    }
    loop {
        thread::park();
    }
}

impl Seat {
    pub(super) fn abandonment(&self) -> Abandonment {
        self.threads.abandonment.get()
    }

    pub(super) fn outside(&self) -> &AtomicUsize {
        &self.threads.outside
    }

    pub(super) fn control(&self) -> &Control {
        self.fiber.control()
    }

    pub(super) fn waiter(&self) -> Waiter {
        Waiter::Fiber(Arc::clone(&self.fiber))
    }

    pub(super) fn spawn(&self, fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
        self.threads.spawn(fiber, stack_size)
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.threads.is_shut_down()
    }

    /// Called before the look whether a system call may wait: who ends the wait goes the other way round.
    pub(super) fn begin_call(&self) {
        self.control().last_worker.set(0);
        // Acquire pairs with the Release in `interrupt`.
        self.berth.summoned.swap(false, Ordering::Acquire);
    }

    /// Waits for a wake-up, until the deadline if there is one; may return without.
    pub(super) fn park(&self, deadline: Option<Instant>) {
        // A wake-up came with every summons.
        self.berth.summoned.store(false, Ordering::Relaxed);
        let token = &self.control().token;
        if !token.take() {
            if token.settle_park() {
                self.berth.parks.fetch_add(1, Ordering::Relaxed);
                self.berth
                    .parked
                    .store(deadline.is_none(), Ordering::Relaxed);
                self.block(deadline);
                self.berth.parked.store(false, Ordering::Relaxed);
            }
            token.take();
        }
    }

    /// Returns when the park is over that has been settled.
    fn block(&self, mut deadline: Option<Instant>) {
        // Acquire pairs with the Release in `enqueue`.
        while !self.berth.resumed.load(Ordering::Acquire) {
            let rest = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match rest {
                None => thread::park(),
                Some(Duration::ZERO) if end_park(&self.fiber).is_some() => return,
                // Somebody else is about to end it.
                Some(Duration::ZERO) => deadline = None,
                Some(rest) => thread::park_timeout(rest),
            }
        }
        // Relaxed: it is set again only after the next park was settled, which orders the two.
        self.berth.resumed.store(false, Ordering::Relaxed);
    }
}

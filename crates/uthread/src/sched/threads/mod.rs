//! The threads driver: each fiber is a thread of the operating system, and its calls are the ordinary ones.
//!
//! There is no worker and nothing to schedule. A waiting thread uses the same token as a fiber on a worker, so that
//! whatever wakes a fiber wakes such a thread too; the thread blocks where a fiber would leave its stack.
//! Cancellation is a flag, and a signal that interrupts the system call in which a thread may be.

pub(crate) mod handles;

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

use super::shared::STILL_TIME_MAX;
use super::shared::abandonment::{Abandonment, Decision};
use super::shared::counters::Counters;
use crate::atomic::lock;
use crate::driver::native::interrupt::Interruptible;
use crate::fiber::{Cancelled, Control, FiberRef, Scheduler, Started, WakeHandle, end_park, wake};
use crate::stack::sizes::STACK_SIZE_MIN;

/// Delay before threads are interrupted again: a signal that arrives before the call it is meant for is lost. Doubles up
/// to the longest, for threads that compute.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(32);

/// Bytes that the C library uses at the end of a thread's stack: the guard, the thread-locals.
const RESERVED_BYTES: usize = 32 * 1024;

/// The fibers of one runtime.
pub(crate) struct Threads {
    stack_size: usize,
    shut_down: AtomicBool,
    abandonment: Decision,
    /// Set if the remaining fibers are not to be cancelled, as they are joined or abandoned. Relaxed: only the runtime's
    /// owner uses it.
    is_left_alone: AtomicBool,
    /// The number of fibers that wait for an event from outside the runtime.
    outside: AtomicUsize,
    /// The fibers that have not ended, by their ids. Bounded by the system's limit of threads.
    members: Mutex<Members>,
    /// Notified when a fiber has ended.
    left: Condvar,
    /// Written under the lock of the members.
    counters: Counters,
}

#[derive(Default)]
struct Members {
    by_id: HashMap<NonZeroU64, Member>,
    /// Abandoned fibers: their joiners have to wait until no other fiber is left.
    abandoned: Vec<FiberRef>,
    /// Set while a thread repeats interrupts.
    repeating: bool,
}

struct Member {
    fiber: FiberRef,
    /// `None` before it runs.
    thread: Option<(Interruptible, Arc<Parker>)>,
}

/// The fiber that a thread runs.
pub(in crate::sched) struct ThreadContext {
    pub(in crate::sched) threads: Arc<Threads>,
    fiber: FiberRef,
    parker: Arc<Parker>,
}

/// Blocks and unblocks a fiber's thread.
struct Parker {
    thread: Thread,
    /// Set when its park is over.
    resumed: AtomicBool,
    /// Set while it may be in a call that must not wait any more.
    interrupted: AtomicBool,
    /// Set while it waits for a wake-up without a deadline.
    parked: AtomicBool,
    /// The number of its parks.
    parks: AtomicU32,
    threads: Weak<Threads>,
}

impl Scheduler for Parker {
    fn enqueue(&self, _: Started) {
        // Release pairs with the Acquire in `block`.
        self.resumed.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn interrupt(&self, fiber: FiberRef, _: u32) {
        // Release pairs with the Acquire in `begin_call`: what comes then sees why.
        self.interrupted.store(true, Ordering::Release);
        if let Some(threads) = self.threads.upgrade() {
            threads.interrupt(&fiber);
        }
    }

    fn across_reset(&self, _: fn()) {
        unreachable!("the fiber is a thread, which the C library ends");
    }
}

impl Threads {
    /// Creates an empty runtime whose fibers have stacks of `stack_size` bytes, or the least size of a worker's fiber.
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

    /// Starts a fiber, with a stack of `stack_size` bytes if given. Abandons the fiber on an error.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the system's limit of threads is reached; any other error `pthread_create(3)` reports.
    pub(crate) fn spawn(
        self: &Arc<Threads>,
        fiber: FiberRef,
        stack_size: Option<usize>,
    ) -> io::Result<()> {
        let control = fiber.control();
        control.set_thread();
        let mut members = lock(&self.members);
        if self.is_shut_down() {
            drop(members);
            fiber.abandon(Box::new(Cancelled));
            return Ok(());
        }
        let member = Member {
            fiber: fiber.clone(),
            thread: None,
        };
        members.by_id.insert(control.id(), member);
        self.counters.fibers.add(1);
        drop(members);
        let stack_size = stack_size.map_or(self.stack_size, with_reserve);
        let mut builder = thread::Builder::new().stack_size(stack_size);
        if let Some(name) = control.name() {
            // A fiber's name may contain a NUL byte, a thread's may not.
            builder = builder.name(name.replace('\0', ""));
        }
        let (threads, body) = (Arc::clone(self), fiber.clone());
        match builder.spawn(move || threads.run(&body)) {
            Ok(thread) => handles::keep(control.id(), thread),
            Err(error) => {
                self.leave(control.id());
                fiber.abandon(Box::new(format!("uthread: no thread for a fiber: {error}")));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs a fiber on its thread.
    fn run(self: Arc<Threads>, fiber: &FiberRef) {
        let id = fiber.control().id();
        let parker = Arc::new(Parker {
            thread: thread::current(),
            resumed: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            parks: AtomicU32::new(0),
            threads: Arc::downgrade(&self),
        });
        if let Some(member) = lock(&self.members).by_id.get_mut(&id) {
            member.thread = Some((Interruptible::new(), Arc::clone(&parker)));
        }
        fiber
            .control()
            .set_scheduler(Arc::new(Arc::clone(&parker) as Arc<dyn Scheduler>));
        let context = ThreadContext {
            threads: Arc::clone(&self),
            fiber: fiber.clone(),
            parker,
        };
        CURRENT.set(Some(Rc::new(context)));
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

    /// Removes a fiber from the list. After the last one, completes the abandoned fibers for their joiners: nothing uses
    /// what they have lent or borrowed any more. They are leaked with their threads.
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

    /// Interrupts the call in which a fiber may be, repeatedly until the fiber has noticed.
    #[allow(unsafe_code, reason = "a signal to a thread that must not have ended")]
    fn interrupt(self: &Arc<Threads>, fiber: &FiberRef) {
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
            // Without a thread, the one signal sent above has to suffice.
            members.repeating = builder.spawn(move || threads.repeat_interrupts()).is_ok();
        }
    }

    /// Interrupts the marked fibers again and again, on a thread of its own.
    fn repeat_interrupts(&self) {
        let mut members = lock(&self.members);
        let mut pause = PAUSE_MIN;
        while interrupt_all(&members, |parker| {
            parker.interrupted.load(Ordering::Relaxed)
        }) {
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

    /// Cancels the remaining fibers and waits until all have ended, except the caller if it is one of them.
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
            interrupt_all(&members, |parker| parker.thread.id() != caller);
            members = self.wait_for_leaving(members, pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Returns the sum of all parks of the remaining fibers but `own`, if all of them are parked. While the sum stays the
    /// same, no fiber makes progress.
    fn count_if_still(&self, members: &Members, own: Option<NonZeroU64>) -> Option<u64> {
        let others = members.by_id.iter().filter(|(id, _)| Some(**id) != own);
        let mut sum = 1;
        for (_, member) in others {
            let (_, parker) = member.thread.as_ref()?;
            if !parker.parked.load(Ordering::Relaxed) {
                return None;
            }
            sum += u64::from(parker.parks.load(Ordering::Relaxed));
        }
        (self.outside.load(Ordering::Relaxed) == 0).then_some(sum)
    }

    /// Waits until all fibers have ended by themselves. Returns at once if the caller is one of them.
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

    /// Shuts the runtime down and abandons each fiber in its next wait. Does not wait for that.
    pub(crate) fn abandon(self: &Arc<Threads>, abandonment: Abandonment) {
        if abandonment == Abandonment::Quiet {
            self.is_left_alone.store(true, Ordering::Relaxed);
        }
        self.abandonment.make(abandonment);
        self.shut_down();
        let members = lock(&self.members);
        let running = members.by_id.values().map(|member| &member.fiber);
        let running: Vec<_> = running.cloned().collect();
        for (_, parker) in members
            .by_id
            .values()
            .filter_map(|member| member.thread.as_ref())
        {
            parker.interrupted.store(true, Ordering::Release);
        }
        drop(members);
        running.iter().for_each(|fiber| self.interrupt(fiber));
    }

    fn is_abandoned(&self) -> bool {
        self.abandonment.get() != Abandonment::None
    }

    /// Returns the caller's id if it is one of these fibers.
    fn own(self: &Arc<Threads>) -> Option<NonZeroU64> {
        let own = current().filter(|context| Arc::ptr_eq(&context.threads, self));
        own.map(|context| context.fiber.control().id())
    }

    /// Cancels the remaining fibers.
    fn shut_down(&self) {
        let members = lock(&self.members);
        // Under the lock: a spawner sees it, or its fiber is among those woken below.
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

/// Interrupts the calls of the chosen fibers that run. Returns `true` if there are any.
#[allow(unsafe_code, reason = "a signal to a thread that must not have ended")]
fn interrupt_all(members: &Members, chosen: impl Fn(&Parker) -> bool) -> bool {
    let running = members.by_id.values();
    let running = running.filter_map(|member| member.thread.as_ref());
    let mut any = false;
    for (thread, _) in running.filter(|(_, parker)| chosen(parker)) {
        // SAFETY: a thread takes itself off the list, whose lock the caller holds, before it ends.
        unsafe { thread.interrupt() };
        any = true;
    }
    any
}

/// Returns the stack size of a thread whose fiber needs `stack_size` bytes.
fn with_reserve(stack_size: usize) -> usize {
    stack_size.max(STACK_SIZE_MIN) + RESERVED_BYTES
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<ThreadContext>>> = const { RefCell::new(None) };
}

/// Returns the calling thread's fiber, if it is one. Never inlined, like every access to a thread-local that fibers
/// make.
#[inline(never)]
pub(in crate::sched) fn current() -> Option<Rc<ThreadContext>> {
    CURRENT
        .try_with(|context| context.borrow().clone())
        .ok()
        .flatten()
}

/// Makes the calling thread a plain one until it ends. If it is a fiber, that must not return.
pub(in crate::sched) fn leave_for_good() {
    // Its context is shared with threads that may be in the midst of modifying it.
    let _ = CURRENT.try_with(|context| {
        context
            .try_borrow_mut()
            .map(|mut context| mem::forget(context.take()))
    });
}

/// Records that the calling fiber, if it is a thread, has noticed that it may not wait.
#[cold]
pub(in crate::sched) fn acknowledge_end() {
    if let Some(context) = current() {
        context.parker.interrupted.store(false, Ordering::Relaxed);
    }
}

/// Abandons the calling fiber, which is a thread: never returns.
pub(in crate::sched) fn vanish() -> ! {
    if let Some(context) = current() {
        let id = context.control().id();
        handles::give_up(id);
        context.threads.remove(id, |members, member| {
            members.abandoned.push(member.fiber.clone());
        });
    }
    loop {
        thread::park();
    }
}

impl ThreadContext {
    pub(in crate::sched) fn abandonment(&self) -> Abandonment {
        self.threads.abandonment.get()
    }

    pub(in crate::sched) fn outside(&self) -> &AtomicUsize {
        &self.threads.outside
    }

    pub(in crate::sched) fn control(&self) -> &Control {
        self.fiber.control()
    }

    pub(in crate::sched) fn wake_handle(&self) -> WakeHandle {
        WakeHandle::Fiber(self.fiber.clone())
    }

    pub(in crate::sched) fn spawn(
        &self,
        fiber: FiberRef,
        stack_size: Option<usize>,
    ) -> io::Result<()> {
        self.threads.spawn(fiber, stack_size)
    }

    pub(in crate::sched) fn is_shut_down(&self) -> bool {
        self.threads.is_shut_down()
    }

    /// Called before the check whether a system call may wait: a canceller goes the other way round.
    pub(in crate::sched) fn begin_call(&self) {
        self.control().limits.last_worker.set(0);
        // Acquire pairs with the Release in `interrupt`.
        self.parker.interrupted.swap(false, Ordering::Acquire);
    }

    /// Waits for a wake-up, until the deadline if there is one. May return spuriously.
    pub(in crate::sched) fn park(&self, deadline: Option<Instant>) {
        // A wake-up came with every interrupt.
        self.parker.interrupted.store(false, Ordering::Relaxed);
        let token = &self.control().token;
        if !token.take() {
            if token.settle_park() {
                self.parker.parks.fetch_add(1, Ordering::Relaxed);
                self.parker
                    .parked
                    .store(deadline.is_none(), Ordering::Relaxed);
                self.block(deadline);
                self.parker.parked.store(false, Ordering::Relaxed);
            }
            token.take();
        }
    }

    /// Blocks until the settled park is over.
    fn block(&self, mut deadline: Option<Instant>) {
        // Acquire pairs with the Release in `enqueue`.
        while !self.parker.resumed.load(Ordering::Acquire) {
            let rest = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match rest {
                None => thread::park(),
                Some(Duration::ZERO) if end_park(&self.fiber).is_some() => return,
                // Another thread is about to end it.
                Some(Duration::ZERO) => deadline = None,
                Some(rest) => thread::park_timeout(rest),
            }
        }
        // Relaxed: it is set again only after the next park was settled, which orders the two.
        self.parker.resumed.store(false, Ordering::Relaxed);
    }
}

//! The threads driver: each fiber is a thread of the operating system, and its calls are the
//! ordinary ones.
//!
//! There is no worker and nothing to schedule. A waiting thread uses the same token as a fiber on a
//! worker, so that whatever wakes a fiber wakes such a thread too; the thread blocks where a fiber
//! would leave its stack. Cancellation is a flag, and a signal that interrupts the system call in
//! which a thread may be.
//!
//! A runtime with workers has such fibers, too: the dedicated ones, each with a [`Membership`] of
//! that runtime.
//!
//! | module | contents |
//! | --- | --- |
//! | [`context`] | the calling thread's fiber |
//! | [`dedicated`] | the fibers of a runtime with workers that are threads |
//! | [`handles`] | the threads that joins wait for |

mod context;
mod dedicated;
pub(crate) mod handles;

use std::collections::HashMap;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub(in crate::sched) use self::context::{
    ThreadContext, acknowledge_end, current, leave_for_good, vanish,
};
use super::shared::abandonment::{Abandonment, Decision};
use super::shared::counters::Counters;
use super::shared::dedicated::Membership;
use super::shared::{STILL_TIME_MAX, Shared};
use crate::atomic::lock;
use crate::driver::native::blocked::Task;
use crate::driver::native::interrupt::Interruptible;
use crate::fiber::{Cancelled, FiberRef, Scheduler, Started, wake};
use crate::forked;
use crate::pool::Job;
use crate::stack::sizes::STACK_SIZE_MIN;

/// Delay before threads are interrupted again: a signal that arrives before the call it is meant
/// for is lost. Doubles up to the longest, for threads that compute.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(32);

/// Bytes that the C library uses at the end of a thread's stack: the guard, the thread-locals.
const RESERVED_BYTES: usize = 32 * 1024;

/// The fibers of one runtime.
pub(crate) struct Threads {
    stack_size: usize,
    shut_down: AtomicBool,
    abandonment: Decision,
    /// Set if the remaining fibers are not to be cancelled, as they are joined or abandoned.
    /// Relaxed: only the runtime's owner uses it.
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
    /// Set for a dedicated fiber.
    membership: Option<Membership>,
}

/// How a fiber leaves the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Departure {
    /// It has ended, or never ran.
    Ended,
    /// It stops in the middle, and is never resumed.
    Abandoned,
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

    fn is_abandoned(&self) -> bool {
        let threads = self.threads.upgrade();
        threads.is_some_and(|threads| threads.is_abandoned())
    }

    fn interrupt(&self, fiber: FiberRef, _: u32) {
        // Release pairs with the Acquire in `begin_call`: what comes then sees why.
        self.interrupted.store(true, Ordering::Release);
        if let Some(threads) = self.threads.upgrade() {
            threads.interrupt(&fiber);
        }
    }
}

impl Threads {
    /// Creates an empty runtime whose fibers have stacks of `stack_size` bytes, or the least size
    /// of a worker's fiber.
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
    /// `EAGAIN` if the system's limit of threads is reached; any other error `pthread_create(3)`
    /// reports.
    pub(crate) fn spawn(
        self: &Arc<Threads>,
        fiber: FiberRef,
        stack_size: Option<usize>,
    ) -> io::Result<()> {
        self.start(fiber, stack_size, None)
    }

    /// Starts a fiber like [`spawn`](Threads::spawn); a dedicated one if it is a member of a
    /// runtime.
    fn start(
        self: &Arc<Threads>,
        fiber: FiberRef,
        stack_size: Option<usize>,
        membership: Option<Membership>,
    ) -> io::Result<()> {
        let control = fiber.control();
        control.set_thread();
        let runtime = membership.as_ref();
        let runtime = runtime.map(|membership| Arc::clone(&membership.runtime));
        let mut members = lock(&self.members);
        if self.is_shut_down() {
            drop(members);
            fiber.abandon(Box::new(Cancelled));
            return Ok(());
        }
        let member = Member {
            fiber: fiber.clone(),
            thread: None,
            membership,
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
        let body: Job = Box::new(move || threads.run(&body, runtime));
        match forked::spawn(builder, body) {
            Ok(thread) => handles::keep(control.id(), thread),
            Err(error) => {
                self.remove(control.id(), Departure::Ended);
                fiber.abandon(Box::new(format!("uthread: no thread for a fiber: {error}")));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs a fiber on its thread.
    fn run(self: Arc<Threads>, fiber: &FiberRef, runtime: Option<Arc<Shared>>) {
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
            if let Some(membership) = &member.membership {
                let id = Task::current().number();
                // Relaxed: a debugger reads nothing else.
                membership
                    .thread
                    .store(id.cast_unsigned(), Ordering::Relaxed);
            }
        }
        fiber
            .control()
            .set_scheduler(Arc::new(Arc::clone(&parker) as Arc<dyn Scheduler>));
        context::enter(ThreadContext {
            threads: Arc::clone(&self),
            runtime,
            fiber: fiber.clone(),
            parker,
        });
        if !fiber.control().limits.is_cancelled(self.is_shut_down()) {
            fiber.run();
        } else if self.abandonment.get() != Abandonment::None {
            vanish();
        } else {
            fiber.abandon(Box::new(Cancelled));
        }
        context::leave();
        self.remove(id, Departure::Ended);
    }

    /// Removes a fiber from the list. After the last one, completes the abandoned fibers for their
    /// joiners: nothing uses what they have lent or borrowed any more. They are leaked with their
    /// threads.
    fn remove(&self, id: NonZeroU64, departure: Departure) {
        let mut members = lock(&self.members);
        self.counters.ended.add(1);
        let Some(member) = members.by_id.remove(&id) else {
            return;
        };
        if departure == Departure::Abandoned {
            let fiber = member.fiber.clone();
            match &member.membership {
                None => members.abandoned.push(fiber),
                // Its workers may use what the fiber has lent.
                Some(membership) => membership.runtime.keep_abandoned(fiber),
            }
        }
        let is_last = members.by_id.is_empty();
        let abandoned = if is_last {
            mem::take(&mut members.abandoned)
        } else {
            Vec::new()
        };
        drop(members);
        for fiber in abandoned {
            fiber.give_up();
            mem::forget(fiber);
        }
        if is_last && let Some(membership) = &member.membership {
            membership.runtime.complete_abandoned();
        }
        self.left.notify_all();
        // Last: the keeper of a dedicated fiber ends.
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
            let body: Job = Box::new(move || threads.repeat_interrupts());
            members.repeating = forked::spawn(builder, body).is_ok();
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

    /// Cancels the remaining fibers and waits until all have ended, except the caller if it is one
    /// of them.
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

    /// Returns the sum of all parks of the remaining fibers but `own`, if all of them are parked.
    /// While the sum stays the same, no fiber makes progress.
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

    /// Waits until all fibers have ended by themselves. Returns at once if the caller is one of
    /// them.
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
        self.cancel();
    }

    /// Cancels the remaining fibers, and interrupts their calls. Does not wait for their end.
    fn cancel(self: &Arc<Threads>) {
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

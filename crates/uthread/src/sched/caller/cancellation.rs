//! Checks whether the caller may wait, and ends it by an error or by unwinding if it may not.
//!
//! The caller is a fiber, on a worker or as a thread, or a plain thread, which has limits but no
//! handle that could cancel it.

use std::io;
use std::time::{Duration, Instant};
use std::{panic, thread};

use super::{now, with_control};
use crate::driver::native::standard_error;
use crate::fiber::limits::{Limits, Outer};
use crate::fiber::{Cancelled, Elapsed, Pause, Started};
use crate::op;
use crate::sched::shared::abandonment::Abandonment;
use crate::sched::threads;
use crate::sched::worker::{calls, current, panics};

/// Number of failed calls and useless spawns after which a caller is unwound. A caller that handles
/// the errors ends long before; a loop that only retries never would.
pub(crate) const REFUSALS_MAX: u32 = 100;

/// Number of unwindings that a fiber may catch after the end of its runtime before it is abandoned.
/// A fiber that catches the panic of each piece of its work ends long before.
const ENDINGS_MAX: u32 = 100;

/// How long a fiber that cannot be unwound may continue with such calls: its destructor may wait
/// for others by `yield_now`.
const ENDING_TIME_MAX: Duration = Duration::from_secs(2);

/// The reason why the caller may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Cancelled,
    Elapsed,
}

impl End {
    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            End::Cancelled => op::CANCELLED,
            End::Elapsed => op::DEADLINE_PASSED,
        })
    }
}

/// Returns the reason why the caller may not wait, if there is one. Cancellation takes precedence
/// over a deadline.
#[inline]
pub(crate) fn end() -> Option<End> {
    match unlimited() {
        Some(_) => None,
        None => look_for_end(),
    }
}

/// Returns the calling fiber if it runs on a worker and may wait without limit, as usual.
#[inline]
pub(super) fn unlimited() -> Option<Started> {
    current::running().filter(|fiber| fiber.control().limits.is_empty())
}

/// Returns `true` if the caller is a fiber on a worker and may wait without limit, as usual.
#[inline]
pub(crate) fn is_unlimited() -> bool {
    unlimited().is_some()
}

/// Checks a caller that has limits, or is a thread.
#[cold]
fn look_for_end() -> Option<End> {
    let shut_down = is_shut_down();
    let (is_cancelled, deadline) =
        with_limits(|limits| (limits.is_cancelled(shut_down), limits.deadline()));
    let is_cancelled = is_cancelled || shut_down && is_abandoned();
    match deadline {
        _ if is_cancelled => {
            threads::acknowledge_end();
            Some(End::Cancelled)
        }
        None => None,
        Some(deadline) => (deadline <= now()).then_some(End::Elapsed),
    }
}

/// Returns `true` if the caller may not wait.
#[inline]
pub(crate) fn is_cancelled() -> bool {
    end().is_some()
}

/// Returns `true` if the caller is a fiber whose runtime is shut down.
pub(crate) fn is_shut_down() -> bool {
    current::with_fiber(|worker| worker.shared().is_shut_down())
        .unwrap_or_else(|| threads::current().is_some_and(|context| context.is_shut_down()))
}

/// Returns the deadline of the caller's calls, if there is one.
#[inline]
pub(crate) fn deadline() -> Option<Instant> {
    match unlimited() {
        Some(_) => None,
        None => look_for_deadline(),
    }
}

#[cold]
fn look_for_deadline() -> Option<Instant> {
    with_limits(|limits| limits.deadline())
}

/// Returns when the timers end a wait of the caller: at `time`, or at its deadline if that is earlier.
#[inline]
pub(super) fn timer_until(time: Instant) -> Instant {
    match unlimited() {
        Some(_) => time,
        None => timer_within_limits(time),
    }
}

#[cold]
fn timer_within_limits(time: Instant) -> Instant {
    let (deadline, drifts) = with_limits(|limits| (limits.deadline(), limits.drifts()));
    let earlier = deadline.map_or(time, |deadline| deadline.min(time));
    if drifts { by_timers(earlier) } else { earlier }
}

/// Returns when the timers end a call of the caller, by its deadline.
#[cold]
pub(super) fn timer_of_deadline() -> Option<Instant> {
    let (deadline, drifts) = with_limits(|limits| (limits.deadline(), limits.drifts()));
    if drifts {
        deadline.map(by_timers)
    } else {
        deadline
    }
}

/// Returns a time of the caller's clock by that of the timers.
fn by_timers(time: Instant) -> Instant {
    super::world().map_or(time, |world| world.deadline(time))
}

/// Returns the earlier of the caller's deadline and `own`.
pub(crate) fn earliest(own: Option<Instant>) -> Option<Instant> {
    match (own, deadline()) {
        (Some(own), Some(deadline)) => Some(own.min(deadline)),
        (own, deadline) => own.or(deadline),
    }
}

/// Returns the error of a call that may not wait.
pub(crate) fn refusal() -> Option<io::Error> {
    end().map(refuse)
}

#[cold]
fn refuse(end: End) -> io::Error {
    vanish_if_abandoned(IN_A_CALL);
    if with_limits(|limits| limits.count_refusal()) > REFUSALS_MAX {
        unwind(end);
    }
    end.error()
}

/// Returns an error if the caller may not wait.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if the caller may not wait.
pub(crate) fn refuse_if_cancelled() -> io::Result<()> {
    refusal().map_or(Ok(()), Err)
}

/// Unwinds the caller if it may not wait, for a call that cannot return an error. If it cannot be
/// unwound, because panics abort or it is unwinding already, the call lets others run and returns.
#[inline]
pub(crate) fn unwind_if_cancelled() {
    if let Some(end) = end() {
        unwind(end);
    }
}

/// Unwinds the caller like [`unwind_if_cancelled`]. The caller has seen another fiber end with the
/// runtime, which its own worker may not have noticed yet.
#[cold]
pub(crate) fn unwind_if_ending() {
    if let Some(end) = look_for_end() {
        unwind(end);
    }
}

#[cold]
fn unwind(end: End) {
    vanish_if_abandoned(IN_A_CALL);
    let begins =
        panics::begin_unwinding().unwrap_or_else(|| cfg!(panic = "unwind") && !thread::panicking());
    if end == End::Cancelled && is_shut_down() && is_endless(begins) {
        report(SWALLOWS);
        vanish();
    }
    if begins {
        match end {
            End::Cancelled => panic::resume_unwind(Box::new(Cancelled)),
            End::Elapsed => panic::resume_unwind(Box::new(Elapsed)),
        }
    }
    // The fibers that it waits for must be able to run.
    match current::running() {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => thread::yield_now(),
    }
}

/// Returns `true` if one more unwinding, as far as it is possible, will not end the caller.
fn is_endless(unwinds: bool) -> bool {
    let now = now();
    let (count, first) = with_limits(|limits| limits.count_ending(now));
    let has_time = !unwinds && now.saturating_duration_since(first) < ENDING_TIME_MAX;
    count > ENDINGS_MAX && !has_time
}

/// The reason why a fiber has not ended with its runtime.
const SWALLOWS: &str = "it went on after it was unwound, again and again";
pub(crate) const IN_A_CALL: &str = "it waits in a shield or in a destructor";

/// Returns `true` if the caller is a fiber that its runtime abandons.
pub(crate) fn is_abandoned() -> bool {
    abandonment() != Abandonment::None
}

fn abandonment() -> Abandonment {
    current::with_fiber(|worker| worker.shared().abandonment()).unwrap_or_else(|| {
        threads::current().map_or(Abandonment::None, |context| context.abandonment())
    })
}

/// Does not return if the runtime of the caller abandons its fibers. The caller must not be in a
/// queue, and must not hold anything that other fibers or threads wait for. `why` describes its
/// wait.
#[cold]
pub(crate) fn vanish_if_abandoned(why: &str) {
    match abandonment() {
        Abandonment::None => return,
        Abandonment::Quiet => {}
        Abandonment::Reported => report(why),
    }
    vanish();
}

/// Leaves the calling fiber where it is, forever.
fn vanish() -> ! {
    let Some(fiber) = current::running() else {
        threads::vanish();
    };
    loop {
        calls::suspend(fiber, Pause::Abandoned);
    }
}

fn report(why: &str) {
    let line = with_control(|fiber| {
        let name = fiber.name().map(|name| format!("\"{name}\" "));
        format!(
            "uthread: fiber {} {}(spawned at {}) does not end with its runtime and is abandoned: {why}\n",
            fiber.id(),
            name.unwrap_or_default(),
            fiber.spawn_site()
        )
    });
    let line = line.unwrap_or_default();
    if cfg!(test) {
        return eprint!("{line}"); // Shown with the test, if that fails.
    }
    standard_error::print(format_args!("{line}"));
}

/// Restores the previous limits on drop.
pub(crate) struct Within(Option<Outer>);

impl Within {
    /// Changes the caller's limits.
    pub(crate) fn enter(change: impl FnOnce(&Limits) -> Outer) -> Within {
        Within(Some(with_limits(|limits| change(limits))))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(outer) = self.0.take() {
            with_limits(|limits| limits.leave(outer));
        }
    }
}

/// Calls `action` with the caller's limits.
fn with_limits<R>(action: impl FnOnce(&Limits) -> R) -> R {
    let mut action = Some(action);
    let mut act = |limits: &Limits| action.take().expect("there is one caller")(limits);
    match with_control(|control| act(&control.limits)) {
        Some(result) => result,
        None => with_own(act),
    }
}

/// Calls `action` with the limits of a thread that is not a fiber. Never inlined, like every access
/// to a thread-local that fibers make.
#[inline(never)]
fn with_own<R>(action: impl FnOnce(&Limits) -> R) -> R {
    thread_local! {
        static LIMITS: Limits = Limits::default();
    }
    let mut action = Some(action);
    let mut act = |limits: &Limits| action.take().expect("the action is called once")(limits);
    match LIMITS.try_with(&mut act) {
        Ok(result) => result,
        // The thread is ending.
        Err(_) => act(&Limits::default()),
    }
}

/// Counts a spawn by a fiber whose runtime is shut down, so that a loop that restarts ended fibers
/// terminates.
pub(crate) fn count_spawn() {
    let _ = refusal();
}

/// Counts a wait with a timeout that ends early because the caller is cancelled, so that a loop of
/// such waits terminates.
pub(crate) fn count_early_end() {
    let _ = refusal();
}

/// Returns the deadline for a fiber whose value the caller needs. Returns `None` if the caller is
/// unwinding: it could not be unwound again for lack of the value.
pub(crate) fn deadline_to_inherit() -> Option<Instant> {
    deadline().filter(|_| !panics::is_panicking())
}

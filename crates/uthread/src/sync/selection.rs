//! Selection: waiting for one of several events. At most one of them takes or gives a value.
//!
//! ```text
//!   try        each event in turn, from a random one on; the first that is ready completes the selection
//!   enlist     at each event, to be woken by it; if one is ready, go on with `withdraw`
//!   wait       until a wake-up or the next deadline
//!   withdraw   from all events, and start again
//! ```
//!
//! A wake-up does not hand over a value: the woken caller tries all events again. Only the other
//! side of an `mpsc` or `mpmc` channel *claims* the selection:
//!
//! ```text
//!            claim(arm), by the side that meets an enlisted arm, under the lock of its channel
//!   OPEN ------------------------------------------------------> arm: it is selected, the values are exchanged
//!     \--------------------------------------------------------> CLOSED: it can no longer be claimed
//!            close, by the caller before it withdraws
//! ```
//!
//! | actor | action | effect on the selection |
//! | --- | --- | --- |
//! | a sender | has a value for a receiving selection | claims its arm, then wakes it |
//! | a receiver | takes the value of a sending selection | claims its arm, then wakes it |
//! | either end | is dropped | wakes a selection at the other end |
//! | the kernel | completes the poll of a descriptor, which is in flight only during a wait | wakes it |
//! | time | passes the earliest deadline of the arms | wakes it |
//!
//! No wake-up is lost: an event is enlisted under the lock of its object, and checked under the
//! same lock. Earlier changes are seen by the check, later ones cause a wake-up. A poll of a
//! descriptor that is ready completes as soon as it starts.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::atomic::{AtomicUsize, Ordering};
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, turn, wait};
use crate::sched::fast_rand;
use crate::sched::features::readiness::{self, PollOperation};

/// An event that a selection can wait for. Like the other traits here but [`Select`], other crates
/// cannot name it, and so not implement it.
pub trait Event {
    /// The result of the event.
    type Output;

    /// Completes the event if it is ready. Called while the event is not enlisted.
    fn try_complete(&mut self) -> Option<Self::Output>;

    /// Registers the handle to be woken or claimed when `try_complete` may succeed. Returns
    /// `false`, without registering it, if that may be the case already.
    fn enlist(&mut self, handle: ArmHandle) -> bool;

    /// Removes the registration, if there is one.
    fn withdraw(&mut self);

    /// Returns the result after a claim. Called instead of `withdraw`.
    fn claimed(&mut self) -> Self::Output {
        unreachable!("only channels claim")
    }

    /// Returns the time at which the event will be ready, if it is known.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns a poll that the kernel has to perform for this event, if it needs one. Called while
    /// the event is enlisted.
    fn poll(&self) -> Option<PollOperation<'_>> {
        None
    }

    /// Records that the kernel cannot poll: the next `try_complete` returns this error.
    fn fail(&mut self, _: io::Error) {
        unreachable!("only descriptors are polled")
    }

    /// Returns the result of a call whose other side is gone.
    fn cut_off(&mut self) -> Self::Output;
}

/// Receivers that a selection can receive from.
pub trait Receive {
    /// The event that a value can be received.
    type Event: Event;

    /// Creates the event.
    fn event(self) -> Self::Event;
}

/// Senders that a selection can send to.
pub trait Transmit<'a, T> {
    /// The event that the value was sent.
    type Event: Event;

    /// Creates the event.
    fn event(self, value: &'a mut Option<T>) -> Self::Event;
}

/// Processes that a selection can wait for.
pub trait Exits {
    /// Returns a descriptor that is readable once the process has terminated, if there is one.
    fn pidfd(&self) -> Option<BorrowedFd<'_>>;
}

/// Handles of fibers whose end a selection can wait for.
pub trait Joins {
    /// Returns `true` if the fiber has ended.
    fn has_ended(&self) -> bool;

    /// Registers a waiter to be woken at the end. Returns `false` if the fiber has ended.
    fn await_end(&self, waiter: ArmHandle) -> bool;

    /// Withdraws the waiter.
    fn withdraw(&self);
}

/// References to sets of fibers that a selection can join the next of.
pub trait JoinsNext {
    /// Returns `true` if the set has fibers.
    fn has_members(&self) -> bool;
}

/// An event of a selection, and its result. See the example of [`take`](Arm::take).
///
/// Programs cannot name the type of the event. An arm stays where it was created: it is neither
/// `Send` nor `Sync`.
pub struct Arm<E: Event> {
    /// `None` if the arm is disabled.
    event: Option<E>,
    output: Option<E::Output>,
    /// Some events borrow a receiver of which a channel supports only one.
    not_send: PhantomData<*const ()>,
}

impl<E: Event> fmt::Debug for Arm<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Arm").finish_non_exhaustive()
    }
}

impl<E: Event> Arm<E> {
    pub(crate) fn new(event: E) -> Arm<E> {
        Arm {
            event: Some(event),
            ..Arm::disabled()
        }
    }

    /// Creates an arm that is never selected.
    pub(crate) fn disabled() -> Arm<E> {
        Arm {
            event: None,
            output: None,
            not_send: PhantomData,
        }
    }

    /// Returns the result if the arm was selected.
    ///
    /// ```
    /// use uthread::sync::{mpsc, select};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// sender.send(1).unwrap();
    /// let mut arm = select::recv(&receiver);
    /// select::select(&mut [&mut arm]);
    /// assert_eq!(arm.take(), Some(Ok(1)));
    /// ```
    pub fn take(&mut self) -> Option<E::Output> {
        self.output.take()
    }
}

/// An [`Arm`] of any type. See the example of [`select`]. The trait is sealed: it cannot be
/// implemented for other types.
pub trait Select: AnyArm {}

impl<E: Event> Select for Arm<E> {}

/// The operations of a selection on its arms.
pub trait AnyArm {
    /// Returns `true` if the selection waits for this arm.
    fn is_enabled(&self) -> bool;
    /// Completes the event if it is ready; returns `true` if it was.
    fn try_complete(&mut self) -> bool;
    /// Calls [`Event::enlist`]; returns `true` if the arm is disabled.
    fn enlist(&mut self, handle: ArmHandle) -> bool;
    /// Calls [`Event::withdraw`], if the arm is enabled.
    fn withdraw(&mut self);
    /// Returns [`Event::deadline`], if the arm is enabled.
    fn deadline(&self) -> Option<Instant>;
    /// Returns [`Event::poll`], if the arm is enabled.
    fn poll(&self) -> Option<PollOperation<'_>>;
    /// Calls [`Event::fail`], if the arm is enabled.
    fn fail(&mut self, error: io::Error);
    /// Completes the event after a claim.
    fn accept(&mut self);
    /// Completes the event as if its other side were gone.
    fn cut_off(&mut self);
}

impl<E: Event> AnyArm for Arm<E> {
    fn is_enabled(&self) -> bool {
        self.event.is_some()
    }

    fn try_complete(&mut self) -> bool {
        self.output = self.event.as_mut().and_then(Event::try_complete);
        self.output.is_some()
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        let event = self.event.as_mut();
        event.is_none_or(|event| event.enlist(handle))
    }

    fn withdraw(&mut self) {
        if let Some(event) = &mut self.event {
            event.withdraw();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.event.as_ref().and_then(Event::deadline)
    }

    fn poll(&self) -> Option<PollOperation<'_>> {
        self.event.as_ref().and_then(Event::poll)
    }

    fn fail(&mut self, error: io::Error) {
        if let Some(event) = &mut self.event {
            event.fail(error);
        }
    }

    fn accept(&mut self) {
        self.output = self.event.as_mut().map(Event::claimed);
    }

    fn cut_off(&mut self) {
        self.output = self.event.as_mut().map(Event::cut_off);
    }
}

/// The time at which a selection gives up.
#[derive(Clone, Copy)]
enum Timeout {
    Now,
    At(Instant),
    Never,
}

/// Waits until one of the arms is ready, completes it, and returns its index. If several are ready,
/// a random one is selected. The other arms are left unchanged.
///
/// [`select!`](crate::select) calls this function. Call it directly if the number of arms is only
/// known at run time.
///
/// # Panics
///
/// Panics if no arm is enabled.
///
/// ```
/// use uthread::sync::{mpsc, select};
///
/// let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel()).unzip();
/// let sender = senders[1].clone();
/// uthread::spawn(move || sender.send("from the second").unwrap());
/// let mut arms: Vec<_> = receivers.iter().map(select::recv).collect();
/// let mut choices: Vec<_> = arms.iter_mut().map(|arm| arm as &mut dyn select::Select).collect();
/// let index = select::select(&mut choices);
/// assert_eq!(arms[index].take(), Some(Ok("from the second")));
/// # assert_eq!(index, 1);
/// ```
pub fn select(arms: &mut [&mut dyn Select]) -> usize {
    let enabled = arms.iter().any(|arm| arm.is_enabled());
    assert!(enabled, "no arm is enabled");
    select_within(arms, Timeout::Never).expect("without a timeout an arm is ready")
}

/// Waits until one of the arms is ready, like [`select`], but at most for `timeout`. Returns `None`
/// if the time elapses.
///
/// ```
/// use std::time::Duration;
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<()>();
/// let soon = Duration::from_millis(1);
/// assert_eq!(select::select_timeout(&mut [&mut select::recv(&receiver)], soon), None);
/// ```
pub fn select_timeout(arms: &mut [&mut dyn Select], timeout: Duration) -> Option<usize> {
    let deadline = caller::after(caller::now(), timeout);
    select_within(arms, Timeout::At(deadline))
}

/// Completes one of the arms that are ready, like [`select`], without waiting. Returns `None` if
/// none is ready.
///
/// ```
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<()>();
/// assert_eq!(select::try_select(&mut [&mut select::recv(&receiver)]), None);
/// ```
pub fn try_select(arms: &mut [&mut dyn Select]) -> Option<usize> {
    select_within(arms, Timeout::Now)
}

fn select_within(arms: &mut [&mut dyn Select], timeout: Timeout) -> Option<usize> {
    turn::spend();
    let mut selection = None;
    loop {
        let cancelled = cancellation::is_cancelled();
        // All arms are withdrawn.
        if cancelled && selection.is_some() {
            cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
        }
        let first = fast_rand::below(arms.len());
        let mut order = (first..arms.len()).chain(0..first);
        if let Some(chosen) = order.find(|&index| arms[index].try_complete()) {
            return Some(chosen);
        }
        if cancelled && !matches!(timeout, Timeout::Now) {
            return cut_off(arms, timeout);
        }
        let over = match timeout {
            Timeout::Now => true,
            Timeout::At(deadline) => caller::now() >= deadline,
            Timeout::Never => false,
        };
        if over {
            return None;
        }
        if selection.is_none() {
            selection = begin(arms);
        }
        if let Some(selection) = &selection
            && let Some(claimed) = await_change(arms, selection, timeout)
        {
            return Some(claimed);
        }
    }
}

/// Creates the selection that the arms enlist with. Returns `None` if that fails, after passing the
/// error to an arm.
fn begin(arms: &mut [&mut dyn Select]) -> Option<Arc<Selection>> {
    let Some(polled) = arms.iter().position(|arm| arm.poll().is_some()) else {
        return Some(Selection::new(caller::wake_handle()));
    };
    match readiness::wake_handle() {
        Ok(waiter) => Some(Selection::new(waiter)),
        Err(error) => {
            arms[polled].fail(error);
            None
        }
    }
}

/// Ends a selection whose caller is cancelled. With a timeout, the wait ends early. Otherwise the
/// caller is unwound or, in a destructor, the first arm completes as if its other side were gone.
#[cold]
fn cut_off(arms: &mut [&mut dyn Select], timeout: Timeout) -> Option<usize> {
    if let Timeout::At(_) = timeout {
        cancellation::count_early_end();
        return None;
    }
    cancellation::unwind_if_cancelled();
    let chosen = arms.iter().position(|arm| arm.is_enabled())?;
    arms[chosen].cut_off();
    Some(chosen)
}

/// Waits until an arm may be ready, and withdraws all arms. Returns the index of the arm if one was
/// claimed.
fn await_change(
    arms: &mut [&mut dyn Select],
    selection: &Arc<Selection>,
    timeout: Timeout,
) -> Option<usize> {
    selection.open();
    let mut enlisted = 0;
    let nothing_yet = arms.iter_mut().enumerate().all(|(index, arm)| {
        enlisted = index + 1;
        let handle = ArmHandle {
            selection: Arc::clone(selection),
            arm: index,
        };
        arm.enlist(handle)
    });
    if nothing_yet {
        let deadlines = arms.iter().filter_map(|arm| arm.deadline());
        let until = match timeout {
            Timeout::At(deadline) => Some(deadline),
            Timeout::Now | Timeout::Never => None,
        };
        let deadline = deadlines.chain(until).min();
        park(arms, &selection.handle, deadline);
    }
    let claimed = selection.close();
    for (index, arm) in arms[..enlisted].iter_mut().enumerate() {
        if claimed == Some(index) {
            arm.accept();
        } else {
            arm.withdraw();
        }
    }
    claimed
}

/// Waits for a wake-up or for the polls of the kernel.
fn park(arms: &mut [&mut dyn Select], handle: &WakeHandle, deadline: Option<Instant>) {
    let polled = arms.iter().enumerate();
    let polled = polled.filter_map(|(index, arm)| arm.poll().map(|poll| (index, poll)));
    let (indices, polls): (Vec<_>, Vec<_>) = polled.unzip();
    if polls.is_empty() {
        return wait::park_unless_over(deadline);
    }
    if let Err((position, error)) = readiness::park(handle, &polls, deadline) {
        drop(polls);
        arms[indices[position]].fail(error);
    }
}

/// The caller of a selection, and the arm that was claimed.
pub(crate) struct Selection {
    handle: WakeHandle,
    /// OPEN, CLOSED, or the index of the claimed arm.
    state: AtomicUsize,
}

const OPEN: usize = usize::MAX;
const CLOSED: usize = usize::MAX - 1;

// Relaxed throughout: a claim and its exchange happen under the lock of the channel, which the
// caller takes before it inspects the result. The state only decides which side is first.
impl Selection {
    fn new(handle: WakeHandle) -> Arc<Selection> {
        Arc::new(Selection {
            handle,
            state: AtomicUsize::new(CLOSED),
        })
    }

    /// Opens the selection for claims. Called while no arm is enlisted.
    fn open(&self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// Ends the selection, unless it has ended before.
    fn end(&self, state: usize) -> Result<usize, usize> {
        let (order, or_else) = (Ordering::Relaxed, Ordering::Relaxed);
        self.state.compare_exchange(OPEN, state, order, or_else)
    }

    /// Closes the selection. Returns the arm if one was claimed before.
    fn close(&self) -> Option<usize> {
        self.end(CLOSED).err()
    }
}

/// An enlisted arm, as held by the objects that may wake or claim it.
pub struct ArmHandle {
    selection: Arc<Selection>,
    arm: usize,
}

impl ArmHandle {
    /// Returns a handle that wakes the caller of the selection, for events that need no claim.
    pub(crate) fn wake_handle(&self) -> WakeHandle {
        self.selection.handle.clone()
    }

    pub(crate) fn wake(&self) {
        self.selection.handle.wake();
    }

    /// Claims this arm. Returns `false` if another arm was claimed, the selection is closed, or its
    /// caller is abandoned. The
    /// claimant exchanges the values before it unlocks the channel, and wakes the caller of the
    /// selection afterwards.
    pub(crate) fn claim(&self) -> bool {
        !self.selection.handle.is_abandoned() && self.selection.end(self.arm).is_ok()
    }

    /// Returns `true` if `other`, an arm of another selection, could claim this one.
    pub(crate) fn may_meet(&self, other: &ArmHandle) -> bool {
        !Arc::ptr_eq(&self.selection, &other.selection)
            && !self.selection.handle.is_abandoned()
            && self.selection.state.load(Ordering::Relaxed) == OPEN
    }
}

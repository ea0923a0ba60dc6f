//! The choice: one of several events, of which at most one takes or gives a value.
//!
//! ```text
//!   attempt    each event in turn, from a random one on: the first that is ready is chosen
//!   enlist     at each of them, from where the chooser is woken; if one has come, on to withdraw
//!   wait       until somebody wakes the chooser, or the next deadline
//!   withdraw   from all of them; then again from the top
//! ```
//!
//! Who wakes the chooser gives it nothing, so that it may still choose any: it attempts again. Only where
//! two sides must meet, at a channel that is full or a rendezvous, the other side *claims* the choice:
//!
//! ```text
//!            claim(arm), by whoever meets an arm that is enlisted, under the lock of its channel
//!   OPEN ------------------------------------------------------> arm: it is chosen, its exchange done
//!     \--------------------------------------------------------> CLOSED: nobody can claim it any more
//!            close, by the chooser before it withdraws
//! ```
//!
//! | who | does | wakes or claims |
//! | --- | --- | --- |
//! | a sender | puts a value into a queue with room, for a receiver that chooses | wakes it |
//! | a sender | meets a receiver that chooses, at a rendezvous | claims its arm, then wakes it |
//! | a receiver | takes the value of a sender that chooses out of the line | claims its arm, then wakes it |
//! | either end | goes | wakes whoever chooses at the other |
//! | the kernel | completes a poll of a descriptor, which is under way only during a wait | the chooser |
//! | time | passes the earliest deadline of the arms | the chooser |
//!
//! No wake-up is lost: an event is enlisted, and looked at, under the lock of what it is about. What came
//! before is seen, what comes after wakes. A poll that is begun beside what is ready completes at once.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::atomic::{AtomicUsize, Ordering};
use crate::fiber::WakeHandle;
use crate::sched::readiness::{self, PollOperation};
use crate::sched::{fast_rand, wait};

/// Something that may come, and that can be waited for.
pub trait Event {
    /// What comes.
    type Output;

    /// Takes what has come, if it has. Not enlisted.
    fn try_complete(&mut self) -> Option<Self::Output>;

    /// Lets the place be woken, or claimed, when an attempt may succeed; false, and nothing done, if it may
    /// already.
    fn enlist(&mut self, handle: ArmHandle) -> bool;

    /// Undoes that, also where nothing was done.
    fn withdraw(&mut self);

    /// What came by a claim. Instead of `withdraw`.
    fn claimed(&mut self) -> Self::Output {
        unreachable!("nobody claims it")
    }

    /// By when it will have come.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// What the kernel can be asked to wait for, if it is the kernel that knows of it. Enlisted.
    fn poll(&self) -> Option<PollOperation<'_>> {
        None
    }

    /// The kernel cannot: the next attempt succeeds, and says so.
    fn fail(&mut self, _: io::Error) {
        unreachable!("it has nothing to poll")
    }

    /// What a call returns as if the other side were gone.
    fn cut_off(&mut self) -> Self::Output;
}

/// One event of a choice, and what has come of it; see the example of [`take`](Arm::take).
#[derive(Debug)]
pub struct Arm<E: Event> {
    /// None if it is not to be waited for.
    event: Option<E>,
    output: Option<E::Output>,
}

impl<E: Event> Arm<E> {
    pub(crate) fn new(event: E) -> Arm<E> {
        Arm {
            event: Some(event),
            output: None,
        }
    }

    /// One that is never chosen.
    pub(crate) fn disabled() -> Arm<E> {
        Arm {
            event: None,
            output: None,
        }
    }

    /// What has come, if the arm was chosen.
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

/// Any [`Arm`]; see the example of [`select`].
pub trait Select: AnyArm {}

impl<E: Event> Select for Arm<E> {}

/// What a choice does with an arm.
pub trait AnyArm {
    /// Whether it is to be waited for.
    fn is_enabled(&self) -> bool;
    /// Whether it has come, and is chosen.
    fn try_complete(&mut self) -> bool;
    /// See [`Event::enlist`].
    fn enlist(&mut self, handle: ArmHandle) -> bool;
    /// See [`Event::withdraw`].
    fn withdraw(&mut self);
    /// See [`Event::deadline`].
    fn deadline(&self) -> Option<Instant>;
    /// See [`Event::poll`].
    fn poll(&self) -> Option<PollOperation<'_>>;
    /// See [`Event::fail`].
    fn fail(&mut self, error: io::Error);
    /// It is chosen by a claim.
    fn accept(&mut self);
    /// It is chosen as the other side is gone.
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

/// How long to wait for an event.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Instant),
    Forever,
}

/// Waits until one of the arms has come, takes what has, and returns its index. Where several have, any of
/// them may be chosen; the others are left as they were.
///
/// This is what [`select!`](crate::select) calls; to be called where the number of arms is known at run
/// time only.
///
/// # Panics
///
/// When there is no arm to wait for.
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
    assert!(enabled, "there is no arm to wait for");
    select_within(arms, Patience::Forever).expect("it waits until one has come")
}

/// As [`select`], for so long at most; none if nothing has come by then.
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
    let deadline = wait::after(wait::now(), timeout);
    select_within(arms, Patience::Until(deadline))
}

/// As [`select`], without waiting; none if nothing has come.
///
/// ```
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<()>();
/// assert_eq!(select::try_select(&mut [&mut select::recv(&receiver)]), None);
/// ```
pub fn try_select(arms: &mut [&mut dyn Select]) -> Option<usize> {
    select_within(arms, Patience::None)
}

fn select_within(arms: &mut [&mut dyn Select], patience: Patience) -> Option<usize> {
    wait::spend_turn();
    let mut selection = None;
    loop {
        let cancelled = wait::is_cancelled();
        let first = fast_rand::below(arms.len());
        let mut order = (first..arms.len()).chain(0..first);
        if let Some(chosen) = order.find(|&index| arms[index].try_complete()) {
            return Some(chosen);
        }
        if cancelled && !matches!(patience, Patience::None) {
            return cut_off(arms, patience);
        }
        let over = match patience {
            Patience::None => true,
            Patience::Until(deadline) => wait::now() >= deadline,
            Patience::Forever => false,
        };
        if over {
            return None;
        }
        if selection.is_none() {
            selection = begin(arms);
        }
        if let Some(selection) = &selection
            && let Some(claimed) = await_change(arms, selection, patience)
        {
            return Some(claimed);
        }
    }
}

/// Makes what the arms are enlisted with; none where that fails, and an arm says so.
fn begin(arms: &mut [&mut dyn Select]) -> Option<Arc<Selection>> {
    let Some(polled) = arms.iter().position(|arm| arm.poll().is_some()) else {
        return Some(Selection::new(wait::wake_handle()));
    };
    match readiness::wake_handle() {
        Ok(waiter) => Some(Selection::new(waiter)),
        Err(error) => {
            arms[polled].fail(error);
            None
        }
    }
}

/// Ends the choice of who may not wait. In a destructor, which cannot be unwound, the first arm comes as if
/// its other side were gone. A wait that has an end comes to that.
#[cold]
fn cut_off(arms: &mut [&mut dyn Select], patience: Patience) -> Option<usize> {
    if let Patience::Until(_) = patience {
        wait::count_early_end();
        return None;
    }
    wait::unwind_if_cancelled();
    let chosen = arms.iter().position(|arm| arm.is_enabled())?;
    arms[chosen].cut_off();
    Some(chosen)
}

/// Waits until an arm may have come; the one that was claimed. Returns with nobody knowing of the choice
/// any more.
fn await_change(
    arms: &mut [&mut dyn Select],
    selection: &Arc<Selection>,
    patience: Patience,
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
        let until = match patience {
            Patience::Until(deadline) => Some(deadline),
            Patience::None | Patience::Forever => None,
        };
        let deadline = deadlines.chain(until).min();
        park(arms, &selection.handle, deadline);
    }
    let claimed = selection.close();
    for (index, arm) in arms[..enlisted].iter_mut().enumerate() {
        match claimed == Some(index) {
            true => arm.accept(),
            false => arm.withdraw(),
        }
    }
    claimed
}

/// Waits for a wake-up, or for what the kernel knows.
fn park(arms: &mut [&mut dyn Select], handle: &WakeHandle, deadline: Option<Instant>) {
    let polled = arms.iter().enumerate();
    let polled = polled.filter_map(|(index, arm)| arm.poll().map(|poll| (index, poll)));
    let (indices, mut polls): (Vec<_>, Vec<_>) = polled.unzip();
    if polls.is_empty() {
        return wait::park_unless_over(deadline);
    }
    if let Err((position, error)) = readiness::park(handle, &mut polls, deadline) {
        drop(polls);
        arms[indices[position]].fail(error);
    }
}

/// Who chooses, and whether somebody has chosen for it.
pub(crate) struct Selection {
    handle: WakeHandle,
    /// OPEN, CLOSED, or the arm that was claimed.
    state: AtomicUsize,
}

const OPEN: usize = usize::MAX;
const CLOSED: usize = usize::MAX - 1;

// Relaxed throughout: a claim is made and its exchange done under the lock of the channel, which the chooser
// takes before it looks. All that matters here is that only one comes first.
impl Selection {
    fn new(handle: WakeHandle) -> Arc<Selection> {
        Arc::new(Selection {
            handle,
            state: AtomicUsize::new(CLOSED),
        })
    }

    /// Called while no arm is enlisted.
    fn open(&self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// Whether the caller is the first to end it.
    fn end(&self, state: usize) -> Result<usize, usize> {
        let (order, or_else) = (Ordering::Relaxed, Ordering::Relaxed);
        self.state.compare_exchange(OPEN, state, order, or_else)
    }

    /// The arm that was claimed before, if one was.
    fn close(&self) -> Option<usize> {
        self.end(CLOSED).err()
    }
}

/// An arm of a choice, as those keep it who may wake or claim it.
pub struct ArmHandle {
    selection: Arc<Selection>,
    arm: usize,
}

impl ArmHandle {
    /// Who chooses, where there is nothing to claim.
    pub(crate) fn wake_handle(&self) -> WakeHandle {
        self.selection.handle.clone()
    }

    pub(crate) fn wake(&self) {
        self.selection.handle.wake();
    }

    /// Chooses this arm, unless another was or the choice is over. The caller does the exchange before it
    /// unlocks, and wakes the chooser after that.
    pub(crate) fn claim(&self) -> bool {
        self.selection.end(self.arm).is_ok()
    }

    /// Whether `other`, an arm of another choice, could claim this one.
    pub(crate) fn may_meet(&self, other: &ArmHandle) -> bool {
        !Arc::ptr_eq(&self.selection, &other.selection)
            && self.selection.state.load(Ordering::Relaxed) == OPEN
    }
}

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
//!            claim(case), by whoever meets a case that is enlisted, under the lock of its channel
//!   OPEN ------------------------------------------------------> case: it is chosen, its exchange done
//!     \--------------------------------------------------------> CLOSED: nobody can claim it any more
//!            close, by the chooser before it withdraws
//! ```
//!
//! | who | does | wakes or claims |
//! | --- | --- | --- |
//! | a sender | puts a value into a queue with room, for a receiver that chooses | wakes it |
//! | a sender | meets a receiver that chooses, at a rendezvous | claims its case, then wakes it |
//! | a receiver | takes the value of a sender that chooses out of the line | claims its case, then wakes it |
//! | either end | goes | wakes whoever chooses at the other |
//! | the kernel | completes a poll of a descriptor, which is under way only during a wait | the chooser |
//! | time | passes the earliest deadline of the cases | the chooser |
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
    fn attempt(&mut self) -> Option<Self::Output>;

    /// Lets the place be woken, or claimed, when an attempt may succeed; false, and nothing done, if it may
    /// already.
    fn enlist(&mut self, place: Place) -> bool;

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

/// One event of a choice, and what has come of it; see the example of [`take`](Case::take).
#[derive(Debug)]
pub struct Case<E: Event> {
    /// None if it is not to be waited for.
    event: Option<E>,
    output: Option<E::Output>,
}

impl<E: Event> Case<E> {
    pub(crate) fn new(event: E) -> Case<E> {
        Case {
            event: Some(event),
            output: None,
        }
    }

    /// One that is never chosen.
    pub(crate) fn disabled() -> Case<E> {
        Case {
            event: None,
            output: None,
        }
    }

    /// What has come, if the case was chosen.
    ///
    /// ```
    /// use uthread::sync::{mpsc, select};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// sender.send(1).unwrap();
    /// let mut case = select::recv(&receiver);
    /// select::choose(&mut [&mut case]);
    /// assert_eq!(case.take(), Some(Ok(1)));
    /// ```
    pub fn take(&mut self) -> Option<E::Output> {
        self.output.take()
    }
}

/// Any [`Case`]; see the example of [`choose`].
pub trait Choice: Candidate {}

impl<E: Event> Choice for Case<E> {}

/// What a choice does with a case.
pub trait Candidate {
    /// Whether it is to be waited for.
    fn is_enabled(&self) -> bool;
    /// Whether it has come, and is chosen.
    fn attempt(&mut self) -> bool;
    /// See [`Event::enlist`].
    fn enlist(&mut self, place: Place) -> bool;
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

impl<E: Event> Candidate for Case<E> {
    fn is_enabled(&self) -> bool {
        self.event.is_some()
    }

    fn attempt(&mut self) -> bool {
        self.output = self.event.as_mut().and_then(Event::attempt);
        self.output.is_some()
    }

    fn enlist(&mut self, place: Place) -> bool {
        let event = self.event.as_mut();
        event.is_none_or(|event| event.enlist(place))
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

/// Waits until one of the cases has come, takes what has, and returns its index. Where several have, any of
/// them may be chosen; the others are left as they were.
///
/// This is what [`select!`](crate::select) calls; to be called where the number of cases is known at run
/// time only.
///
/// # Panics
///
/// When there is no case to wait for.
///
/// ```
/// use uthread::sync::{mpsc, select};
///
/// let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel()).unzip();
/// let sender = senders[1].clone();
/// uthread::spawn(move || sender.send("from the second").unwrap());
/// let mut cases: Vec<_> = receivers.iter().map(select::recv).collect();
/// let mut choices: Vec<_> = cases.iter_mut().map(|case| case as &mut dyn select::Choice).collect();
/// let index = select::choose(&mut choices);
/// assert_eq!(cases[index].take(), Some(Ok("from the second")));
/// # assert_eq!(index, 1);
/// ```
pub fn choose(cases: &mut [&mut dyn Choice]) -> usize {
    let enabled = cases.iter().any(|case| case.is_enabled());
    assert!(enabled, "there is no case to wait for");
    choose_within(cases, Patience::Forever).expect("it waits until one has come")
}

/// As [`choose`], for so long at most; none if nothing has come by then.
///
/// ```
/// use std::time::Duration;
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<()>();
/// let soon = Duration::from_millis(1);
/// assert_eq!(select::choose_timeout(&mut [&mut select::recv(&receiver)], soon), None);
/// ```
pub fn choose_timeout(cases: &mut [&mut dyn Choice], timeout: Duration) -> Option<usize> {
    let deadline = wait::after(wait::now(), timeout);
    choose_within(cases, Patience::Until(deadline))
}

/// As [`choose`], without waiting; none if nothing has come.
///
/// ```
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<()>();
/// assert_eq!(select::try_choose(&mut [&mut select::recv(&receiver)]), None);
/// ```
pub fn try_choose(cases: &mut [&mut dyn Choice]) -> Option<usize> {
    choose_within(cases, Patience::None)
}

fn choose_within(cases: &mut [&mut dyn Choice], patience: Patience) -> Option<usize> {
    wait::spend_turn();
    let mut selection = None;
    loop {
        let cancelled = wait::is_cancelled();
        let first = fast_rand::below(cases.len());
        let mut order = (first..cases.len()).chain(0..first);
        if let Some(chosen) = order.find(|&index| cases[index].attempt()) {
            return Some(chosen);
        }
        if cancelled && !matches!(patience, Patience::None) {
            return cut_off(cases, patience);
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
            selection = begin(cases);
        }
        if let Some(selection) = &selection
            && let Some(claimed) = await_change(cases, selection, patience)
        {
            return Some(claimed);
        }
    }
}

/// Makes what the cases are enlisted with; none where that fails, and a case says so.
fn begin(cases: &mut [&mut dyn Choice]) -> Option<Arc<Selection>> {
    let Some(polled) = cases.iter().position(|case| case.poll().is_some()) else {
        return Some(Selection::new(wait::wake_handle()));
    };
    match readiness::wake_handle() {
        Ok(waiter) => Some(Selection::new(waiter)),
        Err(error) => {
            cases[polled].fail(error);
            None
        }
    }
}

/// Ends the choice of who may not wait. In a destructor, which cannot be unwound, the first case comes as if
/// its other side were gone. A wait that has an end comes to that.
#[cold]
fn cut_off(cases: &mut [&mut dyn Choice], patience: Patience) -> Option<usize> {
    if let Patience::Until(_) = patience {
        wait::note_early_end();
        return None;
    }
    wait::unwind_if_cancelled();
    let chosen = cases.iter().position(|case| case.is_enabled())?;
    cases[chosen].cut_off();
    Some(chosen)
}

/// Waits until a case may have come; the one that was claimed. Returns with nobody knowing of the choice
/// any more.
fn await_change(
    cases: &mut [&mut dyn Choice],
    selection: &Arc<Selection>,
    patience: Patience,
) -> Option<usize> {
    selection.open();
    let mut enlisted = 0;
    let nothing_yet = cases.iter_mut().enumerate().all(|(index, case)| {
        enlisted = index + 1;
        let place = Place {
            selection: Arc::clone(selection),
            case: index,
        };
        case.enlist(place)
    });
    if nothing_yet {
        let deadlines = cases.iter().filter_map(|case| case.deadline());
        let until = match patience {
            Patience::Until(deadline) => Some(deadline),
            Patience::None | Patience::Forever => None,
        };
        let deadline = deadlines.chain(until).min();
        park(cases, &selection.chooser, deadline);
    }
    let claimed = selection.close();
    for (index, case) in cases[..enlisted].iter_mut().enumerate() {
        match claimed == Some(index) {
            true => case.accept(),
            false => case.withdraw(),
        }
    }
    claimed
}

/// Waits for a wake-up, or for what the kernel knows.
fn park(cases: &mut [&mut dyn Choice], chooser: &WakeHandle, deadline: Option<Instant>) {
    let polled = cases.iter().enumerate();
    let polled = polled.filter_map(|(index, case)| case.poll().map(|poll| (index, poll)));
    let (indices, mut polls): (Vec<_>, Vec<_>) = polled.unzip();
    if polls.is_empty() {
        return wait::park_unless_over(deadline);
    }
    if let Err((position, error)) = readiness::park(chooser, &mut polls, deadline) {
        drop(polls);
        cases[indices[position]].fail(error);
    }
}

/// Who chooses, and whether somebody has chosen for it.
pub(crate) struct Selection {
    chooser: WakeHandle,
    /// OPEN, CLOSED, or the case that was claimed.
    state: AtomicUsize,
}

const OPEN: usize = usize::MAX;
const CLOSED: usize = usize::MAX - 1;

// Relaxed throughout: a claim is made and its exchange done under the lock of the channel, which the chooser
// takes before it looks. All that matters here is that only one comes first.
impl Selection {
    fn new(chooser: WakeHandle) -> Arc<Selection> {
        Arc::new(Selection {
            chooser,
            state: AtomicUsize::new(CLOSED),
        })
    }

    /// Called while no case is enlisted.
    fn open(&self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// Whether the caller is the first to end it.
    fn end(&self, state: usize) -> Result<usize, usize> {
        let (order, or_else) = (Ordering::Relaxed, Ordering::Relaxed);
        self.state.compare_exchange(OPEN, state, order, or_else)
    }

    /// The case that was claimed before, if one was.
    fn close(&self) -> Option<usize> {
        self.end(CLOSED).err()
    }
}

/// A case of a choice, as those keep it who may wake or claim it.
pub struct Place {
    selection: Arc<Selection>,
    case: usize,
}

impl Place {
    /// Who chooses, where there is nothing to claim.
    pub(crate) fn wake_handle(&self) -> WakeHandle {
        self.selection.chooser.clone()
    }

    pub(crate) fn wake(&self) {
        self.selection.chooser.wake();
    }

    /// Chooses this case, unless another was or the choice is over. The caller does the exchange before it
    /// unlocks, and wakes the chooser after that.
    pub(crate) fn claim(&self) -> bool {
        self.selection.end(self.case).is_ok()
    }

    /// Whether `other`, a case of another choice, could claim this one.
    pub(crate) fn may_meet(&self, other: &Place) -> bool {
        !Arc::ptr_eq(&self.selection, &other.selection)
            && self.selection.state.load(Ordering::Relaxed) == OPEN
    }
}

//! Times as arms of a selection.

use std::time::{Duration, Instant};

use crate::sched::caller;
use crate::sync::selection::{Arm, ArmHandle, Event};
use crate::time::Interval;

/// Creates an arm that is ready when `duration` has passed since this call.
///
/// ```
/// use std::time::Duration;
/// use uthread::sync::mpsc;
///
/// let (_sender, receiver) = mpsc::channel::<()>();
/// let heartbeat = Duration::from_millis(1);
/// uthread::select! {
///     recv(&receiver) => unreachable!("no message is sent"),
///     after(heartbeat) => {}
/// }
/// ```
pub fn after(duration: Duration) -> Arm<Time> {
    at(caller::after(caller::now(), duration))
}

/// Creates an arm that is ready at `instant`.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let (sender, receiver) = uthread::sync::mpsc::channel();
/// let deadline = Instant::now() + Duration::from_secs(60);
/// (0..3).for_each(|number| sender.send(number).unwrap());
/// drop(sender);
/// let mut sum = 0;
/// loop {
///     uthread::select! {
///         recv(&receiver) -> number => match number {
///             Ok(number) => sum += number,
///             Err(_) => break,
///         },
///         at(deadline) => panic!("the messages took a minute"),
///     }
/// }
/// assert_eq!(sum, 3);
/// ```
pub fn at(instant: Instant) -> Arm<Time> {
    Arm::new(Time(instant))
}

/// Creates an arm that is ready when the next event of an interval is due. Its result is the time
/// at which it was due.
///
/// An event that becomes due while another arm is selected is kept for the next selection. If
/// several do, only the last is kept.
///
/// ```
/// use uthread::time::{Duration, Instant, interval};
///
/// let start = Instant::now();
/// let mut ticks = interval(Duration::from_millis(1));
/// for _ in 0..3 {
///     uthread::select! {
///         tick(&mut ticks) -> due => assert!(due <= Instant::now()),
///     }
/// }
/// assert!(start.elapsed() >= Duration::from_millis(3));
/// ```
pub fn tick(interval: &mut Interval) -> Arm<Tick<'_>> {
    Arm::new(Tick(interval))
}

/// The event of [`at`].
pub struct Time(Instant);

impl Event for Time {
    type Output = ();

    fn try_complete(&mut self) -> Option<()> {
        (caller::now() >= self.0).then_some(())
    }

    fn enlist(&mut self, _: ArmHandle) -> bool {
        true
    }

    fn withdraw(&mut self) {}

    fn deadline(&self) -> Option<Instant> {
        Some(self.0)
    }

    fn cut_off(&mut self) {}
}

/// The event of [`tick`].
pub struct Tick<'a>(&'a mut Interval);

impl Event for Tick<'_> {
    type Output = Instant;

    fn try_complete(&mut self) -> Option<Instant> {
        self.0.take_due(caller::now())
    }

    fn enlist(&mut self, _: ArmHandle) -> bool {
        true
    }

    fn withdraw(&mut self) {}

    fn deadline(&self) -> Option<Instant> {
        Some(self.0.following())
    }

    fn cut_off(&mut self) -> Instant {
        self.0.following()
    }
}

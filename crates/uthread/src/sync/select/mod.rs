//! Waiting for one of several: messages, room for them, times, readiness. [`select!`](crate::select) is the
//! way to write it.
//!
//! The arms of [`select!`](crate::select) are calls of the functions of this module, each of which makes a
//! [`Arm`]. Where the number of arms is known at run time only, call them by hand, and then [`select`].
//!
//! | arm | has come when | gives |
//! | --- | --- | --- |
//! | [`recv(&receiver)`](recv) | the receiver has a value, or its senders are gone | what its `recv` returns |
//! | [`wait(&waiter)`](wait) | the promise is set or broken | what its `wait` returns |
//! | [`send(&sender, &mut value)`](send) | the channel has room, or its receiver is gone | what its `send` returns |
//! | [`readable(&socket)`](readable), [`writable(&socket)`](writable) | it is, or has an error or an end to tell; for anything with a descriptor | `io::Result<()>` |
//! | [`after(duration)`](after), [`at(instant)`](at) | the time has | `()` |
//! | [`tick(&mut interval)`](tick) | the next event of the interval is due | when that was |

mod arms;
mod readiness;
mod select_macro;
mod times;

pub use arms::{Arm, Select, select, select_timeout, try_select};
pub(crate) use arms::{ArmHandle, Event};
pub use times::{after, at, tick};

pub use readiness::{readable, writable};

use super::promise::{self, Settled, Waiter};

/// The arm that a receiver has something: a value, or the word that none comes any more.
///
/// Takes `&mpsc::Receiver`, `&mut oneshot::Receiver` or `&mut broadcast::Receiver`, and gives what the `recv`
/// of each returns.
///
/// ```
/// use uthread::sync::{mpsc, oneshot};
///
/// let (sender, requests) = mpsc::channel();
/// let (_stop, mut stopped) = oneshot::channel::<()>();
/// uthread::spawn(move || sender.send(1).unwrap());
/// uthread::select! {
///     recv(&requests) -> request => assert_eq!(request, Ok(1)),
///     recv(&mut stopped) => unreachable!("nobody stops it"),
/// }
/// ```
///
/// Two fibers cannot wait at one receiver:
///
/// ```compile_fail,E0277
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<i32>();
/// uthread::scope(|scope| {
///     scope.spawn(|| select::try_select(&mut [&mut select::recv(&receiver)]));
///     scope.spawn(|| select::try_select(&mut [&mut select::recv(&receiver)]));
/// });
/// ```
///
/// Nor can an arm be given away while the receiver is used on:
///
/// ```compile_fail,E0277
/// use uthread::sync::{mpsc, select};
///
/// let (_sender, receiver) = mpsc::channel::<i32>();
/// let mut arm = select::recv(&receiver);
/// uthread::scope(|scope| {
///     scope.spawn(move || select::select(&mut [&mut arm]));
///     receiver.recv().unwrap();
/// });
/// ```
pub fn recv<R: Receive>(receiver: R) -> Arm<R::Event> {
    Arm::new(receiver.event())
}

/// What a value can be received from; see the example of [`recv`].
pub trait Receive {
    /// That something comes.
    type Event: Event;

    /// Its event.
    #[doc(hidden)]
    fn event(self) -> Self::Event;
}

/// The arm that a promise is set, or broken.
///
/// ```
/// use std::time::Duration;
/// use uthread::sync::promise;
///
/// let (promise, waiter) = promise::channel();
/// uthread::spawn(move || promise.set("in time"));
/// uthread::select! {
///     wait(&waiter) -> value => assert_eq!(value, Ok(&"in time")),
///     after(Duration::from_secs(60)) => panic!("nothing came"),
/// }
/// ```
pub fn wait<T>(waiter: &Waiter<T>) -> Arm<Settled<'_, T>> {
    promise::arm(waiter)
}

/// The arm that a value can be sent without waiting: it takes the value out of the `Option`, and gives what
/// the sender's `send` returns. If another arm is chosen the value stays. Without a value it never comes.
///
/// ```
/// let (sender, receiver) = uthread::sync::mpsc::sync_channel(1);
/// let mut value = Some("first");
/// uthread::select! {
///     send(&sender, &mut value) -> sent => sent.unwrap(),
/// }
/// assert_eq!(value, None);
/// value = Some("second");
/// uthread::select! {
///     send(&sender, &mut value) => unreachable!("it is full"),
///     default => assert_eq!(value, Some("second")),
/// }
/// assert_eq!(receiver.recv(), Ok("first"));
/// ```
pub fn send<'a, S: Transmit<'a, T>, T>(sender: S, value: &'a mut Option<T>) -> Arm<S::Event> {
    match value {
        Some(_) => Arm::new(sender.event(value)),
        None => Arm::disabled(),
    }
}

/// What a value can be sent to; see the example of [`send`].
pub trait Transmit<'a, T> {
    /// That it was sent.
    type Event: Event;

    /// Its event.
    #[doc(hidden)]
    fn event(self, value: &'a mut Option<T>) -> Self::Event;
}

/// The arm, or one that is never chosen: what [`select!`](crate::select) calls for an arm with a condition.
#[doc(hidden)]
pub fn guarded<E: Event>(arm: Option<Arm<E>>) -> Arm<E> {
    arm.unwrap_or_else(Arm::disabled)
}

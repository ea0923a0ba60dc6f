//! Waiting for one of several events: messages, signals, space in a channel, times, readiness, ends
//! of fibers and processes. Usually written with [`select!`](crate::select).
//!
//! The arms of [`select!`](crate::select) are calls of the functions of this module, which return
//! [`Arm`]s. If the number of arms is only known at run time, call these functions and then
//! [`select`].
//!
//! | arm | is ready when | result |
//! | --- | --- | --- |
//! | [`recv(&receiver)`](recv) | the receiver has a value, or its senders are gone | the result of its `recv` |
//! | [`wait(&waiter)`](wait) | the promise is set or broken | the result of its `wait` |
//! | [`changed(&mut receiver)`](changed) | a watch channel has a value that the receiver has not seen, or its senders are gone | the result of its `changed` |
//! | [`send(&sender, &mut value)`](send) | the channel has space, or its receiver is gone | the result of its `send` |
//! | [`readable(&socket)`](readable), [`writable(&socket)`](writable) | the descriptor is ready, or has an error or a hang-up | `io::Result<()>` |
//! | [`ended(&mut handle)`](ended) | the fiber has ended | `()` |
//! | [`join_next(&mut set)`](join_next) | a fiber of a set has ended | the result of the fiber |
//! | [`exited(&child)`](exited) | the child process has terminated | `io::Result<()>` |
//! | [`cancelled()`](cancelled) | the caller is cancelled, or its deadline has passed | `()` |
//! | [`after(duration)`](after), [`at(instant)`](at) | the time has come | `()` |
//! | [`tick(&mut interval)`](tick) | the next event of the interval is due | the time at which it was due |

mod ends;
mod readiness;
mod select_macro;
mod times;

pub use super::selection::{Arm, Select, select, select_timeout, try_select};
pub use ends::{cancelled, ended, exited, join_next};
pub use readiness::{readable, writable};
pub use times::{after, at, tick};

use super::change::Change;
use super::promise::Waiter;
use super::selection::{Event, Receive, Transmit};
use super::watch;

/// Creates an arm that is ready when a receiver has a value or its senders are gone.
///
/// `receiver` is an `&mpsc::Receiver`, `&mpmc::Receiver`, `&mut oneshot::Receiver`,
/// `&mut broadcast::Receiver` or `&mut` [`Signals`](crate::signal::Signals). The result is that of
/// its `recv`.
///
/// ```
/// use uthread::sync::{mpsc, oneshot};
///
/// let (sender, requests) = mpsc::channel();
/// let (_stop, mut stopped) = oneshot::channel::<()>();
/// uthread::spawn(move || sender.send(1).unwrap());
/// uthread::select! {
///     recv(&requests) -> request => assert_eq!(request, Ok(1)),
///     recv(&mut stopped) => unreachable!("no message is sent"),
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
/// An arm that borrows a receiver cannot be moved to another fiber while the receiver is used:
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

/// Creates an arm that is ready when a promise is set or broken.
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
pub fn wait<T>(waiter: &Waiter<T>) -> Arm<Change<&Waiter<T>>> {
    Arm::new(Change::new(waiter))
}

/// Creates an arm that is ready when a [`watch`](mod@super::watch) channel has a value that the
/// receiver has not seen, or its senders are gone. If the arm is selected, the value counts as
/// seen.
///
/// ```
/// use std::time::Duration;
/// use uthread::sync::watch;
///
/// let (sender, mut level) = watch::channel(1);
/// uthread::spawn(move || sender.send(2).unwrap());
/// uthread::select! {
///     changed(&mut level) -> new => assert_eq!(new.as_deref(), Ok(&2)),
///     after(Duration::from_secs(60)) => panic!("nothing came"),
/// }
/// ```
pub fn changed<T>(receiver: &mut watch::Receiver<T>) -> Arm<Change<&mut watch::Receiver<T>>> {
    Arm::new(Change::new(receiver))
}

/// Creates an arm that is ready when a value can be sent without waiting.
///
/// If the arm is selected, it takes the value out of the `Option` and its result is that of the
/// sender's `send`. If another arm is selected, the value stays. If there is no value, the arm is
/// never selected.
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
///     send(&sender, &mut value) => unreachable!("the channel is full"),
///     default => assert_eq!(value, Some("second")),
/// }
/// assert_eq!(receiver.recv(), Ok("first"));
/// ```
///
/// `sender` is an `&mpsc::Sender`, `&mpsc::SyncSender` or `&mpmc::Sender`.
pub fn send<'a, S: Transmit<'a, T>, T>(sender: S, value: &'a mut Option<T>) -> Arm<S::Event> {
    match value {
        Some(_) => Arm::new(sender.event(value)),
        None => Arm::disabled(),
    }
}

/// Returns the arm, or one that is never selected. [`select!`](crate::select) calls this for an arm
/// with a condition.
#[doc(hidden)]
pub fn guarded<E: Event>(arm: Option<Arm<E>>) -> Arm<E> {
    arm.unwrap_or_else(Arm::disabled)
}

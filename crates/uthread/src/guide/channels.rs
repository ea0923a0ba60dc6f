//! Channels, and `select!` to wait for several events at once.
//!
//! All channels connect fibers and threads in any mix. A `recv` or `send` that waits suspends the fiber.
//!
//! # Choose a channel
//!
//! | channel | senders | receivers | a value is | a full channel |
//! | --- | --- | --- | --- | --- |
//! | [`mpsc::channel`](crate::sync::mpsc::channel) | many | one | received once | is never full: use it only if something else bounds the number of values |
//! | [`mpsc::sync_channel(bound)`](crate::sync::mpsc::sync_channel) | many | one | received once | makes the sender wait; with bound 0, until the value is received |
//! | [`mpmc::channel`](crate::sync::mpmc::channel), [`mpmc::sync_channel(bound)`](crate::sync::mpmc::sync_channel) | many | many | received once, by one of the receivers | as with `mpsc` |
//! | [`oneshot::channel`](crate::sync::oneshot::channel) | one | one | sent once, received once | |
//! | [`promise::channel`](crate::sync::promise::channel) | one | many | set once, borrowed by all | |
//! | [`broadcast::channel(capacity)`](crate::sync::broadcast::channel) | many | many | received by all | drops the oldest value, and tells slow receivers how many they missed |
//! | [`watch::channel(initial)`](crate::sync::watch::channel) | many | many | seen by all, unless it is replaced before | keeps only the latest value |
//!
//! When all senders are gone, `recv` returns an error after the last value. When the receiver is gone, `send` returns the value in an
//! error.
//!
//! # A worker with a queue
//!
//! A bounded channel slows down producers that are faster than the consumer. The loop ends when the last sender is dropped:
//!
//! ```
//! use uthread::sync::mpsc::sync_channel;
//!
//! let (sender, jobs) = sync_channel::<u32>(16);
//! let worker = uthread::spawn(move || jobs.iter().sum::<u32>());
//! uthread::scope(|scope| {
//!     for producer in 0..4 {
//!         let sender = sender.clone();
//!         scope.spawn(move || {
//!             for job in 0..100 {
//!                 sender.send(producer * 100 + job).unwrap();
//!             }
//!         });
//!     }
//! });
//! drop(sender);
//! assert_eq!(worker.join().unwrap(), (0..400).sum());
//! ```
//!
//! # Request and response
//!
//! Send a `oneshot` sender along with the request:
//!
//! ```
//! use uthread::sync::{mpsc, oneshot};
//!
//! struct Lookup {
//!     name: &'static str,
//!     reply: oneshot::Sender<Option<u32>>,
//! }
//!
//! let (requests, inbox) = mpsc::sync_channel::<Lookup>(16);
//! uthread::spawn(move || {
//!     for Lookup { name, reply } in inbox {
//!         // An error means that the requester has stopped waiting.
//!         let _ = reply.send((name == "answer").then_some(42));
//!     }
//! });
//!
//! let (reply, response) = oneshot::channel();
//! requests.send(Lookup { name: "answer", reply }).unwrap();
//! assert_eq!(response.recv(), Ok(Some(42)));
//! ```
//!
//! # Wait for several events
//!
//! [`select!`](crate::select) waits until one of its arms is ready, and runs the body of exactly this arm. Only this arm receives or sends
//! anything. If several arms are ready, it picks one at random, so that none starves.
//!
//! ```
//! use std::time::Duration;
//! use uthread::select;
//! use uthread::sync::{mpsc, oneshot};
//!
//! let (sender, messages) = mpsc::channel();
//! let (stop, mut stopped) = oneshot::channel::<()>();
//! let counter = uthread::spawn(move || {
//!     let mut count = 0;
//!     loop {
//!         select! {
//!             recv(&messages) -> message => match message {
//!                 Ok(()) => count += 1,
//!                 Err(_) => return count, // All senders are gone.
//!             },
//!             recv(&mut stopped) => return count,
//!             after(Duration::from_secs(60)) => panic!("no message for a minute"),
//!         }
//!     }
//! });
//! sender.send(()).unwrap();
//! sender.send(()).unwrap();
//! drop(sender);
//! assert_eq!(counter.join().unwrap(), 2);
//! # drop(stop);
//! ```
//!
//! The arms:
//!
//! | arm | ready when | result |
//! | --- | --- | --- |
//! | [`recv(&receiver)`](crate::sync::select::recv) | a value has arrived, or all senders are gone | that of `recv` |
//! | [`send(&sender, &mut value)`](crate::sync::select::send) | the channel has room, or the receiver is gone | that of `send`; `value` is an `Option`, and stays if another arm runs |
//! | [`wait(&waiter)`](crate::sync::select::wait) | the promise is set or broken | that of `wait` |
//! | [`changed(&mut receiver)`](crate::sync::select::changed) | a watch channel has a value that the receiver has not seen, or all senders are gone | that of `changed` |
//! | [`readable(&socket)`](crate::sync::select::readable), [`writable(&socket)`](crate::sync::select::writable) | the descriptor is ready, or has an error | `io::Result<()>`; the body reads or writes |
//! | [`after(duration)`](crate::sync::select::after), [`at(instant)`](crate::sync::select::at) | the time is over | `()` |
//! | [`tick(&mut interval)`](crate::sync::select::tick) | the next tick is due | when it was due |
//! | `default` | no other arm is ready: `select!` does not wait | |
//! | `default(duration)` | no other arm became ready for so long | |
//!
//! `arm -> pattern if condition => body` includes the arm only if the condition holds.
//!
//! # Sockets in `select!`
//!
//! `readable` reads nothing, so no byte is lost if another arm runs. A connection that is pushed messages, and closes when the client
//! sends anything or disconnects:
//!
//! ```
//! use std::io::{self, Read, Write};
//! use uthread::net::{TcpListener, TcpStream};
//! use uthread::select;
//! use uthread::sync::mpsc;
//!
//! fn push(mut stream: TcpStream, messages: mpsc::Receiver<&str>) -> io::Result<()> {
//!     loop {
//!         select! {
//!             recv(&messages) -> message => match message {
//!                 Ok(message) => stream.write_all(message.as_bytes())?,
//!                 Err(_) => return Ok(()),
//!             },
//!             readable(&stream) -> ready => return ready,
//!         }
//!     }
//! }
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let mut client = TcpStream::connect(listener.local_addr()?)?;
//! let (stream, _) = listener.accept()?;
//! let (sender, messages) = mpsc::channel();
//! let pusher = uthread::spawn(move || push(stream, messages));
//! sender.send("news").unwrap();
//! client.read_exact(&mut [0; 4])?;
//! drop(client);
//! pusher.join().unwrap()?; // The client disconnected.
//! # io::Result::Ok(())
//! ```
//!
//! # A number of arms known only at run time
//!
//! Build the arms with the functions of [`sync::select`](mod@crate::sync::select), and pass them to
//! [`select`](crate::sync::select::select()). It returns the index of the arm that is ready:
//!
//! ```
//! use uthread::sync::{mpsc, select};
//! use uthread::sync::select::Select;
//!
//! let (senders, receivers): (Vec<_>, Vec<_>) = (0..10).map(|_| mpsc::channel()).unzip();
//! senders[7].send("seven").unwrap();
//!
//! let mut arms: Vec<_> = receivers.iter().map(select::recv).collect();
//! let mut all: Vec<&mut dyn Select> = arms.iter_mut().map(|arm| arm as &mut dyn Select).collect();
//! let ready = select::select(&mut all);
//! assert_eq!((ready, arms[ready].take()), (7, Some(Ok("seven"))));
//! ```
//!
//! # Cancellation
//!
//! `recv`, `send` and `select!` unwind a cancelled fiber, because no error of theirs would be true; see
//! [`cancellation`](super::cancellation). `recv_timeout` returns its timeout error instead.
//!
//! ---
//!
//! [Previous: first server](super::first_server) | [Contents](super) | [Next: drivers](super::drivers)

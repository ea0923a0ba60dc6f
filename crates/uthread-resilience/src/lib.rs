//! Policies for calls that fail or take long: what keeps a service up while those it depends on are
//! slow, silent or down.
//!
//! | policy | what it does |
//! | --- | --- |
//! | [`Retry`] | repeats a failed call, after pauses that grow, within the caller's deadline |
//! | [`Budget`] | bounds the retries and hedges of all callers together to a share of their calls |
//! | [`Breaker`] | refuses calls for a while after a number of failures in a row |
//! | [`Bulkhead`] | bounds the calls in progress and those that wait for a turn |
//! | [`Limit`] | bounds the calls in progress by what their latency allows, and refuses the others |
//! | [`Hedge`] | makes the same call again if the first one takes long, and takes the first result |
//! | [`Endpoints`] | chooses one of several servers by load and health, or a few of them for each client |
//!
//! Each is an ordinary blocking call with a closure, so that they nest, the outermost first:
//!
//! ```
//! use std::io::{self, Read};
//! use std::time::Duration;
//! use uthread::net::{SocketAddr, TcpStream};
//! use uthread::time::try_timeout;
//! use uthread_resilience::{Breaker, Budget, Retry};
//!
//! struct Client {
//!     address: SocketAddr,
//!     retry: Retry,
//!     breaker: Breaker,
//! }
//!
//! impl Client {
//!     fn new(address: SocketAddr) -> Client {
//!         let budget = Budget::new(0.1);
//!         Client {
//!             address,
//!             retry: Retry::new(2).backoff(Duration::from_millis(50)).budget(&budget),
//!             breaker: Breaker::new(5, Duration::from_secs(1)),
//!         }
//!     }
//!
//!     /// Asks the server: at most one second, retries included.
//!     fn ask(&self) -> io::Result<String> {
//!         try_timeout(Duration::from_secs(1), || {
//!             self.retry.call(|| self.breaker.call(|| self.ask_once()))
//!         })
//!     }
//!
//!     fn ask_once(&self) -> io::Result<String> {
//!         let mut answer = String::new();
//!         TcpStream::connect(self.address)?.read_to_string(&mut answer)?;
//!         Ok(answer)
//!     }
//! }
//! # use std::io::Write;
//! # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
//! # let client = Client::new(listener.local_addr()?);
//! # uthread::spawn(move || listener.accept().unwrap().0.write_all(b"answer").unwrap());
//! # assert_eq!(client.ask()?, "answer");
//! # io::Result::Ok(())
//! ```
//!
//! A call that a policy does not make fails with [`Refused`], which the error of the closure is made from:
//! [`std::io::Error`] and boxed errors are.
//!
//! A caller that is [cancelled](uthread::guide::cancellation) gives its turn to another one, and its call is no
//! failure of a breaker; one whose deadline passes has waited too long, which is. The policies are also for
//! threads that are no fibers. `uthread model` simulates services with the same policies.

mod bulkhead;
mod endpoints;
mod hedge;
mod limit;
mod refused;

mod budget;

mod breaker;
mod retry;

pub use breaker::Breaker;
pub use budget::Budget;
pub use bulkhead::Bulkhead;
pub use endpoints::Endpoints;
pub use hedge::Hedge;
pub use limit::Limit;
pub use refused::Refused;
pub use retry::Retry;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a state that each change leaves valid, which a panic elsewhere cannot spoil.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

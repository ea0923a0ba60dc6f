//! For users of threads: what stays the same, and what to do differently.
//!
//! A fiber behaves like a thread of `std`: it has its own stack, name and id, it can be joined, scoped and parked, and a panic is its
//! result. [`uthread::thread`](crate::thread) has the names and signatures of [`std::thread`]. To convert a whole program, see
//! [`porting`](super::porting).
//!
//! # What is different
//!
//! | with threads | with fibers |
//! | --- | --- |
//! | a thread per connection is too expensive: use a pool | a fiber per connection is fine: spawn and forget |
//! | a bounded pool limits the load | a [`Semaphore`](crate::sync::Semaphore), a [`sync_channel`](crate::sync::mpsc::sync_channel) or [`net::serve`](crate::net::serve) limits the load |
//! | the kernel preempts a thread that computes | a fiber keeps its worker until it waits: call [`yield_now`](crate::yield_now) in long loops |
//! | any blocking call is fine | only calls of `uthread` suspend the fiber; others block the worker: see [`blocking`](super::blocking) |
//! | no way to stop a thread | [`JoinHandle::cancel`](crate::JoinHandle::cancel), [`timeout`](crate::timeout), [`try_scope`](crate::try_scope): see [`cancellation`](super::cancellation) |
//! | `thread_local!` is per thread | `thread_local!` is shared by the fibers of a worker; [`local!`](mod@crate::local) is per fiber |
//! | 2 MiB of stack | 256 KiB of stack (2 MiB in debug builds); see [`tuning`](super::tuning#stack-size) |
//! | `std::sync::Mutex` | [`uthread::sync::Mutex`](crate::sync::Mutex), which suspends the fiber and may be held across calls that wait |
//!
//! # Drop the pool
//!
//! A pool of threads exists because threads are expensive. With fibers, spawn one per task and bound the tasks in flight:
//!
//! ```
//! use std::sync::Arc;
//! use uthread::sync::Semaphore;
//!
//! let permits = Arc::new(Semaphore::new(4)); // At most four tasks at once.
//! let tasks: Vec<_> = (0..100)
//!     .map(|number| {
//!         let permit = Arc::clone(&permits).acquire_owned();
//!         uthread::spawn(move || {
//!             let _permit = permit;
//!             number * 2
//!         })
//!     })
//!     .collect();
//! let sum: i32 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
//! assert_eq!(sum, 9900);
//! ```
//!
//! # Borrow from the caller
//!
//! [`scope`](crate::scope) works as in `std`. [`join`](crate::join()) is the short form for two closures:
//!
//! ```
//! fn sum(numbers: &[u64]) -> u64 {
//!     if numbers.len() < 1000 {
//!         return numbers.iter().sum();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let (left, right) = uthread::join(|| sum(left), || sum(right));
//!     left + right
//! }
//!
//! let numbers: Vec<u64> = (1..=10_000).collect();
//! assert_eq!(uthread::run(|| sum(&numbers)), 50_005_000);
//! ```
//!
//! # Mix both
//!
//! Threads and fibers share the same locks and channels. On an ordinary thread each call of `uthread` blocks the thread, and
//! [`spawn`](crate::spawn) starts a fiber on a default runtime. So a program can move to fibers one part at a time:
//!
//! ```
//! use uthread::sync::mpsc;
//!
//! let (sender, receiver) = mpsc::channel();
//! let producer = std::thread::spawn(move || sender.send("from a thread"));
//! let consumer = uthread::spawn(move || receiver.recv());
//! assert_eq!(consumer.join().unwrap(), Ok("from a thread"));
//! producer.join().unwrap().unwrap();
//! ```
//!
//! ---
//!
//! [Previous: drivers](super::drivers) | [Contents](super) | [Next: from async](super::from_async)

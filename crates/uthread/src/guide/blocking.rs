//! What still blocks a worker, how one finds out, and what to do.
//!
//! A worker runs one fiber at a time. A call of this crate suspends its fiber, and the worker goes on with another. Whatever else
//! waits, waits together with the worker and all its fibers:
//!
//! | what | do |
//! | --- | --- |
//! | a call of `std` itself (`std::fs`, `std::net`, `std::thread::sleep`) | the same call of `uthread` |
//! | a lock, a channel, a condition variable of `std` or of another crate, held or waited for across a suspension | [`uthread::sync`](crate::sync) |
//! | a C library, a database client, `getaddrinfo` | [`blocking(\|\| ..)`](crate::blocking), which runs it on another thread |
//! | `println!` and `eprintln!` into a pipe that nobody reads | [`uthread::io::stdout`](crate::io::stdout), or let it be: they write to a terminal or a file |
//! | a computation of many milliseconds | [`yield_now`](crate::yield_now) in its loop, [`join`](crate::join) or `spawn` for its parts, `blocking` for what cannot be cut |
//! | the page faults of a mapped file | `blocking`, or read the file |
//!
//! Name resolution (`"example.org:80"` as an address), directory listings and whatever else the kernel offers no way to wait for
//! run on a thread of the pool already, without a word in the program. The pool has at most 64 threads; what comes above waits
//! its turn, for as long as its caller may: a call that no thread has begun ends with a [cancellation](crate::guide::cancellation)
//! or a deadline, and never runs.
//!
//! ```
//! // A library that blocks in a way of its own.
//! fn query() -> u32 {
//!     std::thread::sleep(std::time::Duration::from_millis(1));
//!     42
//! }
//!
//! let answer = uthread::spawn(|| uthread::blocking(query));
//! assert_eq!(answer.join().unwrap(), 42);
//! ```
//!
//! # How one finds out
//!
//! A fiber that keeps its worker for 100 ms while others wait is named on the standard error stream, with where it was spawned, at
//! most once a second; [`Builder::on_stall`](crate::Builder::on_stall) and
//! [`Builder::stall_threshold`](crate::Builder::stall_threshold) change both. [`Runtime::metrics`](crate::Runtime::metrics) counts
//! stalls per worker.
//!
//! `UTHREAD_DRIVER=threads` runs the same program with a thread of the system for each fiber: what hangs on workers and
//! not there blocks one.
//!
//! # Locks of std
//!
//! A guard of [`std::sync::Mutex`] that lives across a call that suspends leaves the lock taken while other fibers run. If one of
//! the same worker wants it, the worker waits for a fiber that only it could run: a deadlock. Short critical sections
//! without such a call inside are fine, and as fast as ever. For all others there is
//! [`uthread::sync::Mutex`](crate::sync::Mutex), which suspends the fiber that has to wait.
//!
//! # Calls that return at once
//!
//! A call that has its result need not suspend, so a loop of such calls could keep its worker. Channels let the others run after
//! 128 calls at the latest, and so does each call that only looks whether something has come: `try_lock`, `try_recv`,
//! `is_finished`, `try_wait`, `OnceLock::get`, `Once::is_completed`. A loop that reads an atomic calls none of these: let it call
//! [`yield_now`](crate::yield_now), or better wait. A loop over a file in the page cache goes through the driver and so gives
//! others their turn.

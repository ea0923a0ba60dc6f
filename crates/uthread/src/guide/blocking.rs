//! Calls that block a worker: how to find and to avoid them.
//!
//! A worker runs one fiber at a time. A call of this crate suspends its fiber, and the worker runs another one. Any other call that
//! blocks also blocks the worker, and with it all of its fibers:
//!
//! | what blocks | what to use instead |
//! | --- | --- |
//! | calls of `std`: `std::fs`, `std::net`, `std::thread::sleep` | the calls of the same names in `uthread` |
//! | locks, channels and condition variables of `std` or of another crate, held or waited for across a suspension | [`uthread::sync`](crate::sync) |
//! | C libraries, database clients, `getaddrinfo` | [`blocking(\|\| ..)`](crate::blocking), which runs them on another thread |
//! | the event loop of a library | a [dedicated](crate::thread::Builder::dedicated) fiber, which has a thread of its own |
//! | `println!` and `eprintln!` to a pipe that nobody reads | [`uthread::io::stdout`](crate::io::stdout); writing to a terminal or a file is fine |
//! | a computation of many milliseconds | [`yield_now`](crate::yield_now) in its loop, [`join`](crate::join) or `spawn` for its parts, or `blocking` if it cannot be split |
//! | page faults of a memory-mapped file | `blocking`, or read the file instead |
//!
//! Some operations have no non-blocking form in the kernel: resolving names (`"example.org:80"` as an address), listing
//! directories, and others. This crate runs them on threads of its own by itself. So that slow calls of one kind do not hold up another,
//! there are three pools:
//!
//! | pool | calls | threads, at most |
//! | --- | --- | --- |
//! | of each runtime | `blocking` | [`Builder::blocking_threads`](crate::Builder::blocking_threads), 512 by default |
//! | of the process | on files which the driver does not support | 64 |
//! | of the process | that wait for others: name resolution, file locks, the end of a thread or process | 512 |
//!
//! Further calls wait in a queue. A queued call ends early with a [cancellation](crate::guide::cancellation) or a deadline, and then never
//! runs. [`Runtime::metrics`](crate::Runtime::metrics) has the threads of each pool, the length of its queue, and how long calls have waited.
//!
//! ```
//! // A library that blocks by its own means.
//! fn query() -> u32 {
//!     std::thread::sleep(std::time::Duration::from_millis(1));
//!     42
//! }
//!
//! let answer = uthread::spawn(|| uthread::blocking(query));
//! assert_eq!(answer.join().unwrap(), 42);
//! ```
//!
//! # Code that blocks for its whole life
//!
//! The event loop of a library, an audio callback or a reader of a device would take a thread of a pool for good. Give it one of its
//! own instead: a [dedicated](crate::thread::Builder::dedicated) fiber runs on an OS thread, where all its calls block. It is joined,
//! cancelled and counted like any other fiber, and what it spawns runs on the workers.
//!
//! ```
//! use std::sync::mpsc;
//! use uthread::thread::Builder;
//!
//! let (commands, inbox) = mpsc::channel::<u32>();
//! let device = Builder::new().dedicated().spawn(move || inbox.iter().sum::<u32>())?;
//! let commanding = uthread::spawn(move || (1..=3).for_each(|command| commands.send(command).unwrap()));
//! commanding.join().unwrap();
//! assert_eq!(device.join().unwrap(), 6);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Fibers that may block
//!
//! With [`Builder::own_tls`](crate::Builder::own_tls) a fiber may block anywhere: in a lock or a channel of `std` or of another crate, in an
//! initializer that waits, in a database client or a C library. When a fiber has blocked its worker, or has computed, for half a
//! millisecond to a millisecond while others wait and no worker is idle, a *spare worker* goes on with them. The fiber keeps its thread, and once
//! it waits by a call of this crate, one of the workers rests again: as many as were asked for are at work. So a lock of `std` that a
//! suspended fiber holds is released, whoever waits for it, and a loop that computes for a minute delays nobody.
//!
//! ```
//! use std::sync::mpsc;
//!
//! let runtime = uthread::Runtime::builder().workers(1).own_tls(true).build()?;
//! runtime.run(|| {
//!     let (sender, receiver) = mpsc::channel();
//!     uthread::spawn(move || sender.send(42).unwrap());
//!     // Blocks the only worker; a spare one runs the other fiber.
//!     assert_eq!(receiver.recv(), Ok(42));
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`blocking`](crate::blocking) tells in advance, so that the others need not wait for the half millisecond; the call then runs on the fiber's own
//! thread and stack. A runtime has at most 256 spare workers, each with a thread and a ring. Beyond that, fibers that block keep
//! their workers, and the warning below tells of them.
//!
//! # Find what blocks
//!
//! When a fiber keeps its worker for 100 ms while others wait, a warning on the standard error stream names the fiber, where it was
//! spawned, and the system call in which it is blocked, at most once per second. While a panic prints its backtrace there is none. [`Builder::on_stall`](crate::Builder::on_stall) redirects the warning,
//! [`Builder::stall_threshold`](crate::Builder::stall_threshold) changes the time, and
//! [`Runtime::metrics`](crate::Runtime::metrics) counts stalls per worker.
//!
//! The feature `backtrace` adds the calls that have led to the system call, in the program and in its dependencies:
//!
//! ```toml
//! uthread = { version = "0.1", features = ["backtrace"] }
//! ```
//!
//! ```text
//! uthread: fiber 12 "fetch" (spawned at src/main.rs:31:5) has kept worker 0 for 101 ms while others wait, blocked in read: ...
//!    0: <std::fs::File as std::io::Read>::read
//!    1: client::Connection::receive
//!              at /src/client/connection.rs:88
//!    2: app::fetch
//!              at /src/app/main.rs:17
//! ```
//!
//! The field `backtrace` of [`Stall`](crate::Stall) passes them to a report of the program. The monitor finds them from outside: it reads the
//! stack of the blocked thread, which is not interrupted. Lines need debug information: `debug = "line-tables-only"` in the profile suffices. A
//! fiber that computes has no backtrace, and neither has one that has continued meanwhile. The backtrace ends early at code without
//! unwind information, as in most C libraries that are built for musl, and on aarch64 also in a call that does not save its return address.
//!
//! `UTHREAD_DRIVER=threads` runs the same program with one OS thread per fiber. A program that hangs on workers but not there
//! blocks a worker.
//!
//! # Locks of `std`
//!
//! A guard of [`std::sync::Mutex`] that lives across a call that suspends keeps the mutex locked while other fibers run. If another fiber
//! of the same worker locks it, the worker blocks, and the fiber that holds the guard never runs again: a deadlock.
//!
//! Short critical sections without a suspension inside are fine, and as fast as ever. For all others use
//! [`uthread::sync::Mutex`](crate::sync::Mutex), which suspends only the fiber that waits.
//!
//! # Calls that return immediately
//!
//! A call whose result is already there need not suspend, so a loop of such calls could keep its worker. These calls therefore yield
//! now and then:
//!
//! - Channel operations yield after at most 128 calls.
//! - So do calls that only check a state: `try_lock`, `try_recv`, `is_finished`, `try_wait`, `OnceLock::get`, `Once::is_completed`.
//! - Reads of files in the page cache go through the driver, which lets other fibers run.
//!
//! A loop that polls an atomic calls none of these. Call [`yield_now`](crate::yield_now) in it or, better, wait for an event.
//!
//! ---
//!
//! [Previous: items](super::items) | [Contents](super) | [Next: cancellation](super::cancellation)

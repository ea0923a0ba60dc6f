//! How to port a `std` program, and what behaves differently afterwards.
//!
//! Port a program by changing its imports. One command does it:
//!
//! ```sh
//! uthread port --main src
//! ```
//!
//! `uthread` is the program of the crate `uthread-cli`. The command
//!
//! - replaces paths of the modules below by paths of `uthread`, and splits imports that need both, such as `use std::{fmt, io}`;
//! - puts `#[uthread::main]` above `fn main`;
//! - lists the lines that need your attention.
//!
//! Comments and strings stay unchanged. Run `cargo fmt` afterwards to order the imports. `--check` only lists what would change.
//! `--tests` turns `#[test]` into `#[uthread::test]`, so that tests run in fibers, too. A crate of edition 2015 needs
//! `extern crate uthread;` in its root.
//!
//! Everything that a program imports from the ported modules exists in `uthread` under the same name, with the same signatures, errors and
//! guarantees. Types and functions that never block are re-exports of `std`'s; calls that block suspend the fiber instead.
//! [`items`](super::items) lists every item.
//!
//! `println!`, `eprintln!` and `thread_local!` stay as they are; see [`blocking`](super::blocking) and below.
//!
//! # Thread-locals
//!
//! The values of `thread_local!` belong to the worker, and all fibers of the worker share them. The values of
//! [`local!`](mod@crate::local) belong to the fiber. Caches and counters may stay in `thread_local!`. Anything that represents *the
//! current thread* must move to `local!`:
//!
//! - A handle of the current thread, kept for a later `unpark`. The next fiber that uses it parks, and the wake-up goes to the fiber that
//!   created it: a silent hang. `crossbeam-channel` keeps such a handle in the context of its blocking calls.
//! - An id of the thread, by which a lock knows its owner or a queue its consumer.
//! - The state of a call in progress, such as a borrow of a `RefCell` across a wait: the next fiber finds it borrowed.
//!
//! ```
//! use std::cell::OnceCell;
//! use uthread::thread::{self, Thread};
//!
//! // With `thread_local!`, all fibers of a worker would get the handle of the first one.
//! uthread::local!(static WAITER: OnceCell<Thread> = const { OnceCell::new() });
//!
//! fn waiter() -> Thread {
//!     WAITER.with(|waiter| waiter.get_or_init(thread::current).clone())
//! }
//!
//! let other = thread::spawn(|| (waiter().id(), thread::current().id()));
//! let (found, expected) = other.join().unwrap();
//! assert_eq!(found, expected);
//! assert_eq!(waiter().id(), thread::current().id());
//! ```
//!
//! Context that a crate keeps in a thread-local, is saved and restored at each switch by a
//! [`FiberContext`](crate::FiberContext). The crate `uthread-tracing` has one for the spans of `tracing`.
//!
//! `uthread port --locals src` replaces every `thread_local!` by `uthread::local!`. Without `--locals` the command lists them.
//!
//! # Dependencies
//!
//! Most dependencies work as they are. `uthread audit` reads the sources of all that a program contains, and lists those that can block
//! a worker or keep context in thread-locals, with the first place of each. They need one of these steps, or
//! [thread-local storage of its own](crate::Builder::own_tls) for each fiber:
//!
//! | the dependency | what to do |
//! | --- | --- |
//! | takes a stream, reader or writer | nothing |
//! | opens its own files or sockets, or calls a C library | call it in [`blocking`](crate::blocking()) |
//! | blocks or spins by means of `std` | port a copy of its sources with the same command, and make it a `path` dependency |
//! | keeps a thread's handle or id in a thread-local | port it with `--locals` |
//! | parks OS threads itself, as `parking_lot` does | keep it out of fibers, or call it in [`blocking`](crate::blocking()) |
//!
//! Do not use `[patch.crates-io]` for a ported dependency, because uthread itself may depend on the original. Dependencies of a dependency
//! count, too: a ported `crossbeam-channel` still spins with the `std::thread::yield_now` of `crossbeam-utils`, which lets no other
//! fiber run.
//!
//! Unsafe code of a dependency may rely on `park` never unwinding, as `std`'s never does. A `crossbeam-channel` without capacity lends a
//! slot on the sender's stack to the receiver. If the sender is cancelled, or unwound when its runtime ends, the receiver reads freed
//! memory. Call such a dependency in a [`shield`](crate::shield), inside of which nothing unwinds, or use
//! [`sync::mpsc`](crate::sync::mpsc).
//!
//! # What differs
//!
//! - **The end of the program.** Under `#[uthread::main]` the remaining fibers vanish with the process when `main` returns, as
//!   threads do. Dropping a [`Runtime`](crate::Runtime#dropping), which is also how [`run`](crate::run) ends, cancels and unwinds the
//!   remaining fibers. `std` has no counterpart; [`soundness`](super::soundness) lists what unsafe code may have assumed.
//! - **Stack size.** A fiber has 256 KiB of address space by default, a thread 2 MiB. With debug assertions (`cargo build`, `cargo test`)
//!   a fiber has 2 MiB as well, so code that works there may overflow in a release build. An overflow prints the fiber's name and
//!   aborts. Request more for deep recursion and large arrays; see [`tuning`](super::tuning#stack-size). Untouched address space costs page
//!   tables only: half a KiB per fiber at 256 KiB (50 MB for 100,000 fibers), 2 KiB at 1 MiB, 4 KiB at 2 MiB. A million fibers of
//!   2 MiB fit.
//! - **Preemption.** A fiber that never waits keeps its worker; see [`blocking`](super::blocking).
//! - **FIFOs.** In a fiber, opening an existing FIFO does not wait for the other end.
//! - **Trait implementations.** `impl Trait for std::net::TcpStream` in another crate does not cover the type of uthread. Most traits are
//!   implemented for `Read + Write`; for the rest, `From` and `Into` convert between the types.
//! - **Sealed extension traits.** Methods that a sealed trait of `std` adds (`CommandExt`, `TcpStreamExt`) are inherent methods here, so the
//!   import of the trait is unused.
//!
//! # What is absent
//!
//! - Unstable items of `std`, except those that [`items`](super::items) names, such as `TcpStream::set_linger`.
//! - The deprecated `thread::sleep_ms`, `thread::park_timeout_ms` and `sync::ONCE_INIT`.
//! - `os::unix::fs::chroot`: it never blocks, so use `std`'s.
//! - The fast path of `io::copy` between descriptors, which `std` has for its own types. [`io::splice`](crate::io::splice),
//!   [`TcpStream::send_file`](crate::net::TcpStream::send_file) and [`fs::copy`](crate::fs::copy) keep the bytes in the kernel.
//!
//! # What is new
//!
//! Cancellation and deadlines ([`cancellation`](super::cancellation)), [`select!`](mod@crate::sync::select),
//! [`sync::oneshot`](crate::sync::oneshot), [`signal`](crate::signal), [`net::serve`](crate::net::serve),
//! [`net::TcpSocket`](crate::net::TcpSocket), [`fs::Dir`](crate::fs::Dir), [`fs::TempFile`](crate::fs::TempFile),
//! [`fs::AlignedBuffer`](crate::fs::AlignedBuffer), [`ring`](crate::ring), [`join`](crate::join()),
//! [`time::interval`](crate::time::interval), [`blocking`](crate::blocking()).
//!
//! ---
//!
//! [Previous: async crates](super::async_crates) | [Contents](super) | [Next: items](super::items)

//! How to port a program, and what differs then.
//!
//! ```sh
//! uthread port --main src
//! ```
//!
//! `uthread` is the program of the crate `uthread-cli`. The command replaces the paths of the modules below by ours, splits imports that
//! name both, such as `use std::{fmt, io}`, puts `#[uthread::main]` above `fn main`, and lists with its line what it leaves for
//! you to look at. Comments and strings stay as they are. Then `cargo fmt` orders the imports. `--check` changes nothing and
//! lists all that is to change; `--tests` makes `#[test]` a `#[uthread::test]`, so that tests run in fibers too. A crate of edition
//! 2015 needs `extern crate uthread;` in its root.
//!
//! What a program imports from these modules is there by the same name, with the same
//! signatures, errors and guarantees; what needs no change is `std`'s own item, re-exported. What waits suspends its fiber.
//!
//! [`items`](super::items) names each of them: those that are ours, those that are `std`'s, what is beyond `std` and what is absent.
//!
//! Outside of these modules `println!` and `eprintln!` stay; see [`blocking`](super::blocking). So does `thread_local!`.
//!
//! # Thread-locals
//!
//! The values of `thread_local!` belong to the worker's thread, and all its fibers share them; those of [`local!`](mod@crate::local)
//! belong to the fiber. A cache or a counter may stay. What stands for *the thread that runs* must not:
//!
//! - a handle of the current thread, kept to be unparked by later. The fiber that uses it next parks, and the wake-up goes to the fiber
//!   that made it: a hang without a message. `crossbeam-channel` keeps one in the context of its blocking calls;
//! - an identifier of the thread, by which a lock knows its owner, or a queue its consumer;
//! - the state of a call under way, such as a borrow of a `RefCell` across a wait: the next fiber finds it borrowed.
//!
//! ```
//! use std::cell::OnceCell;
//! use uthread::thread::{self, Thread};
//!
//! // With `thread_local!` all fibers of a worker would find the first one's handle.
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
//! `uthread port --locals src` replaces every `thread_local!` by `uthread::local!`; without `--locals` the command lists them.
//!
//! # Dependencies
//!
//! A dependency that blocks or spins by `std` is ported as well, by the same command over a copy of its sources, and becomes a
//! `path` dependency of the program (not by `[patch.crates-io]`, as uthread itself depends on some of them); one that keeps a thread's handle or identity in a thread-local, with `--locals`. That goes for the dependencies of a
//! dependency: a ported `crossbeam-channel` still spins by the `std::thread::yield_now` of `crossbeam-utils`, which lets no other fiber run.
//! What parks a thread of the system by itself, as `parking_lot` does, stays out of fibers, or goes into
//! [`blocking`](crate::blocking()).
//!
//! Unsafe code of a dependency may rely on `park` never unwinding, as `std`'s does not. A `crossbeam-channel` without capacity lends a place
//! on the sender's stack to the receiver: where the sender is cancelled, or left when the runtime ends, the receiver reads freed memory.
//! Call such a dependency in a [`shield`](crate::shield), which nothing unwinds, or use [`sync::mpsc`](crate::sync::mpsc).
//!
//! # What differs
//!
//! - When `main` returns, the fibers that are left vanish with the process, as threads do. That is so under `#[uthread::main]`; the
//!   drop of a [`Runtime`](crate::Runtime#dropping), and so the end of [`run`](crate::run), cancels and unwinds what is left, for
//!   which `std` has no counterpart: [`soundness`](super::soundness) names what unsafe code may have assumed.
//! - A fiber's stack is 256 KiB of address space by default, a thread's 2 MiB. In a build with debug assertions (`cargo build`,
//!   `cargo test`) a fiber has 2 MiB as well, so that what runs there may yet be too deep in a release. Code that recurses deeply, or
//!   has arrays of a MB, asks for more, with [`thread::Builder::stack_size`](crate::thread::Builder::stack_size) or
//!   [`Builder::stack_size`](crate::Builder::stack_size). An overflow says so. Untouched address space costs page tables only: half a
//!   KiB a fiber at 256 KiB (50 MB for 100,000 fibers), 2 KiB at 1 MiB, 4 KiB at 2 MiB. A million fibers of 2 MiB fit.
//! - A fiber that never waits keeps its worker ([`blocking`](super::blocking)).
//! - In a fiber a FIFO that exists is opened without waiting for its other end.
//! - A library that opens its own files and sockets uses `std`'s. Many take a stream or a reader instead, as the programs in
//!   `examples` show; the others belong into [`blocking`](crate::blocking()).
//! - `impl Trait for std::net::TcpStream` of another crate is not one for ours. Most are written for `Read + Write`; where one is not,
//!   `From` and `Into` convert.
//! - A method that a sealed trait of `std` adds (`CommandExt`, `TcpStreamExt`) is an inherent one here, so that such an import is unused.
//!
//! # What is absent
//!
//! - What is unstable in `std`, but for what [`items`](super::items) names, such as `TcpStream::set_linger`.
//! - Of what is deprecated there `thread::sleep_ms`, `thread::park_timeout_ms` and `sync::ONCE_INIT`.
//! - `os::unix::fs::chroot`: it changes the process, waits for nothing, and is as good from `std`.
//! - `io::copy` between descriptors does not leave the bytes in the kernel as `std`'s does for its own types:
//!   [`io::splice`](crate::io::splice), [`TcpStream::send_file`](crate::net::TcpStream::send_file) and
//!   [`fs::copy`](crate::fs::copy) do.
//!
//! # What is new
//!
//! Cancellation and deadlines ([`cancellation`](super::cancellation)), [`select!`](mod@crate::sync::select),
//! [`sync::oneshot`](crate::sync::oneshot), [`signal`](crate::signal), [`net::serve`](crate::net::serve),
//! [`net::TcpSocket`](crate::net::TcpSocket), [`fs::Dir`](crate::fs::Dir), [`fs::TempFile`](crate::fs::TempFile),
//! [`fs::AlignedBuffer`](crate::fs::AlignedBuffer), [`ring`](crate::ring), [`join`](crate::join()),
//! [`time::interval`](crate::time::interval), [`blocking`](crate::blocking()).

//! How to port a program, and what differs then.
//!
//! ```sh
//! sed -E -i 's/\bstd::(net|fs|io|sync|thread|time|process|os::unix::net)\b/uthread::\1/g' $(find src -name '*.rs')
//! cargo fmt                                  # the order of imports
//! grep -rnE 'std::\{|std::os::unix' src      # groups to be split first, and what is left
//! ```
//!
//! and `#[uthread::main]` above `fn main`. What a program imports from these modules is there by the same name, with the same
//! signatures, errors and guarantees; what needs no change is `std`'s own item, re-exported. What waits suspends its fiber.
//!
//! [`items`](super::items) names each of them: those that are ours, those that are `std`'s, what is beyond `std` and what is absent.
//!
//! Outside of these modules two things are worth a look. `thread_local!` stays, and its values belong to the worker's thread: those
//! of [`local!`](mod@crate::local) belong to the fiber. `println!` and `eprintln!` stay; see [`blocking`](super::blocking).
//!
//! # What differs
//!
//! - When `main` returns, the fibers that are left vanish with the process, as threads do. That is so under `#[uthread::main]`; the
//!   drop of a [`Runtime`](crate::Runtime#dropping), and so the end of [`run`](crate::run), cancels and unwinds what is left, for
//!   which `std` has no counterpart: [`soundness`](super::soundness) names what unsafe code may have assumed.
//! - A fiber's stack is 256 KiB of address space by default, a thread's 2 MiB: code that recurses deeply asks for more, with
//!   [`thread::Builder::stack_size`](crate::thread::Builder::stack_size) or
//!   [`Builder::stack_size`](crate::Builder::stack_size). An overflow says so.
//! - A fiber that never waits keeps its worker ([`blocking`](super::blocking)).
//! - In a fiber a FIFO that exists is opened without waiting for its other end.
//! - A library that opens its own files and sockets uses `std`'s. Many take a stream or a reader instead, as the programs in
//!   `crates/uthread-examples` show; the others belong into [`blocking`](crate::blocking()).
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

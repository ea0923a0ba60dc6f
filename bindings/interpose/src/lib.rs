//! Makes code that waits by the C library suspend the fiber that it runs in, instead of its thread:
//! `std::net`, `std::thread::sleep`, `std::sync`, and crates built on them.
//!
//! A program names this crate once, and calls nothing of it:
//!
//! ```
//! use uthread_interpose as _;
//! ```
//!
//! It defines functions of the C library, such as `recv`. The linker finds them in the program before
//! those of the C library, for `std`, for crates, and for libraries in C. A call is one of these:
//!
//! ```text
//!   of a fiber, by code that is not the library's   -> suspends the fiber (bindings/pthread)
//!   of a thread, of a lean fiber, or of the library -> the system call
//! ```
//!
//! Without glibc, or on other CPUs than x86-64, the crate is empty: the calls block a thread, as without
//! it.
//!
//! | module | contents |
//! | --- | --- |
//! | `raw` | system calls, as the C library makes them |
//! | `rule` | which calls suspend a fiber |
//! | `outside` | system calls that leave a simulated world |
//! | `calls` | calls that wait |
//! | `futex` | system calls by `syscall`, and of these `futex` |
//! | `world` | calls in a simulated world |
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod raw;

mod rule;

mod outside;

mod calls;
mod futex;

mod world;

#[doc(hidden)]
pub use self::outside::{is_refused, leaves_world};
#[doc(hidden)]
pub use self::raw::{call as system_call, set_errno};
#[doc(hidden)]
pub use self::rule::keep_thread;
#[doc(hidden)]
pub use self::world::unix_name;

//! Child processes by the names of `std::process`.
//!
//! A fiber that starts a child, waits for it or talks with it suspends; what needs no change is `std`'s own
//! ([`Stdio`], [`ExitStatus`], [`Output`], [`id`]). A child is known by a descriptor of its own (a
//! *pidfd*), by which it is waited for and signalled: a number that has come to mean another process is never
//! meant. Dispositions of signals stay as they are, that of `SIGCHLD` too.
//!
//! ```
//! use uthread::io::{BufRead, BufReader, Write};
//! use uthread::process::{Command, Stdio};
//!
//! let mut child = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//! let mut words = child.stdin.take().expect("it is piped");
//! words.write_all(b"pear\napple\n")?;
//! drop(words);
//! let sorted = BufReader::new(child.stdout.take().expect("it is piped"));
//! assert_eq!(sorted.lines().collect::<Result<Vec<_>, _>>()?, ["apple", "pear"]);
//! assert!(child.wait()?.success());
//! # Ok::<(), uthread::io::Error>(())
//! ```

mod command;

mod child;
mod output;
mod pidfd;

mod pipes;

#[doc(no_inline)]
pub use std::process::*;

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};

use crate::sched::wait;

/// Ends the process with this exit code, as [`std::process::exit`]: no fiber is unwound.
///
/// The destructors of the calling thread's `thread_local!` values run on the stack of the fiber that calls. What they wait for,
/// they wait for as on a plain thread: no other fiber of the worker runs any more.
///
/// ```
/// if let Err(error) = uthread::fs::metadata("Cargo.toml") {
///     eprintln!("{error}");
///     uthread::process::exit(1);
/// }
/// ```
pub fn exit(code: i32) -> ! {
    wait::begin_exit();
    std::process::exit(code)
}

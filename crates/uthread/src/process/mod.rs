//! Child processes, with the names of `std::process`.
//!
//! A fiber that starts a child, waits for it or communicates with it is suspended meanwhile. Items
//! that need no replacement are re-exported from `std` ([`Stdio`], [`ExitStatus`], [`Output`],
//! [`id`]). A child is waited for and signalled through a *pidfd*, a descriptor that refers to this
//! process only, so a reused process ID cannot hit another process. Signal dispositions are not
//! changed, `SIGCHLD` included.
//!
//! ```
//! use uthread::io::{BufRead, BufReader, Write};
//! use uthread::process::{Command, Stdio};
//!
//! let mut child = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//! let mut words = child.stdin.take().expect("the stream is piped");
//! words.write_all(b"pear\napple\n")?;
//! drop(words);
//! let sorted = BufReader::new(child.stdout.take().expect("the stream is piped"));
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

use crate::sched::caller;

/// Terminates the process with an exit code; the counterpart of [`std::process::exit`]. No fiber is
/// unwound.
///
/// The destructors of the calling thread's `thread_local!` values run on the stack of the calling
/// fiber. Their calls block the thread, as outside the runtime: the worker runs no other fiber any
/// more.
///
/// ```
/// if let Err(error) = uthread::fs::metadata("Cargo.toml") {
///     eprintln!("{error}");
///     uthread::process::exit(1);
/// }
/// ```
pub fn exit(code: i32) -> ! {
    caller::begin_exit();
    std::process::exit(code)
}

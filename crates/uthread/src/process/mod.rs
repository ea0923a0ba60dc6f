//! Child processes by the names of `std::process`.
//!
//! A fiber that starts a child, waits for it or talks with it suspends; what needs no change is `std`'s own
//! ([`Stdio`], [`ExitStatus`], [`Output`], [`exit`], [`id`]). A child is known by a descriptor of its own (a
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

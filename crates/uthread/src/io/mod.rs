//! Input and output, with the names of `std::io`. Everything is re-exported from `std`, except the
//! standard streams and pipes, which are replaced.
//!
//! A fiber that reads from [`stdin`], or that writes to a [`stdout`] with a slow reader, is
//! suspended, and its worker runs other fibers. The traits and adapters are those of `std`
//! ([`Read`], [`Write`], [`BufRead`], [`BufReader`], [`copy`]), so code written for them works with
//! the types of this crate.
//!
//! The descriptors 0, 1 and 2 are shared with other processes, so they are never made non-blocking.
//!
//! ```
//! use uthread::io::{self, BufRead, BufReader, Write};
//!
//! let (reader, mut writer) = io::pipe()?;
//! let count = uthread::spawn(move || BufReader::new(reader).lines().count());
//! writer.write_all(b"one\ntwo\n")?;
//! drop(writer);
//! assert_eq!(count.join().unwrap(), 2);
//! # Ok::<(), io::Error>(())
//! ```

pub(crate) mod stream;

mod pipe;
pub(crate) mod splice;

mod reentrant;
mod stdin;
mod stdout;

mod terminal;

#[doc(no_inline)]
pub use std::io::*;

pub use pipe::{PipeReader, PipeWriter, pipe};
pub use splice::{Splice, splice};
pub use stdin::{Stdin, StdinLock, stdin};
pub use stdout::{Stderr, StderrLock, Stdout, StdoutLock, stderr, stdout};
pub use terminal::IsTerminal;

//! Lines on stdout and stderr, without the panics of `println!`.
//!
//! Output to a pipe without a reader is dropped, as behind `| head`: a study that runs for an hour
//! writes its results to files too. Any other error of stdout, such as that of a full disk, is kept
//! for the end of the program.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The first error of stdout.
static ERROR: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to stdout.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say_line(format_args!($($text)*)) };
}

/// Writes a line to stderr.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

/// Writes a line to stdout, by the macro [`say!`].
pub fn say_line(line: fmt::Arguments<'_>) {
    keep_error(writeln!(io::stdout(), "{line}"));
}

/// Checks that stdout has taken all lines, if it has a reader. Called once, at the end of a
/// program.
///
/// # Errors
///
/// The first error of writing a line.
pub fn check_said() -> io::Result<()> {
    // Writes what the lines have left in the buffer.
    keep_error(io::stdout().flush());
    match ERROR.get() {
        None => Ok(()),
        Some(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot write to stdout: {error}"),
        )),
    }
}

fn keep_error(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = ERROR.set(error);
    }
}

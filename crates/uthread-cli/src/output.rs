//! Writes to the standard streams of the program.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::Exit;

/// Prints a message for the operator on stderr, in one line. Ignores errors, unlike `eprintln!`: a
/// closed stderr must not end a server.
pub(crate) fn tell(message: impl Display) {
    let _ = writeln!(io::stderr(), "uthread: {message}");
}

/// Prints to stdout. Renders into memory first, so that only one place handles errors of stdout.
pub(crate) fn print(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Exit {
    let mut text = Vec::new();
    match render(&mut text).and_then(|()| io::stdout().write_all(&text)) {
        Ok(()) => Exit::Done,
        Err(error) => {
            tell(format_args!("cannot write to stdout: {error}"));
            Exit::FailedRunning
        }
    }
}

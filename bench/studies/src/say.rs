//! What the program says. `println!` and `eprintln!` panic where the reader has gone, as behind `| head`: here the work goes
//! on unheard, as its results are in files too, and a server or a load ends by its standard input.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a part of the output is lost that somebody waits for: the disk behind it is full.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// A line of the output.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// A line for whoever watches.
macro_rules! tell {
    ($($text:tt)*) => { $crate::say::err(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) use {say, tell};

/// A part of the output.
pub(crate) fn out(text: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
        && !IS_LOST.swap(true, Ordering::Relaxed)
    {
        tell!("uthread-bench: cannot write to stdout: {error}");
    }
}

/// A part of a line for whoever watches.
pub(crate) fn err(text: fmt::Arguments<'_>) {
    // That of a test is captured only so.
    #[cfg(test)]
    eprint!("{text}");
    #[cfg(not(test))]
    let _ = io::stderr().write_fmt(text);
}

pub(crate) fn is_lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}

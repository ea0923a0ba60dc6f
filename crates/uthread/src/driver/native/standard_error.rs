//! Lines of the library on the standard error stream.
//!
//! They go to the descriptor: `eprintln!` prints to the capture of a test, which a test that hangs
//! never shows, waits for whoever has locked the stream, and panics if the stream takes no more.

use std::fmt::Arguments;

use rustix::io::retry_on_intr;
use rustix::stdio::stderr;

/// Writes text, in one call so that the lines of two threads do not mix. Gives up at an error, as
/// there is nobody to tell.
pub(crate) fn print(text: Arguments<'_>) {
    let text = text.to_string();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match retry_on_intr(|| rustix::io::write(stderr(), rest)) {
            Ok(count @ 1..) => rest = &rest[count..],
            Ok(0) | Err(_) => return,
        }
    }
}

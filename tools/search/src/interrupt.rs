//! Ctrl-C: the terminal is left without colors and without a half-erased line.

use std::io::{self, Write};
use std::thread;

use uthread::signal::{Signal, Signals};

/// Ends colors, and erases the line of the cursor.
const RESTORE: &[u8] = b"\x1b[0m\r\x1b[K";

/// Lets a signal that ends the process restore the terminal first. The process still ends by the signal, so that shells notice.
///
/// A thread waits for it, as the workers may be busy.
///
/// # Errors
///
/// The signals cannot be caught.
pub(crate) fn restore_terminal() -> io::Result<()> {
    let mut signals = Signals::new([Signal::INT, Signal::TERM])?;
    thread::spawn(move || {
        if let Ok(signal) = signals.recv() {
            // Nothing can be done about a closed terminal.
            let _ = io::stderr().write_all(RESTORE);
            let _ = signal_hook::low_level::emulate_default_handler(signal.as_raw());
        }
    });
    Ok(())
}

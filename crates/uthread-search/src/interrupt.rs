//! Ctrl-C: what was found is printed, and the terminal is left without colors and without a
//! half-erased line.

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use uthread::signal::{Signal, Signals};

use crate::output::Output;

/// Ends colors, and erases the line of the cursor.
const RESTORE: &[u8] = b"\x1b[0m\r\x1b[K";
/// Time to print what was found: longer than readers take to end the search of a part of a file.
/// People notice a longer delay.
const PRINT_MAX: Duration = Duration::from_millis(500);
/// How often to look whether all is printed.
const STEP: Duration = Duration::from_millis(1);

/// Lets a signal that ends the process print what was found, and restore the terminal if there is
/// one. The process still ends by the signal, so that shells notice. A signal that the parent
/// process ignores stays ignored.
///
/// A thread waits for it, as the workers may be busy.
///
/// # Errors
///
/// The signals cannot be caught.
pub(crate) fn catch(output: Arc<Output>, has_terminal: bool) -> io::Result<()> {
    let ignored = ignored();
    let mut caught = vec![Signal::INT, Signal::TERM];
    caught.retain(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0);
    if caught.is_empty() {
        return Ok(());
    }
    let mut signals = Signals::new(caught)?;
    thread::spawn(move || {
        if let Ok(signal) = signals.recv() {
            print(output);
            if has_terminal {
                // Nothing can be done about a closed terminal.
                let _ = io::stderr().write_all(RESTORE);
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal.as_raw());
        }
    });
    Ok(())
}

/// Prints what was found, unless that takes too long: stdout may be a pipe that nobody reads.
fn print(output: Arc<Output>) {
    let (done, is_done) = mpsc::channel();
    let until = Instant::now() + PRINT_MAX;
    thread::spawn(move || {
        output.interrupt();
        while output.has_unprinted() && Instant::now() < until {
            thread::sleep(STEP);
        }
        output.print_waiting();
        done.send(())
    });
    let _ = is_done.recv_timeout(2 * PRINT_MAX);
}

/// Returns the set of the signals that are ignored: bit 0 for signal 1. Empty if it is
/// unknown.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

//! The messages of panics. Many panics are expected, and only the messages of failed trials are
//! printed.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{panic, thread};

use uthread::{Driver, Runtime};

static SAID: Mutex<Vec<Panic>> = Mutex::new(Vec::new());

struct Panic {
    time: Instant,
    thread: String,
    text: String,
}

/// Keeps panics from now on, and does not print them.
pub(super) fn keep() {
    // The first runtime brings a hook along, which is replaced here.
    let first = Runtime::builder().driver(Driver::Threads).build();
    drop(first.unwrap());
    panic::set_hook(Box::new(|info| {
        let thread = thread::current().name().unwrap_or("unnamed").to_owned();
        let mut text = info.to_string();
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text += &format!("\n{backtrace}");
        }
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        let time = Instant::now();
        said.push(Panic { time, thread, text });
    }));
}

/// Returns all that was said since, by the trial and by any thread that is not another trial's: the
/// panic of a fiber comes from its worker's. With `--test-threads=1` no trial runs beside it.
pub(super) fn since(begin: Instant, trial: &str) -> String {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let since = said.iter().filter(|panic| panic.time >= begin);
    let own = since.filter(|panic| panic.thread == trial || !panic.thread.ends_with(']'));
    own.map(|Panic { thread, text, .. }| format!("thread '{thread}' {text}\n"))
        .collect()
}

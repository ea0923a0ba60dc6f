//! The message of a panic names the fiber. What `std` prints names the worker's thread, whose other fibers have
//! nothing to do with it.
//!
//! The first runtime puts a hook in front of the one there is. A later one of the program replaces it. The hook
//! also notes who panics, for the locks: see `sched::worker::panics`.

use std::io::{self, Write};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::fiber::Control;
use crate::sched::wait;
use crate::stack::panic_frames;

/// Whether what threads print is captured. Relaxed: whoever sets it goes on to start the fibers.
static CAPTURED: AtomicBool = AtomicBool::new(false);

/// Puts the hook there, once. A thread that panics may not change hooks: it leaves that to the next runtime.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    if thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        panic_frames::learn();
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            wait::note_panic();
            wait::with_control(name);
            previous(panic);
        }));
    });
}

/// From now on the harness of tests shows what is said with the test that failed.
pub(super) fn capture() {
    CAPTURED.store(true, Ordering::Relaxed);
}

fn name(fiber: &Control) {
    let name = fiber.name().map(|name| format!("\"{name}\" "));
    let line = format!(
        "uthread: fiber {} {}(spawned at {}) panicked:\n",
        fiber.id(),
        name.unwrap_or_default(),
        fiber.spawn_site()
    );
    if CAPTURED.load(Ordering::Relaxed) {
        // By the macro alone, which panics where nobody reads: elsewhere that would end the process.
        eprint!("{line}");
    } else {
        // The stream is without a buffer: one call, so that the lines of two fibers do not mix.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

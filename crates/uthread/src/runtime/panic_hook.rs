//! A panic hook that names the fiber. The message of `std` names only the worker's thread, which
//! other fibers share.
//!
//! The first runtime installs the hook in front of the current one; the program may replace it
//! later. The hook also records which fiber panics, for lock poisoning: see
//! `sched::worker::panics`.

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::driver::native::standard_error;
use crate::fiber::{Control, host};
use crate::sched::caller::{self, panics};
use crate::sched::monitor::hooks::RunningHook;
use crate::stack::panic_frames;

/// `true` if the output of threads is captured. Relaxed: it is set before the fibers start.
static CAPTURED: AtomicBool = AtomicBool::new(false);

/// The name of the fiber that runs a test.
const MAIN: &str = "main";

/// Makes the test harness show the message with the test that has failed.
pub(super) fn capture() {
    CAPTURED.store(true, Ordering::Relaxed);
}

/// Installs the hook, once. A panicking thread must not change hooks; it leaves that to the next
/// runtime.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    if thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        panic_frames::learn();
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            panics::record_panic();
            if caller::with_control(host::is_ending) == Some(true) {
                return;
            }
            let _running = RunningHook::begin();
            caller::with_control(name);
            previous(panic);
        }));
    });
}

fn name(fiber: &Control) {
    let name = fiber.name().map(|name| format!("\"{name}\" "));
    let line = format!(
        "uthread: fiber {} {}(spawned at {}) panicked:\n",
        fiber.id(),
        name.unwrap_or_default(),
        fiber.spawn_site()
    );
    if CAPTURED.load(Ordering::Relaxed) && fiber.name() == Some(MAIN) {
        // Beside the message of `std`, with which the test ends. That another fiber has panicked
        // may be why the test does not end.
        eprint!("{line}");
    } else {
        standard_error::print(format_args!("{line}"));
    }
}

//! Which fibers of a worker panic. `std` counts panics per thread, so while one fiber is suspended
//! in a destructor during its panic, `std::thread::panicking` is true of all fibers of that worker.
//!
//! ```text
//!   no other fiber is suspended in its panic   the state of std is that of the running fiber
//!   another one is                             the running fiber panics if it did when it was resumed, or if the panic
//!                                              hook has seen it start since, or if its cancellation unwinds it
//! ```
//!
//! In the second case the library learns of the end of a panic at its own frames
//! (`panics::catch_unwind`) or when the fiber suspends after the others have ended. It does not
//! learn of a `resume_unwind` that the program calls, nor of a panic whose hook the program has
//! replaced.
//!
//! A panic hook that waits keeps its worker: `std` aborts the process if another panic begins on
//! the thread meanwhile, so nothing else may run there.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::alerts::Alerts;
use super::queues::Queues;
use super::{Worker, current};
use crate::fiber::{Control, Pause, Started};
use crate::stack::panic_frames;

/// How long a worker whose fiber waits in a panic hook sleeps before it checks for mail, as this
/// sleep is not announced.
const HOOK_PAUSE: Duration = Duration::from_millis(1);

/// Fibers of one worker that are suspended during their panics.
#[derive(Debug)]
pub(super) struct Panics {
    suspended: Cell<u32>,
    /// Changes when all counts are discarded, and is unique among workers: a count of another
    /// worker does not match.
    epoch: Cell<u32>,
}

impl Panics {
    pub(super) fn new(queues: &Queues) -> Panics {
        let panics = Panics {
            suspended: Cell::new(0),
            epoch: Cell::new(next_epoch()),
        };
        panics.update_alert(queues);
        panics
    }

    /// Returns `true` if the running fiber panics.
    fn is_panicking(&self, running: &Control) -> bool {
        thread::panicking() && self.is_of(running)
    }

    /// Returns `true` if the running fiber can be ended by unwinding it. A second panic, in a
    /// destructor, would abort the process.
    fn begin_unwinding(&self, running: &Control) -> bool {
        let begins = cfg!(panic = "unwind") && !self.is_panicking(running);
        if begins {
            self.record_start(running);
        }
        begins
    }

    /// Records that the running fiber starts to panic.
    fn record_start(&self, running: &Control) {
        let number = BEGUN.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        running.set_last_panic(number);
        // If no other fiber panics, `std` knows when the panic ends.
        running.panics.set(self.suspended.get() > 0);
    }

    /// Returns `true` if a fiber that has just left its stack occupies its worker, as it waits in a
    /// panic hook.
    pub(super) fn keep_worker(&self, queues: &Queues, fiber: Started) -> bool {
        queues.alerts.has(Alerts::PANICS) && self.look_for_panic(queues, fiber.control())
    }

    #[cold]
    fn look_for_panic(&self, queues: &Queues, control: &Control) -> bool {
        if !thread::panicking() {
            self.set(control, false);
            self.forget();
            self.update_alert(queues);
            return false;
        }
        let panics = self.is_of(control);
        self.set(control, panics);
        self.update_alert(queues);
        panics && control.in_panic_hook.get()
    }

    /// Records that a fiber has ended.
    pub(super) fn record_end(&self, queues: &Queues, fiber: Started) {
        if queues.alerts.has(Alerts::PANICS) {
            self.look_for_end(queues, fiber.control());
        }
    }

    #[cold]
    fn look_for_end(&self, queues: &Queues, control: &Control) {
        self.set(control, false);
        if !thread::panicking() {
            self.forget();
        }
        self.update_alert(queues);
    }

    /// Makes each pause be checked while a fiber is suspended during its panic. A fiber with
    /// thread-local storage of its own takes its panic along.
    fn update_alert(&self, queues: &Queues) {
        queues.alerts.set(Alerts::PANICS, self.suspended.get() > 0);
    }

    /// Returns `true` if the panic of the thread is that of this fiber, which is running or has
    /// just paused.
    fn is_of(&self, control: &Control) -> bool {
        self.others(control) == 0 || control.panics.get()
    }

    /// Returns the number of such fibers besides this one, which is running or has just paused.
    fn others(&self, control: &Control) -> u32 {
        self.suspended.get() - u32::from(self.counts(control))
    }

    fn counts(&self, control: &Control) -> bool {
        control.counted_panic() == Some(self.epoch.get())
    }

    /// Counts or discounts the fiber. The caller then [updates the alert](Panics::update_alert).
    fn set(&self, control: &Control, panics: bool) {
        let others = self.others(control);
        control.panics.set(panics);
        control.set_counted_panic(panics.then_some(self.epoch.get()));
        self.suspended.set(others + u32::from(panics));
    }

    /// Discards all counts, as the thread does not panic: also those of panics that have ended
    /// unnoticed.
    fn forget(&self) {
        self.suspended.set(0);
        self.epoch.set(next_epoch());
    }
}

/// Returns an epoch that no worker has had. Relaxed: it only has to be unique.
fn next_epoch() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Worker {
    /// Waits until the fiber that occupies this worker is ready, running no other fiber meanwhile.
    #[cold]
    pub(super) fn await_kept(&self, fiber: Started, pause: Pause) {
        current::set_running(None);
        self.complete_pause(fiber, pause);
        loop {
            if self.queues.shared.is_unusual() {
                self.follow_state();
            }
            self.collect_events();
            if self.queues.ready.take_out(fiber) {
                break;
            }
            self.wait(Some(HOOK_PAUSE));
        }
        current::set_running(Some(fiber));
    }
}

/// Returns `true` if the calling fiber, or the calling thread outside the runtime, is unwinding
/// because of a panic.
#[inline]
pub(crate) fn is_panicking() -> bool {
    #[cold]
    fn is_own() -> bool {
        let panics =
            |worker: &Worker, running: Started| worker.panics.is_panicking(running.control());
        current::with_present_running(panics).unwrap_or(true)
    }
    thread::panicking() && is_own()
}

/// Number of panics started in this process. Relaxed: a fiber asks only about its own.
pub(in crate::sched) static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Records that the caller starts to panic. Called by the panic hook.
pub(crate) fn record_panic() {
    current::with_present_running(|worker, running| worker.panics.record_start(running.control()));
}

/// Returns `true` if the calling fiber can be ended by unwinding it, and records the panic that
/// begins; `None` if the caller is not a fiber on a worker.
pub(in crate::sched) fn begin_unwinding() -> Option<bool> {
    current::with_present_running(|worker, running| {
        worker.panics.begin_unwinding(running.control())
    })
}

/// Records that a fiber suspends while its thread panics. Called by the fiber when it is about to
/// do so.
#[cold]
pub(in crate::sched) fn record_suspension(fiber: Started) {
    let panics = current::with_present_running(|worker, _| {
        worker.queues.alerts.set(Alerts::PANICS, true);
        worker.panics.is_panicking(fiber.control())
    });
    let panics = panics == Some(true);
    let in_hook = panics && panic_frames::is_in_hook();
    fiber.control().in_panic_hook.set(in_hook);
}

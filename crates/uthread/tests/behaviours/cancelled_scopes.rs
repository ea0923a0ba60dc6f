//! Cancelling the caller of a scope also ends the fibers that are spawned in the scope afterwards.

use std::io;
use std::panic;

use uthread::thread::Cancelled;
use uthread::{scope, sleep, try_scope};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, behaviours};
use crate::support::{HOUR, eventually};

behaviours![(
    IN_FIBERS,
    [
        fibers_spawned_in_a_cancelled_scope_end_with_it,
        fibers_spawned_in_a_cancelled_try_scope_end_with_it
    ]
)];

/// Calls a function when it is dropped.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn fibers_spawned_in_a_cancelled_scope_end_with_it(place: Place) {
    ends_when_cancelled(place, || {
        scope(|scope| {
            scope.spawn(move || {
                let _late = AtEnd(|| drop(scope.spawn(|| sleep(HOUR))));
                sleep(HOUR);
            });
            scope.spawn(move || {
                let _ = panic::catch_unwind(|| sleep(HOUR));
                drop(scope.spawn(|| sleep(HOUR)).join());
            });
        });
    });
}

fn fibers_spawned_in_a_cancelled_try_scope_end_with_it(place: Place) {
    ends_when_cancelled(place, || {
        let _ = try_scope(|scope| {
            scope.spawn(move || {
                let _late = AtEnd(|| drop(scope.spawn(endless)));
                endless()
            });
            Ok(())
        });
    });
}

fn endless() -> io::Result<()> {
    sleep(HOUR);
    Ok(())
}

/// Cancels a fiber that runs `body`, and checks that it ends.
#[track_caller]
fn ends_when_cancelled(place: Place, body: fn()) {
    let runtime = place.runtime();
    let cancelled = place.spawn_waiting(&runtime, body);
    cancelled.cancel();
    eventually("the fiber ends", || cancelled.is_finished());
    assert!(cancelled.join().unwrap_err().is::<Cancelled>());
}

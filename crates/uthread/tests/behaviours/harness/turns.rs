//! Turns of fibers: whether a loop of calls that never wait lets the others of its worker run.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::place::Place;

/// Number of calls, far above those that a fiber may make before the others of its worker get a
/// turn.
const CALLS_MAX: usize = 2048;

/// How long the loop goes on where fibers have thread-local storage of their own: a spare thread
/// may have taken the worker, and wait for a CPU.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Checks that a fiber of the same worker runs beside a loop of these calls, which never wait. The
/// caller is a fiber of a runtime with one worker.
#[track_caller]
pub(crate) fn lets_others_run(place: Place, mut call: impl FnMut()) {
    let ran_on = OnceLock::new();
    uthread::scope(|scope| {
        scope.spawn(|| ran_on.set(thread::current().id()));
        let begin = Instant::now();
        for calls in 1.. {
            call();
            if ran_on.get().is_some() {
                break;
            }
            let has_time = place.has_own_tls() && begin.elapsed() < TIME_MAX;
            assert!(calls < CALLS_MAX || has_time, "the fiber keeps the worker");
        }
    });
    let is_same_worker = ran_on.get() == Some(&thread::current().id());
    assert!(is_same_worker || place.has_own_tls(), "no worker is shared");
}

/// Checks in a runtime of one worker that a loop of these calls lets others run.
#[track_caller]
pub(crate) fn one_worker_lets_others_run(place: Place, call: impl FnMut() + Send) {
    place.runtime_of(1).run(|| lets_others_run(place, call));
}

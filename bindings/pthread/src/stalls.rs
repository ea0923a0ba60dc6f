//! Reports of threads that keep a worker while others wait for it, in the words of pthreads.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uthread::runtime::{Stall, StallCause};

/// At most one line is printed per interval.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

static LAST_LINE: Mutex<Option<Instant>> = Mutex::new(None);

/// Prints a line about a stall to standard error.
pub(crate) fn print(stall: &Stall) {
    let mut last = LAST_LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_some_and(|last| last.elapsed() < LINE_INTERVAL) {
        return;
    }
    *last = Some(Instant::now());
    let reason = reason(stall.cause, stall.system_call);
    let (thread, worker) = (stall.fiber, stall.worker);
    let time = stall.duration.as_millis();
    let line = format!(
        "uthread: thread {thread} has kept worker {worker} for {time} ms while others wait: {reason}\n"
    );
    // What cannot be written is lost.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns the reason why a thread has kept its worker, and what helps.
fn reason(cause: StallCause, call: Option<&str>) -> String {
    match cause {
        StallCause::Runs => "it computes, or waits in a loop; let it call sched_yield now and then".into(),
        StallCause::WaitsForLock => {
            "it waits for a lock that blocks it, and no other thread of the system could go on with the worker".into()
        }
        _ => {
            let call = call.unwrap_or("a system call");
            format!("it is blocked in {call}, and no other thread of the system could go on with the worker")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_nothing_of_rust() {
        let causes = [
            (StallCause::Runs, None, "sched_yield"),
            (StallCause::WaitsForLock, Some("futex"), "a lock"),
            (StallCause::WaitsInKernel, Some("flock"), "blocked in flock"),
            (StallCause::WaitsInKernel, None, "blocked in a system call"),
        ];
        for (cause, call, expected) in causes {
            let reason = reason(cause, call);
            assert!(reason.contains(expected), "{reason}");
            assert!(!reason.contains("::"), "{reason}");
        }
    }
}

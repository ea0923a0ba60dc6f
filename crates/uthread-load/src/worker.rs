//! One worker: a runtime with one thread and a share of the connections, with one or two fibers per
//! connection.
//!
//! Workers share nothing while they run: each has its own tally, and none steals from or wakes
//! another.

use std::io;
use std::num::NonZeroU64;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::time::Instant;

use uthread::scope;
use uthread::sync::Mutex;
use uthread::thread::{Cancelled, ScopedJoinHandle};

use crate::clock::Clock;
use crate::closed;
use crate::drive::Drive;
use crate::failure::{Failure, Kind};
use crate::open::{self, Line};
use crate::pacer::Pacer;
use crate::plan::Pattern;
use crate::schedule::schedule;
use crate::tally::Tally;
use crate::task::{Slot, Task};
use crate::usage::Usage;

/// The kernel may delay a sleep by 50 us to save power, longer than a request takes; request the
/// minimum.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Results of a worker's run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// Responses in the measured time, per connection.
    pub(crate) served: Vec<u64>,
    pub(crate) usage: Usage,
}

/// Opens the connections with these indices, and waits for a response on each; counts failures.
pub(crate) fn connect(task: &Task, indices: impl Iterator<Item = u64>) -> (Vec<Slot>, Tally) {
    let tally = Mutex::new(Tally::default());
    let mut slots: Vec<Slot> = indices.map(Slot::new).collect();
    scope(|scope| {
        for slot in &mut slots {
            let tally = &tally;
            scope.spawn(move || {
                if let Err(failure) = greet(task, slot) {
                    tally.lock().unwrap().fail(failure);
                }
            });
        }
    });
    (slots, tally.into_inner().unwrap())
}

/// Opens a connection, unless that is no longer worth a try.
fn greet(task: &Task, slot: &mut Slot) -> Result<(), Failure> {
    let _permit = task.opening.acquire().expect("nobody closes it");
    if task.is_silent.load(Ordering::Relaxed) || task.end.is_stopped() {
        return Ok(());
    }
    let greeted = task
        .open(slot.index)
        .and_then(|link| link.greet(task.timeout));
    if let Err(failure) = &greeted
        && failure.kind == Kind::TimedOut
    {
        task.is_silent.store(true, Ordering::Relaxed);
    }
    slot.link = greeted?;
    slot.is_greeted = true;
    Ok(())
}

/// Loads the server over these connections, which remain for the next run.
pub(crate) fn run(
    task: &Task,
    worker: usize,
    slots: &mut [Slot],
    clock: &Clock,
) -> io::Result<Outcome> {
    rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS))?;
    let pacer = Pacer::new(task.spins)?;
    let drive = Drive::new(task, clock);
    slots.iter_mut().for_each(|slot| slot.served = 0);
    let usage = match task.pattern {
        Pattern::Closed { depth } => run_closed(&drive, slots, depth.get()),
        Pattern::Open { per_second } => {
            let dues = schedule(clock, per_second.get(), worker, task.workers);
            run_open(&drive, slots, &pacer, dues)
        }
    };
    Ok(Outcome {
        tally: drive.tally.into_inner().unwrap(),
        served: slots.iter().map(|slot| slot.served).collect(),
        usage,
    })
}

fn run_closed(drive: &Drive<'_>, slots: &mut [Slot], depth: usize) -> Usage {
    let all = slots.len() as u64;
    scope(|scope| {
        let start = |slot| {
            scope.spawn(move || {
                closed::run(drive, slot, depth);
                drive.note_ended();
            })
        };
        let fibers: Vec<_> = slots.iter_mut().map(start).collect();
        drive.task.spins.then(|| scope.spawn(|| drive.spin()));
        let usage = drive.watch();
        drive.await_last(|| drive.ended() == all);
        end_all(fibers);
        usage
    })
}

fn run_open(
    drive: &Drive<'_>,
    slots: &mut [Slot],
    pacer: &Pacer,
    dues: impl Iterator<Item = Instant> + Send,
) -> Usage {
    let lines: Vec<Mutex<Line>> = slots
        .iter_mut()
        .map(|slot| Mutex::new(Line::of(slot)))
        .collect();
    scope(|scope| {
        let start = |(slot, line)| scope.spawn(move || open::receive(drive, slot, line));
        let fibers: Vec<_> = slots.iter_mut().zip(&lines).map(start).collect();
        drive.task.spins.then(|| scope.spawn(|| drive.spin()));
        let lines = lines.as_slice();
        let pacing = scope.spawn(move || open::pace(scope, drive, pacer, dues, lines));
        let usage = drive.watch();
        drive.await_last(|| {
            // Messages that fell due just before the end may be sent after it.
            pacing.is_finished() && drive.has_settled()
        });
        end_all(fibers);
        usage
    })
}

/// Cancels fibers that still wait.
fn end_all(fibers: Vec<ScopedJoinHandle<'_, ()>>) {
    fibers.iter().for_each(ScopedJoinHandle::cancel);
    for fiber in fibers {
        match fiber.join() {
            // The fiber was cancelled in a call without an error value.
            Err(payload) if !payload.is::<Cancelled>() => resume_unwind(payload),
            _ => {}
        }
    }
}

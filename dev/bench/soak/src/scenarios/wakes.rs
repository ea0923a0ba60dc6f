//! Fibers that wait: for each other, for threads, for time.

use std::io;
use std::panic::{self, AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uthread::thread::{Thread, park};
use uthread::{blocking, current, sleep, yield_now};

use super::trees::Planned;
use crate::random::{Choices as _, Random};
use crate::stage::{Stage, expect, join, join_all, spawn};

/// Interval at which a thread that waits for a fiber checks whether that was cancelled.
const GLANCE: Duration = Duration::from_millis(20);

/// Takes turns with a partner.
fn take_turns(turn: &AtomicU64, own: u64, rounds: u64, wait: impl Fn() -> bool, wake: impl Fn()) {
    for round in 0..rounds {
        while turn.load(Ordering::Acquire) != 2 * round + own {
            if !wait() {
                return;
            }
        }
        turn.store(2 * round + own + 1, Ordering::Release);
        wake();
    }
}

fn parks() -> bool {
    park();
    true
}

pub(super) fn each_other(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let rounds = 1 + random.u64(..200);
    let turn = Arc::new(AtomicU64::new(0));
    let (theirs, first) = (Arc::clone(&turn), current());
    let (sender, receiver) = std::sync::mpsc::channel::<Thread>();
    let second = spawn(stage, move |_| {
        sender.send(current()).expect("the first waits for it");
        first.unpark();
        take_turns(&theirs, 1, rounds, parks, || first.unpark());
    });
    let partner = loop {
        match receiver.try_recv() {
            Ok(partner) => break partner,
            Err(_) if second.is_finished() => return join(second),
            Err(_) => park(),
        }
    };
    take_turns(&turn, 0, rounds, parks, || partner.unpark());
    join(second)?;
    expect(turn.load(Ordering::Relaxed) == 2 * rounds, "a turn is lost")
}

pub(super) fn with_thread(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let rounds = 1 + random.u64(..20);
    let turn = Arc::new(AtomicU64::new(0));
    let (theirs, fiber, watched) = (Arc::clone(&turn), current(), Arc::clone(stage));
    let partner = thread::spawn(move || {
        let wait = || {
            thread::park_timeout(GLANCE);
            !watched.is_cut()
        };
        take_turns(&theirs, 1, rounds, wait, || fiber.unpark());
    });
    take_turns(&turn, 0, rounds, parks, || partner.thread().unpark());
    let ended = blocking(|| partner.join());
    expect(ended.is_ok(), "the thread panicked")
}

pub(super) fn sleeps(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let handles: Vec<_> = (0..1 + random.u64(..50))
        .map(|_| {
            let pause = random.pause(20_000);
            spawn(stage, move |stage| {
                let begin = Instant::now();
                sleep(pause);
                let elapsed = begin.elapsed();
                stage.expect_waited(elapsed >= pause, format_args!("{elapsed:?} of {pause:?}"))
            })
        })
        .collect();
    join_all(handles)
}

pub(super) fn yields(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let handles: Vec<_> = (0..1 + random.u64(..20))
        .map(|_| {
            let count = random.u64(..500);
            spawn(stage, move |_| (0..count).for_each(|_| yield_now()))
        })
        .collect();
    handles.into_iter().try_for_each(join)
}

pub(super) fn blocking_calls(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let handles: Vec<_> = (0..1 + random.u64(..20))
        .map(|_| {
            let (number, pause) = (random.u64(..), random.pause(1000));
            spawn(stage, move |stage| {
                // Borrowed by the other thread.
                let mut seen = 0;
                let called = panic::catch_unwind(AssertUnwindSafe(|| {
                    blocking(|| {
                        thread::sleep(pause);
                        seen = number;
                        if number.is_multiple_of(10) {
                            stage.tally.panics.add(1);
                            resume_unwind(Box::new(Planned(number)));
                        }
                        number
                    })
                }));
                match called {
                    Ok(value) => expect(value == number && seen == number, "another's value"),
                    Err(payload) if payload.is::<Planned>() => Ok(()),
                    Err(payload) => resume_unwind(payload),
                }
            })
        })
        .collect();
    join_all(handles)
}

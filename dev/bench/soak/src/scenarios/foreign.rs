//! Fibers that block their workers' threads, as those with thread-local storage of their own may.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uthread::{sleep, yield_now};

use crate::random::{Choices as _, Random};
use crate::stage::{Stage, expect, join, join_all, lock, spawn};

thread_local! {
    static OWN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Sends through a channel of `std` without room: each side waits for the other.
pub(super) fn channel(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let count = random.u64(..50);
    let (sender, receiver) = mpsc::sync_channel(0);
    let receiving = spawn(stage, move |_| receiver.iter().collect::<Vec<u64>>());
    let sent = (0..count).take_while(|number| sender.send(*number).is_ok());
    let sent = sent.count() as u64;
    drop(sender);
    let received = join(receiving)?;
    expect(
        sent == count && received.iter().copied().eq(0..count),
        "a message is lost",
    )
}

/// Counts under a lock of `std` that is held across waits.
pub(super) fn lock_across_waits(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let shared = Arc::new(Mutex::new(0));
    let fibers = 1 + random.u64(..10);
    let handles: Vec<_> = (0..fibers)
        .map(|_| {
            let (shared, pause) = (Arc::clone(&shared), random.pause(1000));
            spawn(stage, move |_| {
                let mut count = lock(&shared);
                let before = *count;
                sleep(pause);
                *count = before + 1;
                Ok(())
            })
        })
        .collect();
    join_all(handles)?;
    expect(*lock(&shared) == fibers, "two fibers had the lock")
}

/// Borrows values of `thread_local!` across waits and blocking sleeps.
pub(super) fn thread_locals(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let handles: Vec<_> = (0..1 + random.u64(..20))
        .map(|_| {
            let (number, pause) = (random.u64(..), random.pause(2000));
            spawn(stage, move |_| {
                OWN.with_borrow_mut(|own| {
                    expect(own.is_empty(), "another fiber's values")?;
                    own.push(number);
                    yield_now();
                    thread::sleep(pause);
                    sleep(pause);
                    expect(*own == [number], "the values have changed")
                })
            })
        })
        .collect();
    join_all(handles)
}

/// Computes for longer than the others may wait.
pub(super) fn computes(_: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let end = Instant::now() + Duration::from_micros(random.u64(..5000));
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    Ok(())
}

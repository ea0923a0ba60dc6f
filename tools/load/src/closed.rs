//! The closed loop: a connection sends as soon as it has been answered, so that as many messages as ever are in flight.

use std::time::Instant;

use crate::failure::Failure;
use crate::link::Link;
use crate::worker::{Drive, Slot};

/// Keeps a connection busy until the run is over; opens it anew when it breaks.
pub(crate) fn run(drive: &Drive<'_>, slot: &mut Slot, depth: usize) {
    while !drive.clock.is_over(Instant::now()) {
        let Some(mut link) = drive.link(slot) else {
            continue;
        };
        match exchange(drive, &mut link, depth, &mut slot.served) {
            Ok(Left::Over) => slot.link = Some(link),
            Ok(Left::ServerCloses) => drive.note_closing(link.flight.len()),
            Err(failure) => drive.note_broken(failure, link.flight.len()),
        }
    }
}

/// Why a connection that is in order was left.
enum Left {
    Over,
    ServerCloses,
}

fn exchange(
    drive: &Drive<'_>,
    link: &mut Link,
    depth: usize,
    served: &mut u64,
) -> Result<Left, Failure> {
    let mut now = Instant::now();
    loop {
        if !drive.clock.is_over(now) {
            link.fill(depth, now)?;
        } else if link.flight.is_empty() {
            return Ok(Left::Over);
        }
        link.receive()?;
        now = Instant::now();
        while let Some((due, answer)) = link.take_answer()? {
            *served += u64::from(drive.count(due, now));
            if answer.closes {
                return Ok(Left::ServerCloses);
            }
        }
        // After what has come: an answer in the last moment counts.
        link.flight.check_oldest(now, drive.timeout)?;
    }
}

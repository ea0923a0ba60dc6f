//! The closed loop: a connection sends when a response has arrived, so the number of messages in
//! flight stays constant.

use std::time::Instant;

use crate::drive::Drive;
use crate::failure::Failure;
use crate::link::Link;
use crate::task::Slot;

/// Keeps a connection busy until the run is over; reopens it after failures.
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

/// Reasons for leaving an intact connection.
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
        // Check this after receiving: a response in the last moment counts.
        link.flight.check_oldest(now, drive.timeout)?;
    }
}

//! Moves the bytes of one tunnel, a fiber for each direction.
//!
//! A direction that waits has a buffer for one message on its stack and nothing else. While more
//! arrives than fits the buffer, the bytes go from socket to socket inside the kernel; with TLS,
//! they go through a buffer of a record.

use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uthread::net::Shutdown;
use uthread::{sleep, try_scope};
use uthread_rustls::RECORD_BYTES;

use super::failure::is_shortage;
use crate::counters::Counter;
use crate::stream::Stream;

/// Size of the buffer of a direction: on the stack, beside the frames in its first page.
const MESSAGE_BYTES: usize = 1024;
/// Most to move before it is counted. Fits the pipe in between.
const STEP_BYTES: u64 = 64 * 1024;
/// Steps a second of a limited direction, so that its rate is even.
const STEPS_PER_SECOND: u64 = 20;

/// Bytes moved, by direction.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// From the client to the target.
    pub(crate) up: Counter,
    pub(crate) down: Counter,
}

/// Relays until both directions have ended. The end of one stream becomes that of the other; an
/// error of one direction ends both.
pub(crate) fn relay(
    client: &Stream,
    target: &Stream,
    moved: &Moved,
    rate_max: Option<NonZeroU64>,
) -> io::Result<()> {
    let ended = AtomicBool::new(false);
    let end = |from: &Stream, to: &Stream| {
        if ended.swap(true, Ordering::Relaxed) {
            // Closing the sockets comes next, and does the same.
            return Ok(());
        }
        // The kernel reports a reset once. If the other direction has got it, the stream seems to
        // end here.
        from.check_connected()?;
        to.shutdown(Shutdown::Write)
    };
    try_scope(|scope| {
        scope.spawn(|| {
            one_way(
                target,
                client,
                &moved.down,
                &mut Pace::new(rate_max),
                u64::MAX,
            )?;
            end(target, client)
        });
        one_way(
            client,
            target,
            &moved.up,
            &mut Pace::new(rate_max),
            u64::MAX,
        )?;
        end(client, target)
    })
}

/// Relays until the end of `from`, at most `bytes_max` bytes. Returns the number of bytes.
pub(super) fn one_way(
    mut from: &Stream,
    mut to: &Stream,
    moved: &Counter,
    pace: &mut Pace,
    bytes_max: u64,
) -> io::Result<u64> {
    let is_plain = from.is_plain() && to.is_plain();
    let mut message = [0; MESSAGE_BYTES];
    let mut record = Vec::new();
    let mut left = bytes_max;
    while left > 0 {
        let buffer = if record.is_empty() {
            &mut message[..]
        } else {
            &mut record[..]
        };
        let most = left.min(buffer.len() as u64) as usize;
        let count = from.read(&mut buffer[..most])?;
        if count == 0 {
            break;
        }
        to.write_all(&buffer[..count])?;
        moved.add(count as u64);
        pace.spend(count as u64);
        left -= count as u64;
        let is_full = count == buffer.len();
        if is_full && is_plain {
            left -= relay_received(from, to, moved, pace, left)?;
        } else if !is_plain && is_full == record.is_empty() {
            // From the small buffer to the large one while more arrives, and back.
            record = if is_full {
                vec![0; RECORD_BYTES]
            } else {
                Vec::new()
            };
        }
    }
    Ok(bytes_max - left)
}

/// Relays until all that has been received is sent, at most `bytes_max` bytes. Returns the number
/// of bytes.
fn relay_received(
    from: &Stream,
    to: &Stream,
    moved: &Counter,
    pace: &mut Pace,
    bytes_max: u64,
) -> io::Result<u64> {
    let mut left = bytes_max;
    loop {
        let received = rustix::io::ioctl_fionread(from)?;
        let count = match from.splice_to(to, received.min(pace.step_bytes).min(left)) {
            Ok(count) if count > 0 => count,
            // Without descriptors for a pipe, the bytes go through the buffer.
            Err(error) if !is_shortage(&error) => return Err(error),
            Ok(_) | Err(_) => return Ok(bytes_max - left),
        };
        moved.add(count);
        pace.spend(count);
        left -= count;
    }
}

/// Limits the rate of one direction, if it has a limit.
pub(super) struct Pace {
    per_second: Option<NonZeroU64>,
    step_bytes: u64,
    /// When the bytes moved so far are paid for.
    due: Instant,
}

impl Pace {
    pub(super) fn new(per_second: Option<NonZeroU64>) -> Pace {
        let step_bytes = per_second.map_or(STEP_BYTES, |rate| {
            (rate.get() / STEPS_PER_SECOND).clamp(1, STEP_BYTES)
        });
        Pace {
            per_second,
            step_bytes,
            due: Instant::now(),
        }
    }

    /// Waits for as long as `count` bytes may take. Time in which nothing was moved is not saved
    /// up.
    pub(super) fn spend(&mut self, count: u64) {
        if let Some(per_second) = self.per_second {
            let now = Instant::now();
            self.due =
                self.due.max(now) + Duration::from_secs_f64(count as f64 / per_second.get() as f64);
            sleep(self.due - now);
        }
    }
}

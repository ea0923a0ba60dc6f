//! The loop of all techniques with several requests at a time: it fills the slots, waits for the
//! first result and starts over.

use std::io;
use std::time::Instant;

use super::Work;
use crate::blocks;
use crate::tally::Tally;
use crate::walk::Request;

/// A mechanism that performs requests while the program goes on. A slot has a buffer for one block,
/// and at most one request.
pub(super) trait Engine {
    /// Returns the buffer of a slot without a request.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// Queues a request for a slot without one.
    ///
    /// # Errors
    ///
    /// The errors of the mechanism.
    fn push(&mut self, slot: usize, request: Request) -> io::Result<()>;

    /// Starts all queued requests, waits until at least `least` have completed, and passes on the
    /// results of all that have.
    ///
    /// # Errors
    ///
    /// The errors of the mechanism, not those of requests.
    fn wait(&mut self, least: usize, done: &mut Vec<Done>) -> io::Result<()>;

    /// Returns the number of system calls for requests and results, if the program makes them
    /// itself.
    fn calls(&self) -> Option<u64>;
}

/// The result of the request of a slot.
pub(super) struct Done {
    pub(super) slot: usize,
    pub(super) result: io::Result<usize>,
}

/// Performs the work with so many requests at a time.
pub(super) fn drive(mut engine: impl Engine, work: &Work) -> io::Result<Tally> {
    let mut tally = Tally::new();
    let mut requests: Vec<Option<(Request, Instant)>> = vec![None; work.depth];
    let mut idle: Vec<usize> = (0..work.depth).rev().collect();
    let mut done = Vec::with_capacity(work.depth);
    loop {
        while let Some(&slot) = idle.last() {
            let Some(request) = work.walk.next() else {
                break;
            };
            idle.pop();
            blocks::prepare(request, engine.buffer(slot));
            engine.push(slot, request)?;
            requests[slot] = Some((request, Instant::now()));
        }
        let in_flight = work.depth - idle.len();
        if in_flight == 0 {
            tally.calls = engine.calls();
            return Ok(tally);
        }
        let least = if work.is_batched { in_flight } else { 1 };
        engine.wait(least, &mut done)?;
        let now = Instant::now();
        for Done { slot, result } in done.drain(..) {
            let (request, begin) = requests[slot].take().expect("the slot had a request");
            blocks::check(request, result, engine.buffer(slot))?;
            tally.record(request, now - begin);
            idle.push(slot);
        }
    }
}

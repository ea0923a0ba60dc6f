//! Costs of a request, from its entry to its completion: on a ring that has never seen the flag, on
//! one that has, and in batches that are ordered.

use std::io::{self, Write};
use std::time::Instant;

use io_uring::squeue::Entry;

use crate::batch::{self, URGENT};
use crate::ring::{ENTRIES, Kind, Ring};

/// Sizes of the batches.
const SIZES: [usize; 4] = [1, 4, 16, ENTRIES];

/// Requests of a round.
const REQUESTS: usize = 16_384;

/// Rounds, of which the fastest counts: an interrupt may fall into the others.
const ROUNDS: usize = 7;

/// Number of entries of an ordered batch, of which the last is urgent.
const URGENT_OF: usize = 4;

pub(crate) fn measure(output: &mut dyn Write, has_flag: bool) -> io::Result<()> {
    for size in SIZES {
        let normal: Vec<_> = (0..size as u64).map(batch::nop).collect();
        let cost = nanoseconds(Ring::new(Kind::Plain)?, &normal)?;
        writeln!(output, "@@ cost {size} never {cost:.1}")?;
        if !has_flag {
            continue;
        }
        let cost = nanoseconds(Ring::with_flag(Kind::Plain)?, &normal)?;
        writeln!(output, "@@ cost {size} before {cost:.1}")?;
        let is_urgent = |index: usize| index % URGENT_OF == URGENT_OF - 1;
        let mixed = normal.into_iter().enumerate();
        let mixed: Vec<_> = mixed
            .map(|(index, entry)| {
                if is_urgent(index) {
                    entry.flags(URGENT)
                } else {
                    entry
                }
            })
            .collect();
        if size >= URGENT_OF {
            let cost = nanoseconds(Ring::with_flag(Kind::Plain)?, &mixed)?;
            writeln!(output, "@@ cost {size} now {cost:.1}")?;
        }
    }
    Ok(())
}

/// Returns the time of one request.
fn nanoseconds(mut ring: Ring, batch: &[Entry]) -> io::Result<f64> {
    let batches = REQUESTS / batch.len();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..batches {
            ring.push(batch)?;
            ring.submit(batch.len())?;
            ring.discard();
        }
        let requests = (batches * batch.len()) as f64;
        best = best.min(start.elapsed().as_nanos() as f64 / requests);
    }
    Ok(best)
}

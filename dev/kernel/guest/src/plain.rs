//! Regressions, after liburing's tests: batches without the flag do what they always did. Each runs
//! on rings that have never seen the flag, and on rings that have.

use std::io::{self, Write};
use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags};
use rustix::io::Errno;

use crate::batch;
use crate::outcome::Outcome;
use crate::ring::{ENTRIES, KINDS, Kind, Ring};

/// Creates a ring of a kind.
type Make = fn(Kind) -> io::Result<Ring>;

type Test = fn(Make) -> Outcome;

pub(crate) const TESTS: [(&str, Test); 8] = [
    ("batches_of_every_size", batches_of_every_size),
    ("links", links),
    ("failed_links", failed_links),
    ("hard_links", hard_links),
    ("drains", drains),
    ("the_queue_wraps", the_queue_wraps),
    ("a_part_of_the_queue", a_part_of_the_queue),
    ("refused_entries", refused_entries),
];

const NO_FILE: i32 = -1;

fn batches_of_every_size(make: Make) -> Outcome {
    for kind in KINDS {
        let mut ring = make(kind)?;
        for size in 1..=ENTRIES as u64 {
            let completions = ring.run(&nops(0..size))?;
            expect(kind, &completions, &in_order(0..size))?;
        }
    }
    Ok(format!("1 to {ENTRIES} entries, completed in order"))
}

fn links(make: Make) -> Outcome {
    for kind in KINDS {
        let mut ring = make(kind)?;
        for size in 2..=ENTRIES as u64 {
            let entries = linked(nops(0..size), Flags::IO_LINK);
            let completions = ring.run(&entries)?;
            expect(kind, &completions, &in_order(0..size))?;
        }
    }
    Ok(format!("chains of 2 to {ENTRIES} entries"))
}

/// Fails the second request of a chain, which cancels the rest of the chain and nothing else.
fn failed_links(make: Make) -> Outcome {
    let canceled = -Errno::CANCELED.raw_os_error();
    let failed = -Errno::BADF.raw_os_error();
    for kind in KINDS {
        let mut ring = make(kind)?;
        let mut chain = nops(0..4);
        chain[1] = batch::readable(NO_FILE, 1);
        let mut entries = linked(chain, Flags::IO_LINK);
        entries.push(batch::nop(4));
        let mut completions = ring.run(&entries)?;
        completions.sort_unstable();
        let expected = [(0, 0), (1, failed), (2, canceled), (3, canceled), (4, 0)];
        expect(kind, &completions, &expected)?;
    }
    Ok("EBADF, and ECANCELED for the rest of the chain".to_owned())
}

fn hard_links(make: Make) -> Outcome {
    let failed = -Errno::BADF.raw_os_error();
    for kind in KINDS {
        let mut ring = make(kind)?;
        let chain = vec![batch::readable(NO_FILE, 0), batch::nop(1), batch::nop(2)];
        let completions = ring.run(&linked(chain, Flags::IO_HARDLINK))?;
        expect(kind, &completions, &[(0, failed), (1, 0), (2, 0)])?;
    }
    Ok("a failed request does not cancel the rest".to_owned())
}

/// Checks that a drain waits for the request before it, and that the request behind it waits for
/// the drain.
fn drains(make: Make) -> Outcome {
    for kind in KINDS {
        let mut ring = make(kind)?;
        let (reader, mut writer) = io::pipe()?;
        let drain = batch::nop(1).flags(Flags::IO_DRAIN);
        ring.push(&[batch::readable(reader.as_raw_fd(), 0), drain, batch::nop(2)])?;
        ring.submit(0)?;
        let early = ring.completions();
        expect(kind, &early, &[])?;
        writer.write_all(b"x")?;
        ring.submit(3)?;
        let order: Vec<_> = ring.completions().iter().map(|it| it.0).collect();
        if order != [0, 1, 2] {
            return Err(format!("{kind:?}: completed in the order {order:?}").into());
        }
    }
    Ok("a drain waits, and what follows waits for it".to_owned())
}

fn the_queue_wraps(make: Make) -> Outcome {
    const ROUNDS: u64 = 200;
    /// Number of entries of a batch, which does not divide the size of the queue.
    const SIZE: u64 = 37;
    for kind in KINDS {
        let mut ring = make(kind)?;
        for round in 0..ROUNDS {
            let range = round * SIZE..(round + 1) * SIZE;
            let completions = ring.run(&nops(range.clone()))?;
            expect(kind, &completions, &in_order(range))?;
        }
    }
    Ok(format!(
        "{ROUNDS} batches of {SIZE} in a queue of {ENTRIES}"
    ))
}

fn a_part_of_the_queue(make: Make) -> Outcome {
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Polled) {
        let mut ring = make(kind)?;
        ring.push(&nops(0..8))?;
        let count = ring.submit_part(3)?;
        if count != 3 {
            return Err(format!("{kind:?}: {count} submitted instead of 3").into());
        }
        expect(kind, &ring.completions(), &in_order(0..3))?;
        let count = ring.submit(5)?;
        if count != 5 {
            return Err(format!("{kind:?}: {count} submitted instead of 5").into());
        }
        expect(kind, &ring.completions(), &in_order(3..8))?;
    }
    Ok("3 of 8 entries, then the rest".to_owned())
}

/// Checks that a refused entry ends a batch, unless the ring is to continue.
fn refused_entries(make: Make) -> Outcome {
    let refused = -Errno::INVAL.raw_os_error();
    let all = [(0, 0), (1, refused), (2, 0)];
    for (kind, first) in [(Kind::Plain, 2), (Kind::SubmitAll, 3)] {
        let mut ring = make(kind)?;
        ring.push(&[batch::nop(0), batch::refused(1), batch::nop(2)])?;
        let mut found = Vec::new();
        for (expected, so_far) in [(first, first), (3 - first, 3)] {
            let count = ring.submit(0)?;
            found.extend(ring.completions());
            if count != expected {
                return Err(format!("{kind:?}: {count} submitted instead of {expected}").into());
            }
            expect(kind, &found, &all[..so_far])?;
        }
    }
    Ok("EINVAL ends the batch, except with SUBMIT_ALL".to_owned())
}

fn nops(user_data: std::ops::Range<u64>) -> Vec<Entry> {
    user_data.map(batch::nop).collect()
}

/// Links all entries to one chain.
fn linked(entries: Vec<Entry>, link: Flags) -> Vec<Entry> {
    let last = entries.len() - 1;
    let entries = entries.into_iter().enumerate();
    let entries = entries.map(|(index, entry)| {
        if index == last {
            entry
        } else {
            entry.flags(link)
        }
    });
    entries.collect()
}

fn in_order(user_data: std::ops::Range<u64>) -> Vec<(u64, i32)> {
    user_data.map(|user_data| (user_data, 0)).collect()
}

fn expect(kind: Kind, found: &[(u64, i32)], expected: &[(u64, i32)]) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{kind:?}: {found:?} instead of {expected:?}"))
    }
}

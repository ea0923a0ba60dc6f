//! A ring of one of several kinds, which submits batches.

use std::{io, thread};

use io_uring::register::Restriction;
use io_uring::squeue::{Entry, Entry128, EntryMarker, Flags};
use io_uring::{IoUring, cqueue, opcode};

use crate::batch::{self, URGENT};

/// Size of the submission queue.
pub(crate) const ENTRIES: usize = 64;

/// How long a polling kernel thread stays awake, in milliseconds: less than the tests take between
/// two batches now and then, so that it is found awake and asleep.
const IDLE_MS: u32 = 2;

/// How often to look for room: a polling kernel thread completes requests slightly before it gives
/// their entries back.
const FULL_TRIES: usize = 1_000_000;

/// A user data that no test uses.
const PROBE: u64 = u64::MAX;

/// A kind of ring that takes another path through the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// Continues after a refused entry.
    SubmitAll,
    /// Without the array of indices.
    NoArray,
    /// Completes only when asked to, as the rings of the library.
    Deferred,
    /// A kernel thread submits.
    Polled,
    /// Entries have 128 bytes.
    Wide,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::Plain,
    Kind::SubmitAll,
    Kind::NoArray,
    Kind::Deferred,
    Kind::Polled,
    Kind::Wide,
];

pub(crate) struct Ring {
    kind: Kind,
    inner: Inner,
}

enum Inner {
    Narrow(IoUring),
    Wide(IoUring<Entry128>),
}

impl Ring {
    pub(crate) fn new(kind: Kind) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        match kind {
            Kind::Plain => {}
            Kind::SubmitAll => {
                builder.setup_submit_all();
            }
            Kind::NoArray => {
                builder.setup_no_sqarray();
            }
            Kind::Deferred => {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            Kind::Polled => {
                builder.setup_sqpoll(IDLE_MS);
            }
            Kind::Wide => {
                let ring = IoUring::<Entry128>::builder().build(ENTRIES as u32)?;
                return Ok(Ring {
                    kind,
                    inner: Inner::Wide(ring),
                });
            }
        }
        Ok(Ring {
            kind,
            inner: Inner::Narrow(builder.build(ENTRIES as u32)?),
        })
    }

    /// Returns a ring for nothing but requests without an operation, and with no other flags than
    /// `allowed`.
    pub(crate) fn restricted(allowed: Flags) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_r_disabled()
            .build(ENTRIES as u32)?;
        let submitter = ring.submitter();
        submitter.register_restrictions(&mut [
            Restriction::sqe_op(opcode::Nop::CODE),
            Restriction::sqe_flags_allowed(allowed.bits()),
        ])?;
        submitter.register_enable_rings()?;
        Ok(Ring {
            kind: Kind::Plain,
            inner: Inner::Narrow(ring),
        })
    }

    /// Returns a ring that has seen the flag, so that it orders the next batch.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the kernel does not know the flag, `PermissionDenied` if it is not
    /// permitted.
    pub(crate) fn with_flag(kind: Kind) -> io::Result<Ring> {
        let mut ring = Ring::new(kind)?;
        ring.probe()?;
        Ok(ring)
    }

    /// Submits a request with the flag that does nothing.
    ///
    /// # Errors
    ///
    /// The error that the request completes with; those of [`Ring::with_flag`].
    pub(crate) fn probe(&mut self) -> io::Result<()> {
        let completions = self.run(&[batch::nop(PROBE).flags(URGENT)])?;
        match completions[..] {
            [(PROBE, 0)] => Ok(()),
            [(PROBE, result)] => Err(io::Error::from_raw_os_error(-result)),
            _ => Err(io::Error::other(format!("{completions:?} of one request"))),
        }
    }

    /// Submits a batch, and returns the user data and result of each of its completions, in their
    /// order.
    pub(crate) fn run(&mut self, entries: &[Entry]) -> io::Result<Vec<(u64, i32)>> {
        let count = entries.len();
        self.push(entries)?;
        let submitted = self.submit(count)?;
        let completions = self.completions();
        // A kernel thread may have taken entries before the call, which does not count them.
        if submitted != count && self.kind != Kind::Polled || completions.len() != count {
            let completed = completions.len();
            let text = format!("{submitted} of {count} submitted, {completed} completed");
            return Err(io::Error::other(text));
        }
        Ok(completions)
    }

    pub(crate) fn push(&mut self, entries: &[Entry]) -> io::Result<()> {
        match &mut self.inner {
            Inner::Narrow(ring) => push(ring, entries),
            Inner::Wide(ring) => push(ring, entries),
        }
    }

    /// Submits everything, waits for that many completions if everything was submitted, and returns
    /// the number of submitted entries.
    pub(crate) fn submit(&mut self, wait_for: usize) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Narrow(ring) => ring.submit_and_wait(wait_for),
            Inner::Wide(ring) => ring.submit_and_wait(wait_for),
        }
    }

    /// Submits the first `count` entries only.
    #[allow(unsafe_code, reason = "a call without a safe form")]
    pub(crate) fn submit_part(&mut self, count: usize) -> io::Result<usize> {
        let submitter = match &mut self.inner {
            Inner::Narrow(ring) => ring.submitter(),
            Inner::Wide(ring) => ring.submitter(),
        };
        // SAFETY: there is no argument that the kernel would read.
        unsafe { submitter.enter::<u8>(count as u32, 0, 0, None) }
    }

    /// Returns the completions that are there.
    pub(crate) fn completions(&mut self) -> Vec<(u64, i32)> {
        let parts = |it: cqueue::Entry| (it.user_data(), it.result());
        match &mut self.inner {
            Inner::Narrow(ring) => ring.completion().map(parts).collect(),
            Inner::Wide(ring) => ring.completion().map(parts).collect(),
        }
    }

    /// Discards the completions that are there.
    pub(crate) fn discard(&mut self) {
        match &mut self.inner {
            Inner::Narrow(ring) => ring.completion().for_each(drop),
            Inner::Wide(ring) => ring.completion().for_each(drop),
        }
    }
}

/// Adds the whole batch at once, so that a polling kernel thread sees all of it or nothing.
fn push<S: EntryMarker>(ring: &mut IoUring<S>, entries: &[Entry]) -> io::Result<()> {
    let mut tries = 0;
    let mut queue = loop {
        let queue = ring.submission();
        if queue.capacity() - queue.len() >= entries.len() {
            break queue;
        }
        drop(queue);
        tries += 1;
        if tries == FULL_TRIES {
            return Err(io::Error::other("the submission queue is full"));
        }
        thread::yield_now();
    };
    for entry in entries {
        let entry = S::from(entry.clone());
        // SAFETY: no entry of these tests refers to memory.
        #[allow(unsafe_code, reason = "pushing an entry is unsafe in this crate")]
        let pushed = unsafe { queue.push(&entry) };
        pushed.map_err(io::Error::other)?;
    }
    Ok(())
}

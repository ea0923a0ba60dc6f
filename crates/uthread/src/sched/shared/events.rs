//! The events of a worker, for a tool that traces the process from outside and reads them there.

use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::probes;
use crate::root::{EVENT_WORDS, EVENTS_MAX, EventKind};

/// The events of a worker, which alone adds to them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The number of records written, and the records. Made when a tool traces for the first time.
    words: OnceLock<Box<[AtomicU64]>>,
    /// The address of the words, or zero.
    at: AtomicUsize,
}

impl Events {
    /// Where the address of the words is in this.
    pub(super) const AT: usize = std::mem::offset_of!(Events, at);

    /// Makes room for events, if there is none yet.
    pub(in crate::sched) fn make_room(&self) {
        let zeros = || iter::repeat_with(AtomicU64::default);
        let new = || zeros().take(1 + EVENTS_MAX * EVENT_WORDS).collect();
        let words: &[AtomicU64] = self.words.get_or_init(new);
        self.at.store(words.as_ptr().addr(), Ordering::Relaxed);
    }

    /// Adds a record. A reader finds it complete: it looks at the number before and after.
    pub(in crate::sched) fn add(&self, kind: EventKind, detail: u8, fields: [u64; 4]) {
        let Some((written, records)) = self.words.get().and_then(|words| words.split_first())
        else {
            return;
        };
        probes::pass(kind, detail, fields);
        let number = written.load(Ordering::Relaxed);
        let at = (number as usize % EVENTS_MAX) * EVENT_WORDS;
        let first = kind as u64 | u64::from(detail) << 8;
        for (word, value) in records[at..].iter().zip(iter::once(first).chain(fields)) {
            word.store(value, Ordering::Relaxed);
        }
        // Release orders the record before the number, by which another process reads it.
        written.store(number + 1, Ordering::Release);
    }
}

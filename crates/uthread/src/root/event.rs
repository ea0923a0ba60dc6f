//! What a worker records while a tool traces the process.

/// Number of words of a record: those of an event's kind and end, of its begin and its end in
/// nanoseconds, of the fiber's id, and one that depends on the kind; see the example of
/// [`EventKind`].
pub const EVENT_WORDS: usize = 5;

/// Number of records that a worker keeps. A later one replaces the oldest.
pub const EVENTS_MAX: usize = 1 << 15;

/// An event of a worker. Times are those of `CLOCK_MONOTONIC`.
///
/// A worker's records are at the address that the [`WorkerLayout`](super::WorkerLayout) names: a
/// word with the number of records written so far, and a ring of [`EVENTS_MAX`] records of
/// [`EVENT_WORDS`] words. The first word of a record has the kind in its lowest byte.
///
/// ```
/// use uthread::root::{EVENT_WORDS, EVENTS_MAX, EventKind};
///
/// assert_eq!(EventKind::from_byte(2), Some(EventKind::Ready));
/// assert_eq!(EventKind::from_byte(99), None);
/// assert_eq!(EVENT_WORDS * EVENTS_MAX * 8, 1_310_720);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum EventKind {
    /// A fiber has run. The second byte is the [`Leave`]; the last word is a pointer to the
    /// `Location` of its spawn.
    Run = 1,
    /// A fiber is ready. The last word is the id of the fiber that has woken it, or 0.
    Ready = 2,
    /// A fiber on this worker has woken one of another worker, whose id is the last word.
    Wake = 3,
    /// A fiber was spawned by the one whose id is the last word, or 0.
    Spawn = 4,
    /// The worker has slept. The last word is the number of operations that it has submitted before.
    Sleep = 5,
    /// The worker has submitted as many operations as the last word is.
    Submit = 6,
    /// The worker has taken new fibers from another one.
    Steal = 7,
    /// The fiber has come from another worker.
    Move = 8,
    /// The worker goes on with another thread, and the fiber keeps the one on which it runs.
    Detach = 9,
    /// The fiber has returned from its own thread.
    Return = 10,
}

/// Why a fiber has left its worker; see the example.
///
/// ```
/// use uthread::root::Leave;
///
/// assert_eq!(Leave::from_byte(Leave::End as u8), Some(Leave::End));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Leave {
    /// It lets others run.
    Yield = 1,
    /// It has used up its turn.
    Spent = 2,
    /// It waits for a fiber, a thread or a time.
    Park = 3,
    /// It waits for an operation of the kernel.
    Operation = 4,
    /// It has ended.
    End = 5,
    /// Its runtime has ended before it.
    Abandon = 6,
}

impl EventKind {
    /// Returns the kind with this number; see the example of [`EventKind`].
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<EventKind> {
        Some(match byte {
            1 => EventKind::Run,
            2 => EventKind::Ready,
            3 => EventKind::Wake,
            4 => EventKind::Spawn,
            5 => EventKind::Sleep,
            6 => EventKind::Submit,
            7 => EventKind::Steal,
            8 => EventKind::Move,
            9 => EventKind::Detach,
            10 => EventKind::Return,
            _ => return None,
        })
    }
}

impl Leave {
    /// Returns the reason with this number; see the example of [`Leave`].
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Leave> {
        Some(match byte {
            1 => Leave::Yield,
            2 => Leave::Spent,
            3 => Leave::Park,
            4 => Leave::Operation,
            5 => Leave::End,
            6 => Leave::Abandon,
            _ => return None,
        })
    }
}

//! The objects that the workers share, and their lines.

use std::collections::{BTreeMap, VecDeque};
use std::ptr;

use crate::atomic::AtomicUsize;
use crate::library::idle::{Idle, Sleeper};
use crate::library::inbox::Inbox;
use crate::memory::{Line, Memory};

pub(super) const LINE_BYTES: usize = 64;

/// A change of the scheduler whose effect the model shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Remedy {
    /// Pins the epoch to steal from a deque without a look whether it is empty.
    pub(crate) pins_empty: bool,
    /// Number of workers that share an `Idle`; all of them if it is zero.
    pub(crate) group: usize,
    /// Keeps a count of deques and handed fibers on a line of its own, which is read in place of
    /// the scans.
    pub(crate) has_hint: bool,
}

/// The fields of the library's `Remote` at their offsets in its release build.
#[repr(C, align(128))]
pub(super) struct Remote {
    pub(super) counters: [u64; 32],
    pub(super) inbox: Inbox<u64>,
    pub(super) delays_reactor_driver: [u64; 6],
    pub(super) handed: AtomicUsize,
    pub(super) task_ready: [u64; 4],
    pub(super) waker: [u64; 3],
    pub(super) names_idle: [u64; 8],
    pub(super) new: [u64; 2],
    pub(super) steal_handle: [u64; 3],
    pub(super) sleeper: Sleeper,
}

impl Remote {
    fn new() -> Box<Remote> {
        Box::new(Remote {
            counters: [0; 32],
            inbox: Inbox::default(),
            delays_reactor_driver: [0; 6],
            handed: AtomicUsize::new(0),
            task_ready: [0; 4],
            waker: [0; 3],
            names_idle: [0; 8],
            new: [0; 2],
            steal_handle: [0; 3],
            sleeper: Sleeper::default(),
        })
    }
}

/// An `Idle`, alone on its line.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Padded(pub(super) Idle);

/// The lines of one worker.
pub(super) struct Worker {
    pub(super) remote: Box<Remote>,
    /// The pointer to its deque, `new`.
    pub(super) handle: Line,
    /// The number of handed fibers.
    pub(super) handed: Line,
    pub(super) waker: Line,
    /// The buffer of the inbox.
    pub(super) items: Line,
    /// `front` and `back` of its deque.
    pub(super) ends: Line,
    pub(super) slots: Line,
    pub(super) deque: VecDeque<u64>,
    /// Its epoch in crossbeam-epoch, and the number of its pins.
    pub(super) epoch: Line,
    pub(super) pins: u64,
    /// Number of looks at others.
    pub(super) checks: usize,
    pub(super) is_searching: bool,
    pub(super) saw_work: bool,
}

/// The lines that all workers share.
pub(super) struct Common {
    pub(super) injector_head: Line,
    pub(super) injector_tail: Line,
    pub(super) injector_slots: Line,
    pub(super) woken_head: Line,
    pub(super) woken_tail: Line,
    pub(super) state: Line,
    pub(super) notifier: Line,
    pub(super) shortage: Line,
    pub(super) spread: Line,
    pub(super) ids: Line,
    pub(super) global_epoch: Line,
    pub(super) hint: Line,
}

/// The runtime of a run.
pub(crate) struct Runtime {
    pub(super) remedy: Remedy,
    pub(super) idles: Vec<Padded>,
    pub(super) workers: Vec<Worker>,
    pub(super) common: Common,
    /// The parking lot of the process.
    pub(super) buckets: Vec<Line>,
    pub(super) injected: VecDeque<u64>,
    pub(super) spread: usize,
    /// The line of each recorded address, by the number of the line.
    pub(super) recorded: BTreeMap<usize, Line>,
}

/// Adds the lines of an object.
fn add_lines<T>(
    memory: &mut Memory,
    recorded: &mut BTreeMap<usize, Line>,
    object: &T,
    names: &[(usize, &'static str)],
) {
    let begin = ptr::from_ref(object).addr();
    for line in 0..size_of::<T>().div_ceil(LINE_BYTES) {
        let named = names.iter().rev().find(|(from, _)| *from <= line);
        let name = named.map_or("Remote", |(_, name)| *name);
        recorded.insert(begin / LINE_BYTES + line, memory.add(name));
    }
}

fn new_worker(memory: &mut Memory, recorded: &mut BTreeMap<usize, Line>) -> Worker {
    let remote = Remote::new();
    let inbox = std::mem::offset_of!(Remote, inbox) / LINE_BYTES;
    let sleeper = std::mem::offset_of!(Remote, sleeper) / LINE_BYTES;
    let names = [
        (0, "Remote: counters"),
        (inbox, "Remote: inbox"),
        (inbox + 1, "Remote: handed"),
        (inbox + 2, "Remote: waker and handles"),
        (sleeper, "Remote: sleeper"),
    ];
    add_lines(memory, recorded, &*remote, &names);
    let begin = ptr::from_ref(&*remote).addr();
    let at = |offset: usize| recorded[&((begin + offset) / LINE_BYTES)];
    Worker {
        handle: at(std::mem::offset_of!(Remote, new)),
        handed: at(std::mem::offset_of!(Remote, handed)),
        waker: at(std::mem::offset_of!(Remote, waker)),
        items: memory.add("inbox: buffer"),
        ends: memory.add("deque: front and back"),
        slots: memory.add("deque: buffer"),
        deque: VecDeque::new(),
        epoch: memory.add("epoch of a worker"),
        pins: 0,
        checks: 0,
        is_searching: false,
        saw_work: false,
        remote,
    }
}

impl Runtime {
    pub(crate) fn new(memory: &mut Memory, workers: usize, remedy: Remedy) -> Runtime {
        let mut recorded = BTreeMap::new();
        let group = if remedy.group == 0 {
            workers
        } else {
            remedy.group
        };
        let idles: Vec<Padded> = (0..workers.div_ceil(group))
            .map(|_| Padded::default())
            .collect();
        for idle in &idles {
            add_lines(memory, &mut recorded, idle, &[(0, "Idle")]);
        }
        let workers = (0..workers)
            .map(|_| new_worker(memory, &mut recorded))
            .collect();
        Runtime {
            remedy: Remedy { group, ..remedy },
            idles,
            workers,
            common: Common {
                injector_head: memory.add("injector: head"),
                injector_tail: memory.add("injector: tail"),
                injector_slots: memory.add("injector: block"),
                woken_head: memory.add("woken: head"),
                woken_tail: memory.add("woken: tail"),
                state: memory.add("Shared: state"),
                notifier: memory.add("Shared: notifier"),
                shortage: memory.add("Shared: shortage"),
                spread: memory.add("Shared: spread"),
                ids: memory.add("ids of fibers"),
                global_epoch: memory.add("global epoch"),
                hint: memory.add("hint"),
            },
            // `BUCKETS` of sync/buckets.rs.
            buckets: (0..64).map(|_| memory.add("parking lot: bucket")).collect(),
            injected: VecDeque::new(),
            spread: 0,
            recorded,
        }
    }
}

//! Where a debugger finds the fibers of a process, from outside or in a core file.
//!
//! The root lies in a section of its own, which has a name also in a stripped program. It leads to
//! the workers, and each of them to the list of the fibers that it has started, which the reactor
//! keeps anyway, and to its counters. For a fiber, only why it leaves its stack is recorded, the number
//! of the descriptor that it waits for, and the lock or the fiber. The root also says where the fields of a fiber and of
//! a worker are, so that a debugger need not be of the same build.
//!
//! ```text
//!   section -> Root -> [Entry] -> Vec<FiberRef> -> Control -> Top of its stack
//!                              -> Remote, with the counters
//! ```
//!
//! Beside the root is a script for gdb that reads it, in the section where gdb looks for scripts. The
//! attribute `debugger_visualizer` would put it there only in builds with debug information, and
//! this also helps without.

mod event;
mod waits_for;

use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

pub use self::event::{EVENT_WORDS, EVENTS_MAX, EventKind, Leave};
pub use self::waits_for::{WaitsFor, cycle};

/// The section of the root. A program with several versions of the library has several roots in it.
pub const SECTION: &str = "uthread_root";

/// The first bytes of a root.
pub const MAGIC: [u8; 8] = *b"uthread\0";

/// The version of what follows, including the meaning of each field. The script for gdb has it, too.
pub const VERSION: u32 = 5;

/// Where a debugger begins.
///
/// ```
/// use uthread::root::{Entry, Layout, Reason, Root, WorkerLayout};
///
/// // As a debugger reads it, four bytes at a time.
/// let layout = Layout::from_words(std::array::from_fn(|index| index as u32));
/// assert_eq!((layout.id, layout.spawn_site), (0, 1));
/// assert_eq!((Root::LAYOUT_AT + Layout::BYTES).next_multiple_of(8), Root::CHANGES_AT);
/// assert_eq!(Root::ENTRIES_AT + 16, Root::WORKER_LAYOUT_AT);
/// let layout = WorkerLayout::from_words(std::array::from_fn(|index| index as u32));
/// assert_eq!((layout.state, layout.running), (0, 1));
/// assert_eq!(size_of::<Entry>(), 5 * size_of::<usize>());
/// assert_eq!(Reason::Submitted as u8, 2);
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Root {
    magic: [u8; 8],
    version: u32,
    /// The size of the root, a multiple of which follows if there are several.
    bytes: u32,
    layout: Layout,
    /// Odd while the table of workers is being replaced.
    changes: AtomicUsize,
    entries: AtomicPtr<Entry>,
    entry_count: AtomicUsize,
    worker_layout: WorkerLayout,
    /// The time of `CLOCK_MONOTONIC` in nanoseconds until which a tool wants the workers to record
    /// what they do. Zero if none does.
    traced_until: AtomicU64,
}

/// The offsets of the parts of a root, in bytes.
impl Root {
    /// That of the version.
    pub const VERSION_AT: usize = offset_of!(Root, version);
    /// That of the size of the root.
    pub const BYTES_AT: usize = offset_of!(Root, bytes);
    /// That of the [`Layout`].
    pub const LAYOUT_AT: usize = offset_of!(Root, layout);
    /// That of the number of changes, which is odd while one is under way.
    pub const CHANGES_AT: usize = offset_of!(Root, changes);
    /// That of the address of the first [`Entry`], and of their number after it.
    pub const ENTRIES_AT: usize = offset_of!(Root, entries);
    /// That of the [`WorkerLayout`].
    pub const WORKER_LAYOUT_AT: usize = offset_of!(Root, worker_layout);
    /// That of the time until which the workers are to record [events](EventKind), in nanoseconds of
    /// `CLOCK_MONOTONIC`, which a tool writes.
    pub const TRACED_UNTIL_AT: usize = offset_of!(Root, traced_until);
}

/// The offsets of fields in bytes; see the example of [`Root`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[non_exhaustive]
pub struct Layout {
    /// In a fiber: its id, a nonzero `u64`.
    pub id: u32,
    /// In a fiber: a pointer to the `Location` of its spawn.
    pub spawn_site: u32,
    /// In a fiber: its wake-up token, a byte: 0 it runs or may run, 1 it is parked, 2 it was woken.
    pub token: u32,
    /// In a fiber: why it has left its stack, a byte. See [`Reason`].
    pub reason: u32,
    /// In a fiber: the pointer to the top of its stack, null before it has started and afterwards.
    pub top: u32,
    /// In a fiber: an address close above what it has saved on its stack; null before it has
    /// suspended for the first time. The three lowest bits have another meaning.
    pub left_off: u32,
    /// In a fiber: a pointer to its state that few fibers have, or null.
    pub cold: u32,
    /// In a fiber: the index of its worker.
    pub home: u32,
    /// In the state that few fibers have: its name, a pointer and a length, or a null pointer.
    pub name: u32,
    /// In the top of a stack: the lowest address of the stack, and the end of its memory after it.
    pub limits: u32,
    /// In the top of a stack: the fiber.
    pub fiber: u32,
    /// In a fiber: the number of the last switch to it among those of its worker, a `u32` that wraps
    /// around.
    pub last_switch: u32,
    /// In a fiber: the pointer to its record; null before it has started, and if it has no
    /// thread-local storage of its own.
    pub record: u32,
    /// In a record: a word, which is 2 if the fiber runs without its worker.
    pub claim: u32,
    /// In a fiber that waits for an operation of the kernel: the number of the descriptor that the
    /// operation is on, an `i32`; negative if it is on none.
    pub descriptor: u32,
    /// In a fiber: a pointer to its scope, or null.
    pub scope: u32,
    /// In a scope: the id of the fiber that has made it, a `u64`; zero if a thread has.
    pub scope_parent: u32,
    /// In the top of a stack: what the fiber waits for while it is parked, a `u64` that
    /// [`Awaited::of_word`] explains.
    pub awaited: u32,
    /// The size of a fiber's fields.
    pub fiber_bytes: u32,
}

impl Layout {
    /// The size in bytes.
    pub const BYTES: usize = size_of::<Layout>();

    /// Returns the layout that consists of these words; see the example of [`Root`].
    #[must_use]
    pub fn from_words(words: [u32; Layout::BYTES / 4]) -> Layout {
        let mut words = words.into_iter();
        let mut next = || words.next().expect("a word for each field");
        Layout {
            id: next(),
            spawn_site: next(),
            token: next(),
            reason: next(),
            top: next(),
            left_off: next(),
            cold: next(),
            home: next(),
            name: next(),
            limits: next(),
            fiber: next(),
            last_switch: next(),
            record: next(),
            claim: next(),
            descriptor: next(),
            scope: next(),
            scope_parent: next(),
            awaited: next(),
            fiber_bytes: next(),
        }
    }
}

/// The offsets of fields in the state of a worker that others access, in bytes. A field is a `u64`
/// that only grows, unless stated otherwise. They are those of `WorkerMetrics`, which describes
/// them; see the example of [`Root`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[non_exhaustive]
pub struct WorkerLayout {
    /// Whether it sleeps, a byte: 0 it is awake.
    pub state: u32,
    /// The id of the fiber that it runs, or has just run; 0 if it runs none.
    pub running: u32,
    /// A pointer to the `Location` of the spawn of that fiber, or of an earlier one, or null.
    pub spawn_site: u32,
    /// Number of fibers started.
    pub fibers: u32,
    /// Number of fibers ended.
    pub ended: u32,
    /// Number of switches.
    pub switches: u32,
    /// Number of steals.
    pub steals: u32,
    /// Number of times that it took new fibers from outside.
    pub injected: u32,
    /// Number of system calls of the driver.
    pub enters: u32,
    /// Number of operations submitted.
    pub submissions: u32,
    /// Number of operations completed.
    pub completions: u32,
    /// Number of stalls.
    pub stalls: u32,
    /// Number of sleeps.
    pub sleeps: u32,
    /// Duration of the sleeps that have ended, in nanoseconds.
    pub idle_ns: u32,
    /// A pointer to its [events](EventKind), or null before it has recorded any.
    pub events: u32,
}

impl WorkerLayout {
    /// The size in bytes.
    pub const BYTES: usize = size_of::<WorkerLayout>();

    /// Returns the layout that consists of these words; see the example of [`Root`].
    #[must_use]
    pub fn from_words(words: [u32; WorkerLayout::BYTES / 4]) -> WorkerLayout {
        let mut words = words.into_iter();
        let mut next = || words.next().expect("a word for each field");
        WorkerLayout {
            state: next(),
            running: next(),
            spawn_site: next(),
            fibers: next(),
            ended: next(),
            switches: next(),
            steals: next(),
            injected: next(),
            enters: next(),
            submissions: next(),
            completions: next(),
            stalls: next(),
            sleeps: next(),
            idle_ns: next(),
            events: next(),
        }
    }
}

/// Why a fiber has left its stack, as a byte; see the example of [`Root`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reason {
    /// It has let others run, or what it waited for has come.
    Ready = 0,
    /// It waits to be woken, unless its token says that it was.
    Parked = 1,
    /// It waits for an operation of the kernel.
    Submitted = 2,
    /// It has run without its worker, and waits for that.
    Alone = 3,
    /// It is never resumed.
    Abandoned = 4,
}

/// What a parked fiber waits for, as far as one fiber has to bring it.
///
/// ```
/// use uthread::root::Awaited;
///
/// let lock = Awaited::Lock(0x7000);
/// assert_eq!(Awaited::of_word(lock.to_word()), Some(lock));
/// assert_eq!(Awaited::of_word(0), None);
/// // The state of a lock that a fiber has locked for writing, and that of one with two readers.
/// assert_eq!(Awaited::holder_bits(129 << 2 | 1), Some(129));
/// assert_eq!(Awaited::holder_bits(2 << 2), None);
/// assert_eq!(Awaited::bits_of(1 << 40 | 129 << 6), 129);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Awaited {
    /// A lock, whose state, a `u32`, has this address. [`Awaited::holder_bits`] explains that.
    Lock(u64),
    /// The end of the fiber with this id.
    End(u64),
    /// The end of a fiber that has a thread of its own. The id of the thread, a `u32`, has this
    /// address; it is zero before the thread has begun.
    Thread(u64),
}

impl Awaited {
    const LOCK: u64 = 1;
    const END: u64 = 2;
    const THREAD: u64 = 3;
    const TAG_BITS: u32 = 2;
    /// Number of bits by which the state of a lock names its holder, and of those that it leaves out
    /// at the low end of the address, as no two fibers are that close.
    const HOLDER_BITS: u32 = 30;
    const HOLDER_SHIFT: u32 = 6;

    /// Returns what a word says. `None` if it is zero: the fiber waits for something else. See the
    /// example of [`Awaited`].
    #[must_use]
    pub fn of_word(word: u64) -> Option<Awaited> {
        let value = word >> Awaited::TAG_BITS;
        match word % (1 << Awaited::TAG_BITS) {
            Awaited::LOCK => Some(Awaited::Lock(value << Awaited::TAG_BITS)),
            Awaited::END => Some(Awaited::End(value)),
            Awaited::THREAD => Some(Awaited::Thread(value << Awaited::TAG_BITS)),
            _ => None,
        }
    }

    /// Returns the word that says this; see the example of [`Awaited`].
    #[must_use]
    pub fn to_word(self) -> u64 {
        match self {
            Awaited::Lock(address) => address | Awaited::LOCK,
            Awaited::End(id) => id << Awaited::TAG_BITS | Awaited::END,
            Awaited::Thread(address) => address | Awaited::THREAD,
        }
    }

    /// Returns bits of the address of the fiber that holds a lock with this state, as its only
    /// holder: those that [`bits_of`](Awaited::bits_of) returns. `None` if there is none, if that is
    /// a thread, or if it has been handed the lock and has not run since. See the example of
    /// [`Awaited`].
    #[must_use]
    pub fn holder_bits(state: u32) -> Option<u32> {
        let bits = state >> (u32::BITS - Awaited::HOLDER_BITS);
        (state & 1 != 0 && bits != 0).then_some(bits)
    }

    /// Returns the bits of the address of a fiber by which the state of a lock names it. Those of
    /// fibers that live at the same time differ, within 64 GiB. See the example of [`Awaited`].
    #[inline]
    #[must_use]
    pub fn bits_of(address: u64) -> u32 {
        (address >> Awaited::HOLDER_SHIFT) as u32 & (u32::MAX >> (u32::BITS - Awaited::HOLDER_BITS))
    }
}

/// A worker, in a table to which the root leads. It is only read; see the example of [`Root`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[non_exhaustive]
pub struct Entry {
    /// The address of the `Vec` of references to fibers: three words, of which the highest is the
    /// address of the references, and the lowest their number.
    pub fibers: usize,
    /// The address of the state that the workers of a runtime share, which tells runtimes apart.
    pub runtime: usize,
    /// Its index in its runtime.
    pub index: usize,
    /// The address of its history: a `u64` that is odd while the rest is being changed, a `u64` with
    /// the number of samples, and the samples, in the order of their times. Each is two `u64`: a
    /// number of completed switches, and a time in nanoseconds, by `CLOCK_MONOTONIC`, at which the
    /// worker had completed these and no more.
    pub history: usize,
    /// The address of its state that others access, to which the [`WorkerLayout`] applies.
    pub remote: usize,
}

impl Root {
    /// Creates the root of no worker.
    pub(crate) const fn new(layout: Layout, worker_layout: WorkerLayout) -> Root {
        Root {
            magic: MAGIC,
            version: VERSION,
            bytes: size_of::<Root>() as u32,
            layout,
            changes: AtomicUsize::new(0),
            entries: AtomicPtr::new(ptr::null_mut()),
            entry_count: AtomicUsize::new(0),
            worker_layout,
            traced_until: AtomicU64::new(0),
        }
    }

    /// Returns `true` if a tool wants the workers to record what they do now.
    pub(crate) fn is_traced(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let until = self.traced_until.load(Ordering::Relaxed);
        until != 0 && now_ns() < until
    }

    /// Changes the table of workers, to which this is the only root. A debugger that stops the
    /// process in between sees that it does.
    pub(crate) fn change(&self, entries: &mut Vec<Entry>, action: impl FnOnce(&mut Vec<Entry>)) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        action(entries);
        self.entries.store(entries.as_mut_ptr(), Ordering::Relaxed);
        self.entry_count.store(entries.len(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Begins with the kind and the name of a script, by which gdb runs each version once.
const GDB_SCRIPT: &str = concat!(
    "\x04uthread-",
    env!("CARGO_PKG_VERSION"),
    "\n",
    include_str!("root/fibers.py"),
    "\0"
);

#[used]
#[allow(unsafe_code, reason = "a section with a name")]
// SAFETY: the section consists of scripts, of which each ends with a zero.
#[unsafe(link_section = ".debug_gdb_scripts")]
static GDB_SCRIPT_BYTES: [u8; GDB_SCRIPT.len()] = {
    let mut bytes = [0; GDB_SCRIPT.len()];
    bytes.copy_from_slice(GDB_SCRIPT.as_bytes());
    bytes
};

//! The workers of the process, where a debugger finds them.

use std::mem::offset_of;
use std::ptr;
use std::sync::Mutex;
use std::time::Instant;

use super::events::Events;
use super::history;
use super::idle::Sleeper;
use super::probes;
use super::remote::Remote;
use crate::atomic::lock;
use crate::fiber::{self, FiberRef};
use crate::forked::PerProcess;
use crate::root::{Entry, Root, WorkerLayout};

#[used]
#[allow(unsafe_code, reason = "a section with a name")]
// SAFETY: the name has no other meaning to a linker. It is `root::SECTION`.
#[unsafe(link_section = "uthread_root")]
static ROOT: Root = Root::new(fiber::LAYOUT, WORKER_LAYOUT);

const WORKER_LAYOUT: WorkerLayout = WorkerLayout {
    state: offset_of!(Remote, sleeper) as u32,
    running: offset_of!(Remote, counters.running) as u32,
    spawn_site: offset_of!(Remote, counters.spawn_site) as u32,
    fibers: offset_of!(Remote, counters.fibers) as u32,
    ended: offset_of!(Remote, counters.ended) as u32,
    switches: offset_of!(Remote, counters.switches) as u32,
    steals: offset_of!(Remote, counters.steals) as u32,
    injected: offset_of!(Remote, counters.injected) as u32,
    enters: offset_of!(Remote, counters.enters) as u32,
    submissions: offset_of!(Remote, counters.submissions) as u32,
    completions: offset_of!(Remote, counters.completions) as u32,
    stalls: offset_of!(Remote, counters.stalls) as u32,
    sleeps: offset_of!(Remote, counters.sleeps) as u32,
    idle_ns: offset_of!(Remote, counters.idle_ns) as u32,
    events: (offset_of!(Remote, events) + Events::AT) as u32,
};

// It is its state.
const _: () = assert!(size_of::<Sleeper>() == 1);

/// What the root refers to.
static ENTRIES: PerProcess<Mutex<Vec<Entry>>> =
    PerProcess::new(Mutex::new(Vec::new()), Mutex::default);

/// Adds a worker of the runtime with this address. Its list of fibers and the part that others
/// access stay where they are until the worker is [removed](remove).
pub(in crate::sched) fn add(fibers: &Vec<FiberRef>, runtime: usize, remote: &Remote) {
    let entry = Entry {
        fibers: ptr::from_ref(fibers).addr(),
        runtime,
        index: remote.index as usize,
        history: ptr::from_ref(&remote.history).addr(),
        remote: ptr::from_ref(remote).addr(),
    };
    ROOT.change(&mut lock(ENTRIES.get()), |entries| entries.push(entry));
}

/// Removes a worker.
pub(in crate::sched) fn remove(fibers: &Vec<FiberRef>) {
    let fibers = ptr::from_ref(fibers).addr();
    let change = |entries: &mut Vec<Entry>| entries.retain(|entry| entry.fibers != fibers);
    ROOT.change(&mut lock(ENTRIES.get()), change);
}

/// Returns `true` if a tool wants the workers to record what they do.
pub(in crate::sched) fn is_traced(now: Instant) -> bool {
    probes::are_attached() || ROOT.is_traced(|| history::time_ns(now))
}

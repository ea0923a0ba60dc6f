//! The workers of the process, where a debugger finds them.

use std::ptr;
use std::sync::Mutex;

use super::remote::Remote;
use crate::atomic::lock;
use crate::fiber::{self, FiberRef};
use crate::root::{Entry, Root};

#[used]
#[allow(unsafe_code, reason = "a section with a name")]
// SAFETY: the name has no other meaning to a linker. It is `root::SECTION`.
#[unsafe(link_section = "uthread_root")]
static ROOT: Root = Root::new(fiber::LAYOUT);

/// What the root refers to.
static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Adds a worker of the runtime with this address. Its list of fibers and the part that others
/// access stay where they are until the worker is [removed](remove).
pub(in crate::sched) fn add(fibers: &Vec<FiberRef>, runtime: usize, remote: &Remote) {
    let entry = Entry {
        fibers: ptr::from_ref(fibers).addr(),
        runtime,
        index: remote.index as usize,
        history: ptr::from_ref(&remote.history).addr(),
    };
    ROOT.change(&mut lock(&ENTRIES), |entries| entries.push(entry));
}

/// Removes a worker.
pub(in crate::sched) fn remove(fibers: &Vec<FiberRef>) {
    let fibers = ptr::from_ref(fibers).addr();
    let change = |entries: &mut Vec<Entry>| entries.retain(|entry| entry.fibers != fibers);
    ROOT.change(&mut lock(&ENTRIES), change);
}

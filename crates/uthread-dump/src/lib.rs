//! Shows the fibers of a process with uthread, from outside: where each one is, what it waits for
//! and on which file or socket, and where it was spawned. The process need not help, nor be built for it: a release build
//! without frame pointers will do.
//!
//! [`dump`] copies what the fibers use of their stacks; then it stops all threads of the process,
//! copies the stacks of those that have run meanwhile, and lets it continue. It unwinds the copies
//! by the tables that each program has for panics, and groups the fibers by equal backtraces.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let report = uthread_dump::dump(4711)?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! [`dump_core`] reads the fibers of a core file instead, and [`dump_running`] those of a process that
//! is not stopped. [`Watch`] counts fibers, and what workers
//! do over time, and does not stop the process. [`trace`](trace()) records each of their steps.
//!
//! x86-64 only.

#![forbid(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod ahead;
mod awaited;
mod controls;
mod core_file;
mod descriptors;
mod fibers;
mod history;
mod interrupted;
mod looks;
mod memory;
mod model;
mod modules;
mod opened;
mod origins;
mod process;
mod reader;
mod recording;
mod report;
mod roots;
mod sample;
mod sites;
mod snapshot;
mod sockets;
mod stat;
mod taken;
mod trace;
mod watch;

use std::path::Path;

use anyhow::Result;

pub use model::{Frame, State};
pub use recording::trace;
pub use report::{Group, Member, Report};
pub use sample::{Activity, Counts, Sample, Site, States, Worker};
pub use trace::{Event, Trace, TracedWorker};
pub use uthread::root::WaitsFor;
pub use watch::Watch;

use ahead::Ahead;
use core_file::Core;
use modules::Modules;
use process::{Process, Running};

/// Number of times that the fibers are copied while the process runs, before it is stopped: the
/// second time takes less, and so fewer fibers change meanwhile.
const ROUNDS_AHEAD: u32 = 2;

/// Returns the fibers of a process. What the descriptors refer to that they wait for is looked up
/// right afterwards, when the process runs again.
///
/// # Errors
///
/// There is no such process; it may not be traced, by `ptrace(2)`; it does not use the library, or
/// another version of it.
pub fn dump(pid: i32) -> Result<Report> {
    let modules = Modules::of(process::mappings(pid)?);
    let ahead = look_ahead(pid, &modules);
    let mut process = Process::stop(pid)?;
    let taken = fibers::take(&process, &modules, ahead)?;
    let stopped = process.resume();
    let copied = taken.finish();
    let mut report = Report::new(pid, copied, &process, &modules);
    report.set_stopped(stopped);
    report.find_targets();
    Ok(report)
}

/// Returns the fibers of a process that runs on meanwhile, which may be the calling one. Those that
/// run or are resumed while they are copied are [`State::Moving`], without their calls.
///
/// # Errors
///
/// There is no such process; its memory may not be read, by `process_vm_readv(2)`, which the calling
/// process always may; it does not use the library, or another version of it.
///
/// ```
/// # fn main() -> anyhow::Result<()> {
/// uthread::run(|| {
///     let waits = uthread::spawn(uthread::thread::park);
///     uthread::yield_now();
///     let report = uthread_dump::dump_running(std::process::id().cast_signed())?;
///     println!("{report}"); // Where each of the two is, but for the caller.
///     assert_eq!(report.fibers(), 2);
///     waits.thread().unpark();
///     waits.join().unwrap();
///     # anyhow::Ok(())
/// })
/// # }
/// ```
pub fn dump_running(pid: i32) -> Result<Report> {
    let modules = Modules::of(process::mappings(pid)?);
    let memory = Running(pid);
    if let Some(root) = modules.roots.first() {
        memory.probe(root.start)?;
    }
    let mut ahead = look_ahead(pid, &modules);
    ahead.leave_out_alone(&memory);
    let taken = fibers::take(&memory, &modules, ahead)?;
    let mut copied = taken.finish();
    copied.leave_out_moving();
    let mut report = Report::new(pid, copied, &memory, &modules);
    report.find_targets();
    Ok(report)
}

/// Copies the fibers while the process runs.
fn look_ahead(pid: i32, modules: &Modules) -> Ahead {
    (0..ROUNDS_AHEAD).fold(Ahead::default(), |ahead, _| {
        let taken = fibers::take(&Running(pid), modules, ahead);
        taken.map_or_else(|_| Ahead::default(), |taken| Ahead::of(taken.finish()))
    })
}

/// Returns the fibers of a process that has left a core file. `program` is the file of its program,
/// if that is not where it was.
///
/// # Errors
///
/// The core file cannot be read, or is none; the process did not use the library, or another
/// version of it.
pub fn dump_core(path: &Path, program: Option<&Path>) -> Result<Report> {
    let core = Core::open(path, program)?;
    let modules = Modules::of(core.mappings.clone());
    let copied = fibers::take(&core, &modules, Ahead::default())?.finish();
    let report = Report::new(core.pid, copied, &core, &modules);
    Ok(Report {
        is_core: true,
        ..report
    })
}

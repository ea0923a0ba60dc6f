//! Looks at the workers of a process: what they count, and what they run right now. A look takes
//! some system calls of the watching process, and none of the watched one.

use anyhow::{Result, bail};
use uthread::root::WorkerLayout;

use crate::memory::{Memory as _, Piece};
use crate::process::Running;
use crate::roots::{self, Found};
use crate::sample::{Activity, Counts};

/// Maximum size of the state of a worker. Larger ones are none.
const STATE_BYTES_MAX: u32 = 1 << 16;

/// A worker, seen at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) worker: roots::Worker,
    /// The index of its root.
    pub(crate) root: usize,
    pub(crate) activity: Activity,
    /// The id of the fiber that it runs.
    pub(crate) running: Option<u64>,
    /// The address of the place where that was spawned.
    pub(crate) spawn_site: u64,
    pub(crate) counts: Counts<u64>,
}

/// Looks at all workers.
///
/// # Errors
///
/// A worker starts or ends right now, or the memory cannot be read.
pub(crate) fn look(memory: Running, roots: &[Found]) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for (index, root) in roots.iter().enumerate() {
        let (workers, changes) = root.workers(&memory)?;
        let bytes = state_bytes(root.worker_layout);
        if bytes > STATE_BYTES_MAX {
            bail!("the layout of a worker makes no sense: is the file that of the process?");
        }
        let state = |worker: &roots::Worker| Piece::new(worker.remote, bytes as usize);
        let mut states: Vec<_> = workers.iter().map(state).collect();
        memory.read(&mut states);
        if !root.is_unchanged(&memory, changes) {
            bail!("a worker starts or ends right now: try again");
        }
        let workers = workers.into_iter().zip(&states);
        seen.extend(workers.filter_map(|(worker, state)| parse(root, index, worker, state)));
    }
    Ok(seen)
}

fn parse(root: &Found, index: usize, worker: roots::Worker, state: &Piece) -> Option<Seen> {
    let layout = root.worker_layout;
    let is_awake = *state.bytes.get(layout.state as usize)? == 0;
    let running = state.word(layout.running)?;
    let activity = match running {
        _ if !is_awake => Activity::Asleep,
        0 => Activity::Awake,
        _ => Activity::Running,
    };
    Some(Seen {
        worker,
        root: index,
        activity,
        running: (activity == Activity::Running).then_some(running),
        spawn_site: state.word(layout.spawn_site)?,
        counts: Counts {
            fibers: state.word(layout.fibers)?,
            ended: state.word(layout.ended)?,
            switches: state.word(layout.switches)?,
            steals: state.word(layout.steals)?,
            injected: state.word(layout.injected)?,
            enters: state.word(layout.enters)?,
            submissions: state.word(layout.submissions)?,
            completions: state.word(layout.completions)?,
            stalls: state.word(layout.stalls)?,
            sleeps: state.word(layout.sleeps)?,
            idle_ns: state.word(layout.idle_ns)?,
        },
    })
}

/// Returns the number of bytes up to the end of the last field.
fn state_bytes(layout: WorkerLayout) -> u32 {
    let words = [
        layout.running,
        layout.spawn_site,
        layout.fibers,
        layout.ended,
        layout.switches,
        layout.steals,
        layout.injected,
        layout.enters,
        layout.submissions,
        layout.completions,
        layout.stalls,
        layout.sleeps,
        layout.idle_ns,
    ];
    let last = words.into_iter().max().unwrap_or(0);
    last.saturating_add(8).max(layout.state.saturating_add(1))
}

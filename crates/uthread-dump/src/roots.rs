//! The roots of the library in a process, and the workers that they lead to.

use std::array;

use anyhow::{Context as _, Result, bail};
use std::mem::offset_of;
use uthread::root::{self, Entry, Layout, Root, WorkerLayout};

use crate::history::History;
use crate::memory::{Memory, Piece, read_one, word};
use crate::modules::Modules;

/// Maximum number of workers of a process. More are no list of workers.
const WORKERS_MAX: u64 = 1 << 16;

/// A root in the memory of a process.
pub(crate) struct Found {
    at: u64,
    pub(crate) layout: Layout,
    pub(crate) worker_layout: WorkerLayout,
}

/// A worker to which a root leads: see [`Entry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) fibers: u64,
    pub(crate) runtime: u64,
    pub(crate) index: u64,
    pub(crate) history: u64,
    pub(crate) remote: u64,
}

/// The table of workers, as a root describes it.
struct Table {
    changes: u64,
    entries: u64,
    count: u64,
}

/// Finds the roots of all versions of the library in a process.
///
/// # Errors
///
/// There is none, or it is of a version that is not known.
pub(crate) fn find(memory: &dyn Memory, modules: &Modules) -> Result<Vec<Found>> {
    if modules.roots.is_empty() {
        bail!(
            "the process does not use uthread, or a version without the section `{}`",
            root::SECTION
        );
    }
    let mut found = Vec::new();
    for range in &modules.roots {
        let mut at = range.start;
        while at < range.end {
            let bytes = (range.end - at) as usize;
            let section =
                read_one(memory, at, bytes).context("the section of the root is not in memory")?;
            if !section.bytes.starts_with(&root::MAGIC) {
                bail!(
                    "the section `{}` has no root: is the file that of the process?",
                    root::SECTION
                );
            }
            found.push(Found::parse(&section)?);
            at += u64::from(section.half(Root::BYTES_AT as u32).unwrap_or(0).max(8));
        }
    }
    Ok(found)
}

impl Found {
    fn parse(section: &Piece) -> Result<Found> {
        let version = section.half(Root::VERSION_AT as u32);
        if version != Some(root::VERSION) {
            bail!(
                "the program's uthread has layout {}, and this tool knows layout {}: use the tool of the program's version",
                version.unwrap_or(0),
                root::VERSION,
            );
        }
        if section.bytes.len() < size_of::<Root>() {
            bail!("the section `{}` is cut off", root::SECTION);
        }
        let word = |at: usize, index: usize| section.half((at + 4 * index) as u32).unwrap_or(0);
        let layout = |index| word(Root::LAYOUT_AT, index);
        let worker_layout = |index| word(Root::WORKER_LAYOUT_AT, index);
        Ok(Found {
            at: section.address,
            layout: Layout::from_words(array::from_fn(layout)),
            worker_layout: WorkerLayout::from_words(array::from_fn(worker_layout)),
        })
    }

    /// Returns the address of the time until which the workers record events.
    pub(crate) fn traced_until_at(&self) -> u64 {
        self.at + Root::TRACED_UNTIL_AT as u64
    }

    /// Returns the workers, and the number of changes of their table so far.
    ///
    /// # Errors
    ///
    /// The table is being changed, or cannot be read.
    pub(crate) fn workers(&self, memory: &dyn Memory) -> Result<(Vec<Worker>, u64)> {
        let table = self.table(memory)?;
        if !table.changes.is_multiple_of(2) {
            bail!("a worker starts or ends right now: try again");
        }
        if table.count > WORKERS_MAX {
            bail!("the list of workers makes no sense: is the file that of the process?");
        }
        if table.count == 0 {
            return Ok((Vec::new(), table.changes));
        }
        let entry_bytes = size_of::<Entry>();
        let entries = read_one(memory, table.entries, table.count as usize * entry_bytes)
            .context("the list of workers cannot be read")?;
        let worker = |entry: &[u8]| {
            let field = |offset: usize| word(entry, offset).unwrap_or(0);
            Worker {
                fibers: field(offset_of!(Entry, fibers)),
                runtime: field(offset_of!(Entry, runtime)),
                index: field(offset_of!(Entry, index)),
                history: field(offset_of!(Entry, history)),
                remote: field(offset_of!(Entry, remote)),
            }
        };
        let workers = entries.bytes.chunks_exact(entry_bytes).map(worker);
        Ok((workers.collect(), table.changes))
    }

    /// Reads the history of a worker.
    pub(crate) fn history(&self, memory: &dyn Memory, worker: Worker) -> History {
        let at = worker
            .remote
            .wrapping_add(self.worker_layout.switches.into());
        let switches = read_one(memory, at, 8).and_then(|switches| switches.word(0));
        History::read(memory, worker.history, switches.unwrap_or(0))
    }

    /// Returns `true` if no worker has started or ended since then: all of them were alive.
    pub(crate) fn is_unchanged(&self, memory: &dyn Memory, changes: u64) -> bool {
        self.table(memory)
            .is_ok_and(|table| table.changes == changes)
    }

    fn table(&self, memory: &dyn Memory) -> Result<Table> {
        let at = self.at + Root::CHANGES_AT as u64;
        let words = read_one(memory, at, Root::ENTRIES_AT - Root::CHANGES_AT + 16);
        let words = words.context("the root cannot be read")?;
        let entries_at = (Root::ENTRIES_AT - Root::CHANGES_AT) as u32;
        Ok(Table {
            changes: words.word(0).unwrap_or(1),
            entries: words.word(entries_at).unwrap_or(0),
            count: words.word(entries_at + 8).unwrap_or(0),
        })
    }
}

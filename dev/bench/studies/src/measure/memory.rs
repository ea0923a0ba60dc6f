//! Memory that a process tree holds, and the kernel for all programs of the machine.
//!
//! A thread costs little in its process but much in the kernel: a kernel stack, page tables for its
//! own stack, a task structure. No file counts that per process, so it is the machine's growth that
//! is measured.

use anyhow::{Context, Result};
use procfs::{Current, Meminfo};
use uthread_report::measure::proc::{if_alive, tree};

/// Minimum number of connections by which the memory is divided: with fewer, a server grows mainly
/// by its own start-up.
const CONNECTIONS_TO_SHARE_RSS: u32 = 100;
/// The kernel's memory needs more connections, as it also keeps what the server before has freed.
const CONNECTIONS_TO_SHARE_KERNEL: u32 = 1000;

/// Bytes in use at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Resident memory of the process tree.
    pub(crate) rss: u64,
    kernel_stacks: u64,
    page_tables: u64,
    /// Kernel objects: tasks, mappings, sockets, open files, requests to a ring; but also cached
    /// names of files.
    slab: u64,
}

impl Memory {
    /// Reads the memory of `root` with its descendants, and of the kernel.
    pub(crate) fn read(root: u32) -> Result<Memory> {
        let machine = Meminfo::current()?;
        let mut memory = Memory {
            rss: 0,
            kernel_stacks: machine.kernel_stack.unwrap_or(0),
            page_tables: machine.page_tables.unwrap_or(0),
            slab: machine.slab,
        };
        for process in tree(root)? {
            // The file is empty for a process that is just ending.
            let maps = if_alive(process.smaps_rollup())?.map(|rollup| rollup.memory_map_rollup);
            let fields = maps.into_iter().flatten().map(|map| map.extension.map);
            memory.rss += fields
                .filter_map(|fields| fields.get("Rss").copied())
                .sum::<u64>();
        }
        Ok(memory)
    }

    /// Returns the growth for each connection, in bytes: resident; in the kernel altogether, in
    /// stacks, in page tables, in slab. `NAN` with too few connections to tell.
    pub(crate) fn since(&self, before: &Memory, connections: u32) -> [f64; 5] {
        let share = |now: u64, then: u64, connections_min: u32| match connections {
            few if few < connections_min => f64::NAN,
            enough => (now as f64 - then as f64) / f64::from(enough),
        };
        let kernel = |now, then| share(now, then, CONNECTIONS_TO_SHARE_KERNEL);
        let held = |memory: &Memory| memory.kernel_stacks + memory.page_tables + memory.slab;
        [
            share(self.rss, before.rss, CONNECTIONS_TO_SHARE_RSS),
            kernel(held(self), held(before)),
            kernel(self.kernel_stacks, before.kernel_stacks),
            kernel(self.page_tables, before.page_tables),
            kernel(self.slab, before.slab),
        ]
    }
}

/// Returns how many bytes of memory are left for programs.
pub(crate) fn available() -> Result<u64> {
    let available = Meminfo::current()?.mem_available;
    available.context("/proc/meminfo has no MemAvailable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_divided_by_the_connections_unless_they_are_too_few() {
        let memory = |bytes| Memory {
            rss: bytes,
            kernel_stacks: 2 * bytes,
            page_tables: 3 * bytes,
            slab: 4 * bytes,
        };
        let grown = |connections| memory(2000).since(&memory(1000), connections);
        assert_eq!(grown(1000), [1.0, 9.0, 2.0, 3.0, 4.0]);
        assert_eq!(grown(500)[0], 2.0);
        assert!(grown(500)[1..].iter().all(|bytes| bytes.is_nan()));
        assert!(grown(1)[0].is_nan());
    }

    #[test]
    fn this_process_can_be_read() {
        let memory = Memory::read(std::process::id()).unwrap();
        assert!(memory.rss > 0 && memory.slab > 0 && memory.kernel_stacks > 0);
        assert!(available().unwrap() > 0);
    }
}

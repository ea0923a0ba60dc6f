//! Memory that the kernel holds for the programs of the machine, read from `/proc/meminfo`.
//!
//! A thread costs little in its process and much here: a stack in the kernel, tables for the pages of its own stack, a
//! description of itself. No file tells that per process, so it is the machine's growth that is measured.

use std::fs;

use anyhow::{Context, Result};

use super::proc::bytes_of;

/// In bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KernelMemory {
    pub(crate) stacks: u64,
    pub(crate) page_tables: u64,
    /// Objects: tasks, mappings, sockets, open files, requests to a ring; but also cached names of files.
    pub(crate) slab: u64,
    /// What is left for programs.
    pub(crate) available: u64,
}

impl KernelMemory {
    pub(crate) fn read() -> Result<KernelMemory> {
        parse(&fs::read_to_string("/proc/meminfo")?)
    }

    pub(crate) fn held(&self) -> u64 {
        self.stacks + self.page_tables + self.slab
    }
}

fn parse(text: &str) -> Result<KernelMemory> {
    let bytes = |name| bytes_of(text, name).context("/proc/meminfo");
    Ok(KernelMemory {
        stacks: bytes("KernelStack")?,
        page_tables: bytes("PageTables")?,
        slab: bytes("Slab")?,
        available: bytes("MemAvailable")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_its_whole_name() {
        let text = "MemTotal: 9 kB\nMemAvailable:   23614044 kB\nSlab:             572760 kB\nSReclaimable: 1 kB\n\
                    KernelStack:        2916 kB\nPageTables:         4920 kB\nSecPageTables:         7 kB\n";
        let memory = parse(text).unwrap();
        let kib = 1024;
        let expected = KernelMemory {
            stacks: 2916 * kib,
            page_tables: 4920 * kib,
            slab: 572_760 * kib,
            available: 23_614_044 * kib,
        };
        assert_eq!(memory, expected);
        assert_eq!(memory.held(), 580_596 * kib);
        assert!(parse("Slab: 1 kB\n").is_err());
        assert!(KernelMemory::read().unwrap().slab > 0);
    }
}

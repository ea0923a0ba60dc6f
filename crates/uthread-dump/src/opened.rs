//! A process that is read while it runs: where its workers are, and the files of its places.

use anyhow::Result;

use crate::modules::Modules;
use crate::process::{Running, mappings};
use crate::roots::{self, Found};
use crate::sites::Sites;

pub(crate) struct Opened {
    pub(crate) memory: Running,
    pub(crate) modules: Modules,
    pub(crate) roots: Vec<Found>,
    pub(crate) sites: Sites,
}

/// Finds the roots of a process that runs.
///
/// # Errors
///
/// There is no such process; its memory may not be read, by `process_vm_readv(2)`; it does not use
/// the library, or another version of it.
pub(crate) fn open(pid: i32) -> Result<Opened> {
    let mappings = mappings(pid)?;
    let files = mappings.iter().map(|mapping| mapping.range.clone());
    let sites = Sites::new(files.collect());
    let modules = Modules::of(mappings);
    let memory = Running(pid);
    if let Some(root) = modules.roots.first() {
        memory.probe(root.start)?;
    }
    Ok(Opened {
        memory,
        roots: roots::find(&memory, &modules)?,
        modules,
        sites,
    })
}

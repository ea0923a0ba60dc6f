//! The places where fibers were spawned: the `Location` to which each control block points.

use std::collections::HashMap;
use std::ops::Range;

use crate::memory::{Memory, read_one};
use crate::model::Site;

/// Maximum length of a path. Longer ones are none.
const PATH_BYTES_MAX: u64 = 4096;

/// Maximum number of places that are remembered: more than a large program has calls of `spawn`.
const SITES_MAX: usize = 1 << 16;

/// Reads a `Location`: the pointer and the length of a path, line and column.
pub(crate) fn read(memory: &dyn Memory, address: u64) -> Option<Site> {
    let location = read_one(memory, address, 24)?;
    let (path, length) = (location.word(0)?, location.word(8)?);
    if path == 0 || length > PATH_BYTES_MAX {
        return None;
    }
    Some(Site {
        file: String::from_utf8(read_one(memory, path, length as usize)?.bytes).ok()?,
        line: location.half(16)?,
        column: location.half(20)?,
    })
}

/// The places of a process that runs. Only an address in a mapped file can be that of a `Location`,
/// which is a constant.
pub(crate) struct Sites {
    files: Vec<Range<u64>>,
    known: HashMap<u64, Option<String>>,
}

impl Sites {
    /// Knows no place yet. `files` are the mappings of files.
    pub(crate) fn new(files: Vec<Range<u64>>) -> Sites {
        Sites {
            files,
            known: HashMap::new(),
        }
    }

    /// Returns the place at an address, or `None` if there is none.
    pub(crate) fn get(&mut self, memory: &dyn Memory, address: u64) -> Option<&str> {
        let is_known = self.known.contains_key(&address);
        let is_in_file = || self.files.iter().any(|file| file.contains(&address));
        if !is_known && (self.known.len() >= SITES_MAX || !is_in_file()) {
            return None;
        }
        let read = || {
            let site = read(memory, address)?;
            let is_place = !site.file.is_empty() && site.line > 0 && site.column > 0;
            is_place.then(|| site.to_string())
        };
        self.known.entry(address).or_insert_with(read).as_deref()
    }
}

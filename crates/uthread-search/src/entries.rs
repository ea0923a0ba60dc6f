//! The entries of a directory, a part at a time.

use std::ffi::CStr;
use std::io;

use rustix::fs::{FileType, RawDir};
use uthread::fs::Dir;

use crate::filter;

/// A part ends after so many entries, which bounds what is held for a directory of a million files.
const PART_ENTRIES: usize = 1000;
/// The buffer for entries, as large as that of the C library.
const BUFFER_BYTES: usize = 32 * 1024;

/// The entries of a part of a directory, apart from itself and the one above.
#[derive(Default)]
pub(crate) struct Entries {
    /// The names, each with a NUL byte.
    names: Vec<u8>,
    /// Where a name begins, the type, and the inode.
    listed: Vec<(usize, FileType, u64)>,
    /// `true` if the directory has no further ones.
    pub(crate) is_end: bool,
    /// Why the further ones could not be read.
    pub(crate) error: Option<io::Error>,
}

impl Entries {
    /// Reads entries, all of them unless the rest can be read later.
    pub(crate) fn read(dir: &Dir, in_parts: bool) -> Entries {
        let mut part = Entries::default();
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    part.error = Some(error.into());
                    return part;
                }
            };
            let name = entry.file_name().to_bytes_with_nul();
            if !matches!(name, b".\0" | b"..\0") {
                let start = part.names.len();
                part.listed.push((start, entry.file_type(), entry.ino()));
                part.names.extend_from_slice(name);
            }
            count += 1;
            if in_parts && count >= PART_ENTRIES && entries.is_buffer_empty() {
                return part;
            }
        }
        part.is_end = true;
        part
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        self.listed.iter().map(|&(start, kind, inode)| Listed {
            name: CStr::from_bytes_until_nul(&self.names[start..]).expect("it ends with one"),
            kind,
            inode,
        })
    }

    /// Returns `false` if the directory, of which this is the first part, has no entry of this name.
    pub(crate) fn may_contain(&self, dir: &Dir, name: &str) -> bool {
        if self.is_end {
            let mut names = self.iter().map(|listed| listed.name.to_bytes());
            names.any(|listed| listed == name.as_bytes())
        } else {
            filter::may_exist(dir, name)
        }
    }
}

/// An entry of a directory as it is listed.
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a CStr,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
}

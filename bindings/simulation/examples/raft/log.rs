//! The log of a node, on its disk: term, vote and entries in one file that only grows.
//!
//! ```text
//!   length | checksum | Term { 1, vote: a } || length | checksum | Entry { index 1, .. } || ..
//! ```
//!
//! An entry replaces those from its index on. A method that changes something writes it to the disk
//! first: no part of the node sees what a crash could take back. After a crash, the file may end within a record: opening it cuts that off, as nobody was
//! promised anything about it.

use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uthread::fs::{File, OpenOptions};

use crate::bug::Bug;
use crate::message::Entry;

const NAME: &str = "log";

/// Length and checksum of a record.
const HEADER_BYTES: usize = 8;

#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    term: u64,
    vote: Option<String>,
    entries: Vec<Entry>,
    bug: Option<Bug>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Term { term: u64, vote: Option<String> },
    Entry { index: u64, entry: Entry },
}

impl Log {
    /// Opens the log in this directory, which exists.
    pub(crate) fn open(directory: &Path, bug: Option<Bug>) -> io::Result<Log> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let file = options.open(directory.join(NAME))?;
        File::open(directory)?.sync_all()?;
        let mut log = Log {
            file,
            term: 0,
            vote: None,
            entries: Vec::new(),
            bug,
        };
        log.recover()?;
        Ok(log)
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// Returns for whom the node has voted in this term.
    pub(crate) fn vote(&self) -> Option<&str> {
        self.vote.as_deref()
    }

    pub(crate) fn set_term(&mut self, term: u64, vote: Option<String>) -> io::Result<()> {
        let mut written = vote.clone();
        if self.bug == Some(Bug::LostVote) {
            written = None;
        }
        self.write([Record::Term {
            term,
            vote: written,
        }])?;
        (self.term, self.vote) = (term, vote);
        Ok(())
    }

    /// Returns the index of the last entry. The first one has index 1.
    pub(crate) fn last_index(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns the term of an entry. There is term 0 before the first.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        if index == 0 {
            return Some(0);
        }
        Some(self.entries.get(index as usize - 1)?.term)
    }

    /// Returns the entries after an index.
    pub(crate) fn after(&self, index: u64) -> &[Entry] {
        self.entries.get(index as usize..).unwrap_or_default()
    }

    /// Adds entries, which replace those after an index.
    pub(crate) fn append(&mut self, index: u64, entries: &[Entry]) -> io::Result<()> {
        self.write((index + 1..).zip(entries).map(|(index, entry)| {
            let entry = entry.clone();
            Record::Entry { index, entry }
        }))?;
        self.entries.truncate(index as usize);
        self.entries.extend_from_slice(entries);
        Ok(())
    }

    /// Adds records to the file, all or none of which are promised.
    fn write(&mut self, records: impl IntoIterator<Item = Record>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            let record = serde_json::to_vec(&record)?;
            bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&crc32fast::hash(&record).to_le_bytes());
            bytes.extend_from_slice(&record);
        }
        self.file.write_all(&bytes)?;
        if self.bug == Some(Bug::UnsyncedLog) {
            return Ok(());
        }
        self.file.sync_data()
    }

    /// Reads the records, and cuts off what follows the last whole one.
    fn recover(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        let mut rest = &bytes[..];
        while let Some((record, length)) = first_record(rest) {
            rest = &rest[length..];
            match record {
                Record::Term { term, vote } => (self.term, self.vote) = (term, vote),
                Record::Entry { index, entry } => {
                    self.entries.truncate(index as usize - 1);
                    self.entries.push(entry);
                }
            }
        }
        if !rest.is_empty() {
            self.file.set_len((bytes.len() - rest.len()) as u64)?;
            self.file.sync_all()?;
        }
        Ok(())
    }
}

/// Returns the record at the start, and its length with its header, unless it is torn.
fn first_record(bytes: &[u8]) -> Option<(Record, usize)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let record = rest.get(..length)?;
    if crc32fast::hash(record) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let record = serde_json::from_slice(record).ok()?;
    Some((record, HEADER_BYTES + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(term: u64) -> Entry {
        Entry {
            term,
            command: None,
        }
    }

    #[test]
    fn a_log_recovers_whole_records_wherever_its_file_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let open = || Log::open(directory.path(), None).unwrap();
        let mut log = open();
        log.set_term(1, Some("a".into())).unwrap();
        log.append(0, &[entry(1), entry(1), entry(1)]).unwrap();
        log.append(1, &[entry(2)]).unwrap();
        log.set_term(3, None).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut seen = Vec::new();
        for length in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            drop(open());
            let log = open();
            let terms: Vec<_> = log.after(0).iter().map(|entry| entry.term).collect();
            seen.push((log.term(), log.vote.clone(), terms));
        }
        seen.dedup();
        let vote = || Some("a".to_owned());
        let expected = [
            (0, None, vec![]),
            (1, vote(), vec![]),
            (1, vote(), vec![1]),
            (1, vote(), vec![1, 1]),
            (1, vote(), vec![1, 1, 1]),
            (1, vote(), vec![1, 2]),
            (3, None, vec![1, 2]),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_log_ends_before_a_record_that_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let mut log = Log::open(directory.path(), None).unwrap();
        log.append(0, &[entry(1), entry(1)]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let log = Log::open(directory.path(), None).unwrap();
        assert_eq!(log.last_index(), 1);
    }
}

//! The store: an append-only log in segments, with an index in memory.
//!
//! Puts that arrive together are written together, by the fiber of one of them, and return when
//! they are durable. A get reads one block without a lock. Compaction copies the newest records of
//! a segment to the head of the log, and then frees it. A get that finds another record in its
//! block has been overtaken by that, and looks again.

use std::io;
use std::os::unix::fs::FileExt;

use uthread::fs::{AlignedBuffer, File};
use uthread::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::record;
use super::state::{BATCH_MAX, Record, SEGMENT_BLOCKS, State};
use crate::blocks::BLOCK_BYTES;

const SEGMENT_BYTES: usize = SEGMENT_BLOCKS * BLOCK_BYTES;
/// Segments that are left for compaction: it frees more than it needs.
const SPARE_FOR_COMPACTION: usize = 1;
/// Minimum number of segments: fewer leave nothing to compact.
const SEGMENTS_MIN: usize = 8;

/// A store in a file opened for direct I/O.
pub(super) struct Store<'a> {
    file: &'a File,
    identity: u64,
    state: Mutex<State>,
    /// The state has changed.
    changed: Condvar,
}

impl<'a> Store<'a> {
    /// Starts an empty store. Records of other stores in the file are ignored.
    pub(super) fn create(file: &'a File, identity: u64) -> io::Result<Store<'a>> {
        let segments = file.metadata()?.len() as usize / SEGMENT_BYTES;
        if segments < SEGMENTS_MIN {
            return Err(io::Error::other("the file is too small for a store"));
        }
        Ok(Store {
            file,
            identity,
            state: Mutex::new(State::empty(segments)),
            changed: Condvar::new(),
        })
    }

    /// Finds the records of a store in its file.
    pub(super) fn recover(file: &'a File, identity: u64) -> io::Result<Store<'a>> {
        let store = Store::create(file, identity)?;
        let mut buffer = AlignedBuffer::for_file(file, SEGMENT_BYTES)?;
        let mut state = store.lock();
        let segments = file.metadata()?.len() as usize / SEGMENT_BYTES;
        for segment in 0..segments {
            file.read_exact_at(&mut buffer, (segment * SEGMENT_BYTES) as u64)?;
            for (index, block) in buffer.chunks_exact(BLOCK_BYTES).enumerate() {
                if let Some((key, version)) = record::read(identity, block) {
                    state.found(key, version, segment * SEGMENT_BLOCKS + index);
                }
            }
        }
        state.end_recovery();
        drop(state);
        Ok(store)
    }

    pub(super) fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns the version of each key.
    pub(super) fn contents(&self) -> Vec<(u64, u64)> {
        self.lock().contents()
    }

    /// Returns the number of blocks written for each put since
    /// [`forget_counts`](Store::forget_counts).
    pub(super) fn written_per_put(&self) -> Option<f64> {
        let state = self.lock();
        (state.puts > 0).then(|| state.written as f64 / state.puts as f64)
    }

    pub(super) fn forget_counts(&self) {
        let mut state = self.lock();
        (state.puts, state.written) = (0, 0);
    }

    /// Puts a new value, and returns when it is durable.
    pub(super) fn put(&self, key: u64) -> io::Result<()> {
        let mut state = self.lock();
        while state.group.queue.len() >= BATCH_MAX {
            state = self.wait(state)?;
        }
        let batch = state.queue(key);
        while state.group.is_writing || state.group.batch != batch {
            if state.group.durable > batch {
                return Ok(());
            }
            state = self.wait(state)?;
        }
        // The first of a batch that finds nobody writing does so for all.
        let records = state.take_batch();
        drop(state);
        self.changed.notify_all();
        let buffer = AlignedBuffer::for_file(self.file, records.len() * BLOCK_BYTES);
        let result = buffer.and_then(|mut buffer| {
            for (record, block) in records.iter().zip(buffer.chunks_exact_mut(BLOCK_BYTES)) {
                record::write(self.identity, record.key, record.version, block);
            }
            self.append(&records, &buffer, SPARE_FOR_COMPACTION)
        });
        let mut state = self.lock();
        state.group.is_writing = false;
        match result {
            Ok(()) => state.group.durable = batch + 1,
            Err(_) => state.has_failed = true,
        }
        self.changed.notify_all();
        result
    }

    /// Reads the value of a key. Returns its version.
    pub(super) fn get(&self, key: u64) -> io::Result<Option<u64>> {
        let mut buffer = AlignedBuffer::for_file(self.file, BLOCK_BYTES)?;
        let mut known = self.lock().find(key);
        while let Some(place) = known {
            self.file.read_exact_at(&mut buffer, offset(place.block))?;
            if record::read(self.identity, &buffer) == Some((key, place.version)) {
                return Ok(Some(place.version));
            }
            known = self.lock().find(key);
            if known == Some(place) {
                let what = format!("key {key}: its block {} is corrupted", place.block);
                return Err(io::Error::other(what));
            }
        }
        Ok(None)
    }

    /// Compacts segments when few are free, until [`end`](Store::end).
    pub(super) fn compact(&self) -> io::Result<()> {
        let result = self.compact_until_end();
        if result.is_err() {
            self.lock().has_failed = true;
            self.changed.notify_all();
        }
        result
    }

    /// Ends the compaction.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn compact_until_end(&self) -> io::Result<()> {
        let mut buffer = AlignedBuffer::for_file(self.file, SEGMENT_BYTES)?;
        loop {
            let mut state = self.lock();
            let segment = loop {
                match state.to_compact() {
                    _ if state.is_over => return Ok(()),
                    Some(segment) => break segment,
                    None => state = self.wait(state)?,
                }
            };
            let records = state.live(segment);
            drop(state);
            self.file
                .read_exact_at(&mut buffer, (segment * SEGMENT_BYTES) as u64)?;
            // The live records to the front.
            for (to, record) in records.iter().enumerate() {
                let from = record.from.unwrap_or_default() % SEGMENT_BLOCKS * BLOCK_BYTES;
                let block = from..from + BLOCK_BYTES;
                let found = record::read(self.identity, &buffer[block.clone()]);
                if found != Some((record.key, record.version)) {
                    return Err(io::Error::other(format!("key {} was lost", record.key)));
                }
                buffer.copy_within(block, to * BLOCK_BYTES);
            }
            self.append(&records, &buffer, 0)?;
            self.lock().release(segment);
            self.changed.notify_all();
        }
    }

    /// Writes records at the head of the log, and publishes them once they are durable.
    fn append(&self, records: &[Record], bytes: &[u8], spare: usize) -> io::Result<()> {
        let mut state = self.lock();
        while !state.has_room(records.len(), spare) {
            state = self.wait(state)?;
        }
        let blocks: Vec<usize> = records.iter().map(|_| state.allocate()).collect();
        drop(state);
        let mut first = 0;
        for run in blocks.chunk_by(|one, next| one + 1 == *next) {
            let part = first * BLOCK_BYTES..(first + run.len()) * BLOCK_BYTES;
            self.file.write_all_at(&bytes[part], offset(run[0]))?;
            first += run.len();
        }
        self.file.sync_data()?;
        let mut state = self.lock();
        for (record, block) in records.iter().zip(blocks) {
            state.publish(*record, block);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change.
    ///
    /// # Errors
    ///
    /// Any error if a write has failed: what waits for it would wait forever.
    fn wait<'b>(&self, state: MutexGuard<'b, State>) -> io::Result<MutexGuard<'b, State>> {
        if state.has_failed {
            return Err(io::Error::other("another write to the store has failed"));
        }
        Ok(self
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner))
    }
}

fn offset(block: usize) -> u64 {
    (block * BLOCK_BYTES) as u64
}

//! The state of a store in memory: where the newest record of each key is, and which segments can
//! be written.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;

/// Number of blocks of a segment, the unit of compaction: small, so that a small file has many.
pub(super) const SEGMENT_BLOCKS: usize = 16;
/// Puts that become durable together. They need at most one more segment.
pub(super) const BATCH_MAX: usize = SEGMENT_BLOCKS;
/// Number of free segments below which compaction begins.
const FREE_MIN: usize = 4;

/// Where the newest record of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) block: usize,
    pub(super) version: u64,
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) key: u64,
    pub(super) version: u64,
    /// The block that compaction has read it from.
    pub(super) from: Option<usize>,
}

#[derive(Clone, Copy, Default)]
struct Segment {
    is_free: bool,
    /// Number of newest records.
    live: usize,
    /// Number of blocks that are being written.
    unwritten: usize,
}

/// Puts that wait for the next write, and how far earlier ones got.
#[derive(Default)]
pub(super) struct Group {
    pub(super) queue: Vec<Record>,
    /// Number of the batch in the queue.
    pub(super) batch: u64,
    /// Number of batches that are durable.
    pub(super) durable: u64,
    pub(super) is_writing: bool,
}

pub(super) struct State {
    index: HashMap<u64, Position>,
    /// The key whose newest record a block has.
    owners: Vec<Option<u64>>,
    segments: Vec<Segment>,
    free: Vec<usize>,
    /// The blocks that are written next.
    head: Range<usize>,
    version: u64,
    pub(super) group: Group,
    pub(super) puts: u64,
    /// Number of blocks that were written.
    pub(super) written: u64,
    pub(super) is_over: bool,
    /// A write has failed, and what waits for it fails too.
    pub(super) has_failed: bool,
}

impl State {
    /// Returns the state of a file without records.
    pub(super) fn empty(segments: usize) -> State {
        let free = Segment {
            is_free: true,
            ..Segment::default()
        };
        State {
            index: HashMap::new(),
            owners: vec![None; segments * SEGMENT_BLOCKS],
            segments: vec![free; segments],
            free: (0..segments).rev().collect(),
            head: 0..0,
            version: 0,
            group: Group::default(),
            puts: 0,
            written: 0,
            is_over: false,
            has_failed: false,
        }
    }

    pub(super) fn find(&self, key: u64) -> Option<Position> {
        self.index.get(&key).copied()
    }

    /// Returns the version of each key, in the order of the keys.
    pub(super) fn contents(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self
            .index
            .iter()
            .map(|(key, place)| (*key, place.version))
            .collect();
        all.sort_unstable();
        all
    }

    /// Queues a put for the next batch, and returns the number of that batch.
    pub(super) fn queue(&mut self, key: u64) -> u64 {
        self.version += 1;
        self.puts += 1;
        let record = Record {
            key,
            version: self.version,
            from: None,
        };
        self.group.queue.push(record);
        self.group.batch
    }

    /// Takes the queued puts. The caller writes them.
    pub(super) fn take_batch(&mut self) -> Vec<Record> {
        self.group.is_writing = true;
        self.group.batch += 1;
        mem::take(&mut self.group.queue)
    }

    /// Returns whether so many blocks can be written, with so many free segments left.
    pub(super) fn has_room(&self, count: usize, spare: usize) -> bool {
        let free = self.free.len().saturating_sub(spare);
        self.head.len() + free * SEGMENT_BLOCKS >= count
    }

    /// Reserves a block. There must be room.
    pub(super) fn allocate(&mut self) -> usize {
        let block = self.head.next().unwrap_or_else(|| {
            let segment = self.free.pop().expect("there is room");
            self.segments[segment].is_free = false;
            self.head = segment * SEGMENT_BLOCKS..(segment + 1) * SEGMENT_BLOCKS;
            self.head.next().expect("a segment has blocks")
        });
        self.segments[block / SEGMENT_BLOCKS].unwritten += 1;
        self.written += 1;
        block
    }

    /// Makes a record visible that was written to a reserved block, unless there is a newer one.
    pub(super) fn publish(&mut self, record: Record, block: usize) {
        self.segments[block / SEGMENT_BLOCKS].unwritten -= 1;
        let known = self.find(record.key);
        let is_newest = match record.from {
            Some(from) => known.is_some_and(|place| place.block == from),
            None => known.is_none_or(|place| place.version < record.version),
        };
        if is_newest {
            self.insert(record.key, record.version, block);
        }
    }

    /// Adds a record that was found in the file.
    pub(super) fn found(&mut self, key: u64, version: u64, block: usize) {
        self.version = self.version.max(version);
        if self.find(key).is_none_or(|place| place.version < version) {
            self.insert(key, version, block);
        }
    }

    /// Takes the segments without newest records as free, after the last [`found`](State::found).
    pub(super) fn end_recovery(&mut self) {
        self.free.clear();
        for (index, segment) in self.segments.iter_mut().enumerate().rev() {
            segment.is_free = segment.live == 0;
            self.free.extend(segment.is_free.then_some(index));
        }
    }

    fn insert(&mut self, key: u64, version: u64, block: usize) {
        if let Some(old) = self.index.insert(key, Position { block, version }) {
            self.owners[old.block] = None;
            self.segments[old.block / SEGMENT_BLOCKS].live -= 1;
        }
        self.owners[block] = Some(key);
        self.segments[block / SEGMENT_BLOCKS].live += 1;
    }

    /// Returns the segment to be compacted, if one has to be: that with the fewest newest records.
    pub(super) fn to_compact(&self) -> Option<usize> {
        if self.free.len() >= FREE_MIN {
            return None;
        }
        let head = self.head.start.saturating_sub(1) / SEGMENT_BLOCKS;
        let is_candidate = |(index, segment): &(usize, &Segment)| {
            let is_written = !segment.is_free && segment.unwritten == 0 && *index != head;
            is_written && segment.live < SEGMENT_BLOCKS
        };
        let candidates = self.segments.iter().enumerate().filter(is_candidate);
        let (index, _) = candidates.min_by_key(|(_, segment)| segment.live)?;
        Some(index)
    }

    /// Returns the newest records of a segment.
    pub(super) fn live(&self, segment: usize) -> Vec<Record> {
        let blocks = segment * SEGMENT_BLOCKS..(segment + 1) * SEGMENT_BLOCKS;
        let record = |block| {
            let key = self.owners[block]?;
            let version = self.find(key)?.version;
            Some(Record {
                key,
                version,
                from: Some(block),
            })
        };
        blocks.filter_map(record).collect()
    }

    /// Frees a segment whose newest records have been written elsewhere.
    pub(super) fn release(&mut self, segment: usize) {
        let found = &mut self.segments[segment];
        assert_eq!(found.live, 0, "a record would be lost");
        found.is_free = true;
        self.free.push(segment);
    }
}

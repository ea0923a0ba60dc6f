//! What the fibers of a process are read from: the process itself, or a core file.

use std::ops::Range;
use std::path::PathBuf;

/// The size of a page of x86-64.
pub(crate) const PAGE: u64 = 4096;

/// The memory and the threads of a process.
pub(crate) trait Memory {
    /// Reads pieces of memory. One that cannot be read becomes empty.
    fn read(&self, pieces: &mut [Piece]);

    /// Returns the ids of the threads, and where they are.
    fn registers(&self) -> Vec<(i32, Registers)>;

    /// Returns the time of `CLOCK_MONOTONIC`, in nanoseconds; `None` of a process that has ended.
    fn now_ns(&self) -> Option<u64>;
}

/// A piece of memory at an address.
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    pub(crate) fn new(address: u64, length: usize) -> Piece {
        Piece {
            address,
            bytes: vec![0; length],
        }
    }

    /// Returns the eight bytes at an offset as a number.
    pub(crate) fn word(&self, offset: u32) -> Option<u64> {
        word(&self.bytes, offset as usize)
    }

    /// Returns the four bytes at an offset as a number.
    pub(crate) fn half(&self, offset: u32) -> Option<u32> {
        let bytes = self.bytes.get(offset as usize..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// Returns the word at an address.
    pub(crate) fn word_at(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.address)?;
        self.word(offset.try_into().ok()?)
    }
}

/// Returns the eight bytes at an offset as a number.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A part of a file in memory.
#[derive(Clone)]
pub(crate) struct Mapping {
    pub(crate) range: Range<u64>,
    /// Where the part begins in the file.
    pub(crate) offset: u64,
    pub(crate) is_executable: bool,
    /// The name of the file as the process knows it.
    pub(crate) name: String,
    /// Where the file can be opened.
    pub(crate) path: PathBuf,
}

/// The registers by which a stack is unwound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    pub(crate) base: u64,
}

/// Reads one piece. Returns `None` if it cannot be read.
pub(crate) fn read_one(memory: &dyn Memory, address: u64, length: usize) -> Option<Piece> {
    let mut pieces = [Piece::new(address, length)];
    memory.read(&mut pieces);
    let [piece] = pieces;
    (piece.bytes.len() == length).then_some(piece)
}

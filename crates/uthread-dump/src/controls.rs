//! The control blocks of fibers, copied, and what they say without the stacks.

use uthread::root::Layout;

use crate::memory::{Memory, Piece};
use crate::model::State;

/// The distance up to which the fields of two fibers are copied together.
const NEAR_BYTES: u64 = 4096;

/// Maximum number of live fibers of a worker. More are no list of fibers.
const FIBERS_MAX: u64 = 1 << 28;

/// What a record has at [`Layout::claim`] if its fiber runs without its worker.
const WITHOUT_WORKER: u64 = 2;

/// Returns for the fiber of each record whether it runs without its worker. `None` if the record, which
/// may be null, cannot be read.
pub(crate) fn run_alone(
    memory: &dyn Memory,
    records: impl Iterator<Item = (u64, Layout)>,
) -> Vec<Option<bool>> {
    let claim = |(record, layout): (u64, Layout)| match record {
        0 => Piece::new(0, 0),
        _ => Piece::new(record.wrapping_add(layout.claim.into()), 8),
    };
    let mut claims: Vec<_> = records.map(claim).collect();
    memory.read(&mut claims);
    let is_alone = |claim: &Piece| Some(claim.word(0)? == WITHOUT_WORKER);
    claims.iter().map(is_alone).collect()
}

/// Returns the address of the references to fibers in a `Vec`, and their number. `None` if it is
/// being changed.
pub(crate) fn references(vector: &Piece) -> Option<(u64, usize)> {
    let words = [vector.word(0)?, vector.word(8)?, vector.word(16)?];
    let (address, count) = (words.into_iter().max()?, words.into_iter().min()?);
    (count <= FIBERS_MAX).then_some((address, count as usize))
}

/// Copies of control blocks, which usually lie side by side.
#[derive(Default)]
pub(crate) struct Controls {
    bytes: usize,
    /// Sorted by address.
    runs: Vec<Piece>,
}

impl Controls {
    /// Copies those at these addresses, as far as they can be read. Uses the memory of an earlier copy
    /// for it, which takes less time than new memory.
    pub(crate) fn copy(
        memory: &dyn Memory,
        layout: Layout,
        addresses: &[u64],
        earlier: Controls,
    ) -> Controls {
        let bytes = layout.fiber_bytes as usize;
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        let near = |one: &u64, next: &u64| next - one <= NEAR_BYTES;
        let mut earlier = earlier.runs.into_iter();
        let runs = sorted.chunk_by(near).map(|run| {
            let (address, length) = (run[0], run[run.len() - 1] - run[0]);
            let length = length as usize + bytes;
            match earlier.next() {
                Some(piece) if piece.bytes.len() == length => Piece { address, ..piece },
                _ => Piece::new(address, length),
            }
        });
        let mut runs: Vec<_> = runs.collect();
        memory.read(&mut runs);
        Controls { bytes, runs }
    }

    /// Returns a copy of the one at this address, which is empty if it could not be read.
    pub(crate) fn piece(&self, address: u64) -> Piece {
        Piece {
            address,
            bytes: self.get(address).unwrap_or_default().to_vec(),
        }
    }

    /// Returns the bytes of the one at this address, which is one of those copied.
    pub(crate) fn get(&self, address: u64) -> Option<&[u8]> {
        let after = self.runs.partition_point(|run| run.address <= address);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let start = (address - run.address) as usize;
        run.bytes.get(start..start.checked_add(self.bytes)?)
    }
}

/// Returns what a fiber does that is on no thread. `left_off` is its mark.
pub(crate) fn suspended(reason: Option<u8>, token: Option<u8>, left_off: u64) -> State {
    match (reason, token) {
        _ if left_off == 0 => State::New,
        (Some(1), Some(1)) => State::Parked,
        (Some(0 | 1), _) => State::Ready,
        (Some(2), _) => State::Operation,
        (Some(3), _) => State::Alone,
        (Some(4), _) => State::Abandoned,
        _ => State::Unknown,
    }
}

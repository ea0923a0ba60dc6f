//! For how long the fibers of a worker are suspended, by the samples of its switches.

use std::time::Duration;

use crate::memory::{Memory, Piece, read_one};

/// Maximum number of samples. More are no history.
const LENGTH_MAX: u64 = 1 << 12;

/// The history of a worker.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Numbers of completed switches, and times at which these and no more were completed.
    samples: Vec<(u64, u64)>,
    /// Number of switches.
    switches: u64,
    now_ns: u64,
}

impl History {
    /// Reads the history at this address, of a worker that has made so many switches. It is empty
    /// if it cannot be read, or is being changed.
    pub(crate) fn read(memory: &dyn Memory, address: u64, switches: u64) -> History {
        let samples = read_samples(memory, address).unwrap_or_default();
        let last_ns = samples.last().map_or(0, |sample| sample.1);
        History {
            samples,
            switches,
            now_ns: memory.now_ns().unwrap_or(last_ns),
        }
    }

    /// Returns `true` if a switch with this low half was completed when the history was read. It
    /// may also be if this returns `false`.
    pub(crate) fn has_completed(&self, switch: u32) -> bool {
        let completed = self.samples.last().map(|sample| sample.0 as u32);
        completed.is_some_and(|completed| completed.wrapping_sub(switch) < 1 << 31)
    }

    /// Returns the least time since the switch with this low half was completed. `None` if it may
    /// just have been. The fiber was copied before the history was read, or the worker was stopped before.
    pub(crate) fn since(&self, switch: u32) -> Option<Duration> {
        let later = (self.switches as u32).wrapping_sub(switch);
        let switch = self.switches.saturating_sub(later.into());
        let (_, time) = self.samples.iter().find(|sample| sample.0 >= switch)?;
        Some(Duration::from_nanos(self.now_ns.checked_sub(*time)?))
    }
}

fn read_samples(memory: &dyn Memory, address: u64) -> Option<Vec<(u64, u64)>> {
    let read = || {
        let head = read_one(memory, address, 16)?;
        let length = head.word(8).filter(|length| *length <= LENGTH_MAX)?;
        read_one(memory, address, 16 + 16 * length as usize)
    };
    let (one, two): (Piece, Piece) = (read()?, read()?);
    let is_whole = one.bytes == two.bytes && one.word(0)?.is_multiple_of(2);
    let pair = |bytes: &[u8]| {
        let (switches, time) = bytes.split_first_chunk()?;
        let time = time.first_chunk()?;
        Some((u64::from_ne_bytes(*switches), u64::from_ne_bytes(*time)))
    };
    is_whole.then(|| one.bytes[16..].chunks_exact(16).filter_map(pair).collect())
}

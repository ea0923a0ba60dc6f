//! The requests of a measurement, whichever technique performs them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Requests to files of numbered blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// One for each thread.
    pub files: Vec<PathBuf>,
    /// Which blocks, and what for.
    pub pattern: Pattern,
    /// Number of requests to each file, at most.
    pub requests: u64,
    /// Time after which no request starts.
    pub seconds: Option<u64>,
    /// Number of requests at a time to each file.
    pub depth: usize,
    /// `true` if the requests of a batch are awaited together, instead of each being replaced when
    /// it completes.
    pub is_batched: bool,
    /// Seed of random offsets.
    pub seed: u64,
}

/// Which blocks are requested, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// Reads one block after the other, and starts over at the end.
    Sequential,
    /// Reads random blocks.
    Random,
    /// Reads and writes random blocks, and syncs.
    Mixed,
    /// Keys of a store; only fibers have one.
    KeyValue,
    /// Reads random blocks, beside writes; only fibers have priorities.
    UrgentReads(Rivals),
    /// Echoes of random numbers, beside bulk transfers; only fibers have priorities.
    UrgentEchoes(Rivals),
}

impl Pattern {
    /// Replaces the load beside urgent requests.
    pub(crate) fn beside(self, rivals: Rivals) -> Pattern {
        match self {
            Pattern::UrgentReads(_) => Pattern::UrgentReads(rivals),
            Pattern::UrgentEchoes(_) => Pattern::UrgentEchoes(rivals),
            _ => self,
        }
    }
}

/// The load beside urgent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rivals {
    /// None.
    None,
    /// Normal ones, as many as the depth.
    Equal,
    /// Background ones, as many as the depth.
    Background,
}

//! The requests of a measurement, whichever technique performs them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::walk::Pattern;

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
    /// `true` if the requests of a batch are awaited together, instead of each being replaced when it completes.
    pub is_batched: bool,
    /// Seed of random offsets.
    pub seed: u64,
}

//! The work between a message and its echo, the same in all programs: this file in those in Rust,
//! `go/echo.go` in Go.
//!
//! The work is counted and not timed: a clock also counts the time in which another thread had the
//! CPU.

use std::hint::black_box;
use std::time::Instant;

/// Some tenths of a millisecond: reading the clock is nothing beside it, and it fits between two
/// interruptions.
const PROBE_STEPS: u64 = 100_000;
/// Number of measurements, enough that some are undisturbed. The fastest counts, as disturbance
/// only makes slower.
const PROBES: u32 = 500;

/// An amount of work.
#[derive(Clone, Copy)]
pub(crate) struct Compute {
    steps: u64,
}

impl Compute {
    /// Returns the amount of computation that this CPU, undisturbed, performs in `us` microseconds.
    /// Zero needs no calibration.
    pub(crate) fn calibrated(us: u64) -> Compute {
        if us == 0 {
            return Compute { steps: 0 };
        }
        let probe = |_| {
            let begin = Instant::now();
            run_steps(PROBE_STEPS);
            begin.elapsed()
        };
        let fastest = (0..PROBES).map(probe).min().unwrap_or_default();
        let steps_per_us = PROBE_STEPS as f64 / (fastest.as_secs_f64() * 1e6);
        Compute {
            steps: (us as f64 * steps_per_us) as u64,
        }
    }

    pub(crate) fn run(self) {
        run_steps(self.steps);
    }
}

/// Runs `steps` steps of Xorshift: each operation needs the result of the one before, so no
/// compiler makes it faster than another.
#[inline(never)]
fn run_steps(steps: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

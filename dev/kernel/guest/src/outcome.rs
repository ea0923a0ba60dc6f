//! The outcome of a test.

use std::error::Error;

/// Findings of a test, in a few words.
pub(crate) type Outcome = Result<String, Box<dyn Error>>;

//! The kinds of services.

use serde::Serialize;

/// A kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A pool of threads.
    Sync,
    /// A fiber for each request.
    Async,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Async => "async",
        }
    }
}

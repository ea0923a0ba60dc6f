//! The studies, one per file.

pub(crate) mod compute;
mod contest;
pub(crate) mod disk;
pub(crate) mod drivers;
pub(crate) mod echo;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod paths;
pub(crate) mod programs;
pub(crate) mod requests;
pub(crate) mod slow;

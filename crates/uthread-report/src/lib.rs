//! Measures subjects side by side and reports the results: a study is a plan and a closure that
//! measures one cell of it.
//!
//! The README describes the rules of a measurement and the structure. `uthread iobench` and the
//! benchmarks of the repository share this crate; `uthread model` draws its page with it.

#![forbid(unsafe_code)]

pub mod plot;
pub mod results;

pub mod study;

pub mod facts;
pub mod measure;

pub mod json;
pub mod markdown;
pub mod page;

pub mod file;
pub mod machine;
pub mod program;
mod say;
mod unavailable;

pub use say::{check_said, say_line};
pub use unavailable::Unavailable;

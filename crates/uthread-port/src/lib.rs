//! Ports Rust sources from `std` to `uthread` by replacing paths: the code behind `uthread port`.
//!
//! [`scan`] finds what may keep a fiber's worker from others: the code behind `uthread audit`.
//!
//! Files are processed as `tokens`, so comments and strings stay unchanged. `decision` decides
//! which paths to replace, `imports` splits imports that need both crates, and `file` combines the
//! edits. `conditions` evaluates those of `cfg`.
//!
//! ```
//! use uthread_port::{Options, port};
//!
//! let source = "use std::{fmt, io};\n\nfn main() {}\n";
//! let options = Options {
//!     main: true,
//!     ..Options::default()
//! };
//! let ported = port(source, options);
//! assert_eq!(
//!     ported.text,
//!     "use std::fmt;\nuse uthread::io;\n\n#[uthread::main]\nfn main() {}\n"
//! );
//! assert_eq!(ported.changes, 2);
//! ```

mod file;

mod imports;

mod decision;

mod scan;

mod conditions;

mod tokens;

#[cfg(test)]
mod tests;

pub use file::{Note, Options, Ported, port};
pub use scan::{Effect, Finding, Module, Scanned, scan};

//! The options of a search: ripgrep's, with ripgrep's names and meanings.

mod order;

mod patterns;

mod selection;

mod input;

mod output;

use std::ffi::OsString;

use clap::Args;

pub(crate) use input::InputOptions;
pub(crate) use order::Order;
pub(crate) use output::{Color, OutputOptions, Sort};
pub(crate) use patterns::{Engine, PatternOptions};
pub(crate) use selection::SelectionOptions;

/// The options of a search: patterns, files, and what is printed.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The first field, as the others are taken out of what the order is read from.
    #[command(flatten)]
    pub(crate) order: Order,

    /// Pattern and paths. The first one is a path as well if -e, -f, --files or --type-list is
    /// given.
    #[arg(value_name = "PATTERN] [PATH")]
    pub(crate) positional: Vec<OsString>,

    #[command(flatten)]
    pub(crate) pattern: PatternOptions,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    #[command(flatten)]
    pub(crate) input: InputOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

impl Options {
    /// Returns `false` if the user wants no file of options to be read.
    ///
    /// ```
    /// use clap::Parser;
    /// use uthread_search::Options;
    ///
    /// #[derive(Parser)]
    /// struct CommandLine {
    ///     #[command(flatten)]
    ///     options: Options,
    /// }
    ///
    /// let line = |arguments: &[&str]| CommandLine::parse_from(arguments).options;
    /// assert!(line(&["search", "fiber"]).reads_configuration());
    /// assert!(!line(&["search", "fiber", "--no-config"]).reads_configuration());
    /// ```
    #[must_use]
    pub fn reads_configuration(&self) -> bool {
        !self.input.no_config
    }
}

fn size(text: &str) -> Result<u64, String> {
    grep_cli::parse_human_readable_size(text).map_err(|error| error.to_string())
}

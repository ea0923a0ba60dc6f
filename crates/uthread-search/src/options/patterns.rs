//! Options: how patterns match.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::size;

/// How patterns match.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Patterns")]
pub(crate) struct PatternOptions {
    /// Search for this pattern; may be repeated
    #[arg(
        short = 'e',
        long = "regexp",
        value_name = "PATTERN",
        allow_hyphen_values = true
    )]
    pub(crate) patterns: Vec<OsString>,

    /// Search for the patterns in this file, one per line; - is stdin
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE",
        allow_hyphen_values = true
    )]
    pub(crate) pattern_files: Vec<PathBuf>,

    /// Match patterns literally, not as regular expressions
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,

    /// Ignore case
    #[arg(short, long, overrides_with_all = ["smart_case", "case_sensitive"])]
    pub(crate) ignore_case: bool,

    /// Ignore case unless a pattern has an uppercase letter
    #[arg(short = 'S', long, overrides_with_all = ["ignore_case", "case_sensitive"])]
    pub(crate) smart_case: bool,

    /// Distinguish case (default)
    #[arg(short = 's', long, overrides_with_all = ["ignore_case", "smart_case"])]
    pub(crate) case_sensitive: bool,

    /// Match only whole words
    #[arg(short, long, overrides_with = "line_regexp")]
    pub(crate) word_regexp: bool,

    /// Match only whole lines
    #[arg(short = 'x', long, overrides_with = "word_regexp")]
    pub(crate) line_regexp: bool,

    /// Select the lines without a match
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,

    /// Stop reading a file after this number of matching lines
    #[arg(short, long, value_name = "N")]
    pub(crate) max_count: Option<u64>,

    /// Stop reading a file at the first line without a match after a line with one
    #[arg(long, overrides_with = "multiline")]
    pub(crate) stop_on_nonmatch: bool,

    /// Let matches span lines; takes memory for a whole file
    #[arg(short = 'U', long, overrides_with = "stop_on_nonmatch")]
    pub(crate) multiline: bool,

    /// Let . match the end of a line with --multiline
    #[arg(long)]
    pub(crate) multiline_dotall: bool,

    /// Let ^ and $ match at \r\n, too
    #[arg(long, overrides_with = "null_data")]
    pub(crate) crlf: bool,

    /// Let lines end with NUL bytes
    #[arg(long, overrides_with = "crlf")]
    pub(crate) null_data: bool,

    /// Match bytes, without the classes and cases of Unicode
    #[arg(long, alias = "no-pcre2-unicode")]
    pub(crate) no_unicode: bool,

    /// Maximum size of the compiled patterns
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) regex_size_limit: Option<u64>,

    /// Maximum size of the cache for matching
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) dfa_size_limit: Option<u64>,

    /// Engine of regular expressions; there is no PCRE2
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = Engine::Default, hide = true)]
    pub(crate) engine: Engine,

    /// Use PCRE2, which there is not
    #[arg(short = 'P', long, hide = true, overrides_with_all = ["engine", "auto_hybrid_regex"])]
    pub(crate) pcre2: bool,

    /// Use PCRE2 where it is needed
    #[arg(long, hide = true, overrides_with_all = ["engine", "pcre2"])]
    pub(crate) auto_hybrid_regex: bool,

    /// Print the version of PCRE2
    #[arg(long, hide = true)]
    pub(crate) pcre2_version: bool,
}

/// The engine of regular expressions. The variants have no doc comments, which would switch
/// `--help` to its long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Default,
    Pcre2,
    Auto,
}

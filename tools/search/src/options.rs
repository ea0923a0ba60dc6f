//! The options of a search: ripgrep's, with ripgrep's names and meanings.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

/// The options of a search: patterns, files, and what is printed.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Pattern and paths. The first one is a path as well if -e, -f, --files or --type-list is given.
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
    #[arg(short = 'f', long = "file", value_name = "FILE")]
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
}

/// Which files are searched.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct SelectionOptions {
    /// Search hidden files and directories
    #[arg(short = '.', long)]
    pub(crate) hidden: bool,

    /// Do not respect .gitignore, .ignore and .rgignore
    #[arg(long)]
    pub(crate) no_ignore: bool,

    /// Search more: -u is --no-ignore, -uu also --hidden, -uuu also --binary
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) unrestricted: u8,

    /// Search files that match this glob, or that do not if it begins with !
    #[arg(short, long = "glob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) globs: Vec<String>,

    /// Like --glob, ignoring case
    #[arg(long = "iglob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) iglobs: Vec<String>,

    /// Search only files of this type (see --type-list)
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,

    /// Do not search files of this type
    #[arg(short = 'T', long = "type-not", value_name = "TYPE")]
    pub(crate) types_not: Vec<String>,

    /// Follow symbolic links
    #[arg(short = 'L', long)]
    pub(crate) follow: bool,

    /// Skip files larger than this, in bytes or with the suffix K, M or G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_filesize: Option<u64>,

    /// Print the files that would be searched, and search none
    #[arg(long)]
    pub(crate) files: bool,

    /// Print the known file types and their globs
    #[arg(long)]
    pub(crate) type_list: bool,
}

/// How files are read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputOptions {
    /// Search binary files as if they were text
    #[arg(short = 'a', long, overrides_with = "binary")]
    pub(crate) text: bool,

    /// Search binary files, but do not print their matches
    #[arg(long, overrides_with = "text")]
    pub(crate) binary: bool,

    /// Encoding of the files: auto, none, or a label such as utf-16le
    #[arg(short = 'E', long, value_name = "ENCODING", default_value = "auto")]
    pub(crate) encoding: String,

    /// Number of workers [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
}

/// The options of the output.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Print the number of matching lines of each file
    #[arg(short, long, overrides_with_all = MODES)]
    pub(crate) count: bool,

    /// Print the number of matches of each file
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) count_matches: bool,

    /// Print only the paths of files with a match
    #[arg(short = 'l', long, overrides_with_all = MODES)]
    pub(crate) files_with_matches: bool,

    /// Print only the paths of files without a match
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) files_without_match: bool,

    /// Print results as JSON Lines
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) json: bool,

    /// Print only the matching parts of lines
    #[arg(short, long)]
    pub(crate) only_matching: bool,

    /// Print this number of lines after each match
    #[arg(short = 'A', long, value_name = "N")]
    pub(crate) after_context: Option<usize>,

    /// Print this number of lines before each match
    #[arg(short = 'B', long, value_name = "N")]
    pub(crate) before_context: Option<usize>,

    /// Print this number of lines before and after each match
    #[arg(short = 'C', long, value_name = "N")]
    pub(crate) context: Option<usize>,

    /// Print line numbers (default on a terminal)
    #[arg(short = 'n', long, overrides_with = "no_line_number")]
    pub(crate) line_number: bool,

    /// Do not print line numbers
    #[arg(short = 'N', long, overrides_with = "line_number")]
    pub(crate) no_line_number: bool,

    /// Print the column of the first match of each line
    #[arg(long)]
    pub(crate) column: bool,

    /// Print the path of each match (default unless a single file is searched)
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    pub(crate) with_filename: bool,

    /// Do not print paths
    #[arg(short = 'I', long, overrides_with = "with_filename")]
    pub(crate) no_filename: bool,

    /// Print each path once, above its matches (default on a terminal)
    #[arg(long, overrides_with = "no_heading")]
    pub(crate) heading: bool,

    /// Print the path before each match
    #[arg(long, overrides_with = "heading")]
    pub(crate) no_heading: bool,

    /// When to print colors
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,

    /// Write a NUL byte after each path
    #[arg(short = '0', long)]
    pub(crate) null: bool,

    /// Print in the order of the paths
    #[arg(long, value_enum, default_value_t = Sort::None, value_name = "ORDER")]
    pub(crate) sort: Sort,

    /// Print each line as soon as it is found in the only file, and each result of several (default on a terminal)
    #[arg(long, overrides_with = "block_buffered")]
    pub(crate) line_buffered: bool,

    /// Collect what is printed (default unless on a terminal)
    #[arg(long, overrides_with = "line_buffered")]
    pub(crate) block_buffered: bool,

    /// Print nothing, and stop at the first match
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print totals after the results
    #[arg(long)]
    pub(crate) stats: bool,

    /// Do not report files that cannot be read
    #[arg(long)]
    pub(crate) no_messages: bool,
}

/// The options of which the last one decides what is printed of a file.
const MODES: [&str; 5] = [
    "count",
    "count_matches",
    "files_with_matches",
    "files_without_match",
    "json",
];

/// When to print colors. The variants have no doc comments, which would switch `--help` to its long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Ansi,
    Never,
}

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    None,
    Path,
}

fn size(text: &str) -> Result<u64, String> {
    grep_cli::parse_human_readable_size(text).map_err(|error| error.to_string())
}

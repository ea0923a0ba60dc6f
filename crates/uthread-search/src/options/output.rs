//! Options: what is printed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use grep_printer::{HyperlinkFormat, UserColorSpec};

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

    /// Print also the numbers of files without a match
    #[arg(long)]
    pub(crate) include_zero: bool,

    /// Print only the paths of files with a match
    #[arg(short = 'l', long, overrides_with_all = MODES)]
    pub(crate) files_with_matches: bool,

    /// Print only the paths of files without a match
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) files_without_match: bool,

    /// Print results as JSON Lines
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) json: bool,

    /// Print a line for each match, with path, line and column
    #[arg(long)]
    pub(crate) vimgrep: bool,

    /// Print as on a terminal: with colors, headings and line numbers
    #[arg(short, long)]
    pub(crate) pretty: bool,

    /// Print only the matching parts of lines
    #[arg(short, long)]
    pub(crate) only_matching: bool,

    /// Print this in place of each match; $1 is the first group, and $name the one with this name
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) replace: Option<String>,

    /// Print this number of lines after each match
    #[arg(short = 'A', long, value_name = "N", overrides_with = "passthru")]
    pub(crate) after_context: Option<usize>,

    /// Print this number of lines before each match
    #[arg(short = 'B', long, value_name = "N", overrides_with = "passthru")]
    pub(crate) before_context: Option<usize>,

    /// Print this number of lines before and after each match
    #[arg(short = 'C', long, value_name = "N", overrides_with = "passthru")]
    pub(crate) context: Option<usize>,

    /// Print all lines, also those without a match
    #[arg(
        long,
        alias = "passthrough",
        overrides_with_all = ["after_context", "before_context", "context"]
    )]
    pub(crate) passthru: bool,

    /// Print this between lines that are not neighbours [default: --]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) context_separator: Option<String>,

    /// Print this behind path, line and column of a line around a match [default: -]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) field_context_separator: Option<String>,

    /// Print this behind path, line and column of a match [default: :]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) field_match_separator: Option<String>,

    /// Print line numbers (default on a terminal)
    #[arg(short = 'n', long)]
    pub(crate) line_number: bool,

    /// Do not print line numbers
    #[arg(short = 'N', long)]
    pub(crate) no_line_number: bool,

    /// Print the column of the first match of each line
    #[arg(long)]
    pub(crate) column: bool,

    /// Print the position of each line in its file
    #[arg(short, long)]
    pub(crate) byte_offset: bool,

    /// Do not print lines of more than this number of bytes
    #[arg(short = 'M', long, value_name = "N")]
    pub(crate) max_columns: Option<u64>,

    /// Print the beginning of lines that exceed --max-columns
    #[arg(long)]
    pub(crate) max_columns_preview: bool,

    /// Do not print white space at the beginning of lines
    #[arg(long)]
    pub(crate) trim: bool,

    /// Print the path of each match (default unless a single file is searched)
    #[arg(short = 'H', long)]
    pub(crate) with_filename: bool,

    /// Do not print paths
    #[arg(short = 'I', long)]
    pub(crate) no_filename: bool,

    /// Print each path once, above its matches (default on a terminal)
    #[arg(long)]
    pub(crate) heading: bool,

    /// Print the path before each match
    #[arg(long)]
    pub(crate) no_heading: bool,

    /// When to print colors
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,

    /// Set the color or style of a part, as in match:fg:red or path:style:nobold
    #[arg(long, value_name = "SPEC")]
    pub(crate) colors: Vec<UserColorSpec>,

    /// Make paths hyperlinks: default, file, vscode, kitty and others, or a format
    #[arg(long, value_name = "FORMAT")]
    pub(crate) hyperlink_format: Option<HyperlinkFormat>,

    /// Run this program for the name of the host in hyperlinks
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hostname_bin: Option<PathBuf>,

    /// Write a NUL byte after each path
    #[arg(short = '0', long)]
    pub(crate) null: bool,

    /// Print this byte between the parts of paths
    #[arg(long, value_name = "BYTE", value_parser = separator)]
    pub(crate) path_separator: Option<Separator>,

    /// Print in this order
    #[arg(
        long,
        value_enum,
        default_value_t = Sort::None,
        value_name = "ORDER",
        overrides_with_all = ["sortr", "sort_files"]
    )]
    pub(crate) sort: Sort,

    /// Print in the reverse of this order
    #[arg(
        long,
        value_enum,
        default_value_t = Sort::None,
        value_name = "ORDER",
        overrides_with_all = ["sort", "sort_files"]
    )]
    pub(crate) sortr: Sort,

    /// Print in the order of the paths
    #[arg(long, hide = true, overrides_with_all = ["sort", "sortr"])]
    pub(crate) sort_files: bool,

    /// Print each line at once in a search of a single file, else the results of each file at once
    /// (default on a terminal)
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
pub(super) const MODES: [&str; 7] = [
    "count",
    "count_matches",
    "files_with_matches",
    "files_without_match",
    "json",
    "files",
    "type_list",
];

/// When to print colors. The variants have no doc comments, which would switch `--help` to its long
/// form.
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
    Modified,
    Accessed,
    Created,
}

/// A separator of paths; an empty one is the usual one.
pub(crate) type Separator = Option<u8>;

fn separator(text: &str) -> Result<Separator, String> {
    match grep_cli::unescape(text)[..] {
        [] => Ok(None),
        [byte] => Ok(Some(byte)),
        ref bytes => Err(format!("it has {} bytes instead of one", bytes.len())),
    }
}

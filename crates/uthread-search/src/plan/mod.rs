//! The plan of a search, resolved from its options: everything that can be wrong with them is found
//! here.

mod patterns;

mod selection;

mod input;

mod print;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::bail;
use grep_printer::SummaryKind;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, SearcherBuilder};

use crate::options::{Options, Sort};
use crate::program::Programs;

use input::Binary;
pub(crate) use input::LINE_MAX;
pub(crate) use print::{Print, Totals};
pub(crate) use selection::{Selection, types};

/// The way in which each file is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Lines,
    Summary(SummaryKind),
    Json,
    /// Only the path is printed.
    Path,
}

/// The order of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) by: Sort,
    pub(crate) is_reversed: bool,
}

/// A search with its options resolved.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// `None` if no file can have a match.
    pub(crate) matcher: Option<RegexMatcher>,
    pub(crate) searcher: SearcherBuilder,
    /// `true` if matches may span lines, for which a file has to be in memory.
    pub(crate) is_multiline: bool,
    /// `true` if a pattern may look for the beginning of the text. Where that is depends on how a
    /// text is searched.
    pub(crate) has_text_anchor: bool,
    /// `true` if only the number of lines that match is wanted of a file, so that it can be
    /// searched in parts.
    pub(crate) counts_lines: bool,
    /// For files found in directories.
    pub(crate) found_binary: BinaryDetection,
    /// For files that the user names.
    pub(crate) named_binary: BinaryDetection,
    pub(crate) paths: Vec<PathBuf>,
    /// `true` if the user has named no path.
    pub(crate) is_path_implicit: bool,
    pub(crate) selection: Selection,
    /// `None` if files themselves are searched.
    pub(crate) programs: Option<Programs>,
    pub(crate) print: Print,
    /// `None` if results are printed as they are found.
    pub(crate) order: Option<Order>,
    pub(crate) workers: Option<usize>,
}

impl Plan {
    /// Resolves the options.
    ///
    /// # Errors
    ///
    /// An error without a kind if there is no pattern, if a pattern, glob, type or encoding is
    /// invalid, or if a file of patterns cannot be read.
    pub(crate) fn new(options: &Options) -> anyhow::Result<Plan> {
        let mut positional = options.positional.iter().cloned();
        let mode = mode(options);
        let mut is_stdin_taken = false;
        let patterns = match mode {
            Mode::Path => Vec::new(),
            _ => patterns::patterns(options, &mut positional, &mut is_stdin_taken)?,
        };
        let (paths, is_path_implicit) = paths(positional.collect(), mode, is_stdin_taken)?;
        let to_terminal = std::io::stdout().is_terminal();
        let is_single = paths.len() == 1 && (is_stdin(&paths[0]) || !paths[0].is_dir());
        let binary = Binary::new(options);
        let print = print::print(options, mode, to_terminal, is_single)?;
        let is_stdin_alone = paths.len() == 1 && is_stdin(&paths[0]);
        let line_numbers = print::line_numbers(options).unwrap_or(match mode {
            Mode::Json => true,
            Mode::Lines => print.column || print.per_match || to_terminal && !is_stdin_alone,
            _ => false,
        });
        let can_match = (!patterns.is_empty() || options.pattern.invert_match)
            && options.pattern.max_count != Some(0)
            || mode == Mode::Path;
        let selection = selection::selection(options)?;
        Ok(Plan {
            mode,
            matcher: can_match
                .then(|| patterns::matcher(options, &patterns, &binary))
                .transpose()?,
            searcher: input::searcher(options, line_numbers)?,
            has_text_anchor: patterns
                .iter()
                .any(|pattern| patterns::has_text_anchor(pattern)),
            is_multiline: options.pattern.multiline,
            counts_lines: counts_lines(options, mode),
            found_binary: binary.found,
            named_binary: binary.named,
            paths,
            is_path_implicit,
            programs: Programs::new(&options.input, &selection.current)?,
            selection,
            print,
            order: order(options),
            workers: options.input.threads.filter(|count| *count > 0),
        })
    }

    /// Returns `true` if results are printed in an order.
    pub(crate) fn is_sorted(&self) -> bool {
        self.order.is_some()
    }
}

/// Returns `true` for the path that stands for stdin.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn mode(options: &Options) -> Mode {
    let (output, inverted) = (&options.output, options.pattern.invert_match);
    if options.selection.files {
        return Mode::Path;
    }
    // An inverted match has no parts to count, so its lines are counted.
    let counts_matches = if inverted {
        output.count && output.only_matching
    } else {
        output.count_matches || output.count && output.only_matching
    };
    let kind = match output {
        _ if output.files_without_match && output.quiet => SummaryKind::QuietWithoutMatch,
        _ if output.quiet => SummaryKind::QuietWithMatch,
        _ if output.files_with_matches => SummaryKind::PathWithMatch,
        _ if output.files_without_match => SummaryKind::PathWithoutMatch,
        _ if counts_matches => SummaryKind::CountMatches,
        _ if output.count || output.count_matches => SummaryKind::Count,
        _ if output.json => return Mode::Json,
        _ => return Mode::Lines,
    };
    Mode::Summary(kind)
}

fn order(options: &Options) -> Option<Order> {
    let output = &options.output;
    let (by, is_reversed) = match output {
        _ if output.sort_files => (Sort::Path, false),
        _ if output.sortr != Sort::None => (output.sortr, true),
        _ => (output.sort, false),
    };
    (by != Sort::None).then_some(Order { by, is_reversed })
}

/// Returns the paths to search, and whether they are implied.
fn paths(
    named: Vec<OsString>,
    mode: Mode,
    is_stdin_taken: bool,
) -> anyhow::Result<(Vec<PathBuf>, bool)> {
    let named = Vec::from_iter(named.into_iter().map(PathBuf::from));
    if is_stdin_taken && named.iter().any(|path| is_stdin(path)) {
        bail!("stdin cannot be searched, as the patterns are read from it");
    }
    if !named.is_empty() {
        return Ok((named, false));
    }
    let reads_stdin = mode != Mode::Path && !is_stdin_taken && grep_cli::is_readable_stdin();
    let path = if reads_stdin { "-" } else { "./" };
    Ok((vec![path.into()], true))
}

fn counts_lines(options: &Options, mode: Mode) -> bool {
    use SummaryKind::{Count, PathWithMatch, PathWithoutMatch};
    let pattern = &options.pattern;
    let is_encoded = !matches!(options.input.encoding.as_str(), "auto" | "none");
    let has_plain_lines = !pattern.multiline && !pattern.null_data && !pattern.stop_on_nonmatch;
    matches!(
        mode,
        Mode::Summary(Count | PathWithMatch | PathWithoutMatch)
    ) && pattern.max_count.is_none()
        && has_plain_lines
        && !options.output.include_zero
        && !options.output.stats
        && !is_encoded
}

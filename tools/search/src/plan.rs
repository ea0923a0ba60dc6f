//! The plan of a search, resolved from its options: everything that can be wrong with them is found here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use grep_printer::SummaryKind;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Encoding, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use crate::options::{Color, Options, Sort};

/// Maximum length of a line in bytes. A longer one is an error, so that a search cannot take all memory.
pub(crate) const LINE_MAX: usize = 128 * 1024 * 1024;

/// The byte that makes a file binary.
const NUL: u8 = 0;

/// The way in which each file is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Lines,
    Summary(SummaryKind),
    Json,
    /// Only the path is printed.
    Path,
}

/// A search with its options resolved.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// `None` if no file can have a match.
    pub(crate) matcher: Option<RegexMatcher>,
    pub(crate) searcher: SearcherBuilder,
    /// `true` if only the number of lines that match is wanted of a file, so that it can be searched in parts.
    pub(crate) counts_lines: bool,
    /// For files found in directories.
    pub(crate) found_binary: BinaryDetection,
    /// For files that the user names.
    pub(crate) named_binary: BinaryDetection,
    pub(crate) paths: Vec<PathBuf>,
    /// `true` if the user has named no path.
    pub(crate) is_path_implicit: bool,
    pub(crate) selection: Selection,
    pub(crate) print: Print,
    pub(crate) is_sorted: bool,
    pub(crate) workers: Option<usize>,
}

/// Which files are searched.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) hidden: bool,
    pub(crate) ignore_files: bool,
    pub(crate) follow: bool,
    pub(crate) max_filesize: Option<u64>,
    pub(crate) globs: Override,
    pub(crate) types: Types,
}

impl Selection {
    /// Returns `true` if every regular file is searched.
    pub(crate) fn is_everything(&self) -> bool {
        self.hidden
            && !self.ignore_files
            && self.max_filesize.is_none()
            && self.globs.is_empty()
            && self.types.is_empty()
    }
}

/// In which form the totals of the search are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Totals {
    None,
    Text,
    Json,
}

/// How results are printed.
#[derive(Debug, Clone)]
pub(crate) struct Print {
    pub(crate) colors: bool,
    pub(crate) column: bool,
    pub(crate) heading: bool,
    pub(crate) with_path: bool,
    pub(crate) path_end: Option<u8>,
    pub(crate) only_matching: bool,
    /// Printed between the results of two files.
    pub(crate) separator: Option<&'static [u8]>,
    pub(crate) totals: Totals,
    /// Nothing but totals is printed; without them the first match ends the search.
    pub(crate) quiet: bool,
    pub(crate) messages: bool,
    pub(crate) to_terminal: bool,
    /// Each result is printed at once, and each line of a single file.
    pub(crate) line_buffered: bool,
    /// `true` if a single file is searched.
    pub(crate) is_single: bool,
}

impl Plan {
    /// Resolves the options.
    ///
    /// # Errors
    ///
    /// An error without a kind if there is no pattern, if a pattern, glob, type or encoding is invalid, or if a file of patterns
    /// cannot be read.
    pub(crate) fn new(options: &Options) -> anyhow::Result<Plan> {
        let mut positional = options.positional.iter().cloned();
        let mode = mode(options);
        let mut is_stdin_taken = false;
        let patterns = match mode {
            Mode::Path => Vec::new(),
            _ => patterns(options, &mut positional, &mut is_stdin_taken)?,
        };
        let (paths, is_path_implicit) = paths(positional.collect(), mode, is_stdin_taken)?;
        let to_terminal = std::io::stdout().is_terminal();
        let is_single = paths.len() == 1 && (is_stdin(&paths[0]) || !paths[0].is_dir());
        let binary = Binary::new(options);
        let print = print(options, mode, to_terminal, is_single);
        let is_stdin_alone = paths.len() == 1 && is_stdin(&paths[0]);
        let line_numbers = match mode {
            _ if options.output.no_line_number => false,
            _ if options.output.line_number => true,
            Mode::Json => true,
            Mode::Lines => print.column || to_terminal && !is_stdin_alone,
            _ => false,
        };
        let can_match = (!patterns.is_empty() || options.pattern.invert_match)
            && options.pattern.max_count != Some(0)
            || mode == Mode::Path;
        Ok(Plan {
            mode,
            matcher: can_match
                .then(|| matcher(options, &patterns, &binary))
                .transpose()?,
            searcher: searcher(options, line_numbers)?,
            counts_lines: counts_lines(options, mode),
            found_binary: binary.found,
            named_binary: binary.named,
            paths,
            is_path_implicit,
            selection: selection(options)?,
            print,
            is_sorted: options.output.sort == Sort::Path,
            workers: options.input.threads.map(std::num::NonZero::get),
        })
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
    let counts_matches = match inverted {
        true => output.count && output.only_matching,
        false => output.count_matches || output.count && output.only_matching,
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

/// Collects the patterns in the order of the options, each once.
fn patterns(
    options: &Options,
    positional: &mut impl Iterator<Item = OsString>,
    is_stdin_taken: &mut bool,
) -> anyhow::Result<Vec<String>> {
    let given = &options.pattern;
    if given.patterns.is_empty() && given.pattern_files.is_empty() {
        let pattern = positional
            .next()
            .context("no pattern given; try: uthread search PATTERN [PATH...]")?;
        return Ok(vec![utf8(pattern)?]);
    }
    let mut patterns = Vec::new();
    for pattern in given.patterns.iter().cloned() {
        patterns.push(utf8(pattern)?);
    }
    for path in &given.pattern_files {
        if is_stdin(path) {
            ensure!(
                !std::mem::replace(is_stdin_taken, true),
                "patterns can be read from stdin only once"
            );
            patterns.extend(grep_cli::patterns_from_stdin()?);
        } else {
            patterns.extend(grep_cli::patterns_from_path(path)?);
        }
    }
    let mut seen = BTreeSet::new();
    patterns.retain(|pattern| seen.insert(pattern.clone()));
    Ok(patterns)
}

fn utf8(pattern: OsString) -> anyhow::Result<String> {
    let refused = |pattern: OsString| {
        let shown = grep_cli::escape_os(&pattern);
        anyhow::anyhow!("the pattern {shown} is not UTF-8; write other bytes as (?-u:\\xFF)")
    };
    pattern.into_string().map_err(refused)
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

/// How files with NUL bytes are searched.
struct Binary {
    found: BinaryDetection,
    named: BinaryDetection,
}

impl Binary {
    fn new(options: &Options) -> Binary {
        let found = match &options.input {
            input if input.text => BinaryDetection::none(),
            input if input.binary || options.selection.unrestricted > 2 => {
                BinaryDetection::convert(NUL)
            }
            _ => BinaryDetection::quit(NUL),
        };
        // A file that the user names is always searched.
        let named = match options.input.text {
            true => BinaryDetection::none(),
            false => BinaryDetection::convert(NUL),
        };
        Binary { found, named }
    }
}

fn matcher(
    options: &Options,
    patterns: &[String],
    binary: &Binary,
) -> anyhow::Result<RegexMatcher> {
    let wanted = &options.pattern;
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .fixed_strings(wanted.fixed_strings)
        .case_insensitive(wanted.ignore_case)
        .case_smart(wanted.smart_case)
        .word(wanted.word_regexp)
        .whole_line(wanted.line_regexp)
        .line_terminator(Some(b'\n'))
        .dot_matches_new_line(false);
    if binary.named != BinaryDetection::none() {
        builder.ban_byte(Some(NUL));
    }
    builder.build_many(patterns).map_err(|error| {
        let text = error.to_string();
        let remedy = match &text {
            text if text.contains("pattern contains \"\\0\"") => {
                "\nUse -a (--text) to search for NUL bytes."
            }
            text if text.contains("the literal") && text.contains("not allowed") => {
                "\nA match cannot span lines. Use -e for each alternative."
            }
            text if text.contains("look-around") || text.contains("backreferences") => {
                "\nRegular expressions take time linear in the text here, which excludes these."
            }
            _ if !wanted.fixed_strings => "\nUse -F to search for the text as it is.",
            _ => "",
        };
        anyhow::anyhow!("{text}{remedy}")
    })
}

fn searcher(options: &Options, line_numbers: bool) -> anyhow::Result<SearcherBuilder> {
    let output = &options.output;
    let around = output.context.unwrap_or(0);
    let mut builder = SearcherBuilder::new();
    builder
        .heap_limit(Some(LINE_MAX))
        .max_matches(options.pattern.max_count)
        .invert_match(options.pattern.invert_match)
        .line_number(line_numbers)
        .before_context(output.before_context.unwrap_or(around))
        .after_context(output.after_context.unwrap_or(around));
    match options.input.encoding.as_str() {
        "auto" => {}
        "none" => {
            builder.bom_sniffing(false);
        }
        label => {
            let encoding = Encoding::new(label).map_err(|_| {
                anyhow::anyhow!(
                    "unknown encoding {label:?}; use auto, none, or a label of the WHATWG \
                     encoding standard, such as utf-16le"
                )
            })?;
            builder.encoding(Some(encoding));
        }
    }
    Ok(builder)
}

fn counts_lines(options: &Options, mode: Mode) -> bool {
    use SummaryKind::{Count, PathWithMatch, PathWithoutMatch};
    let is_encoded = !matches!(options.input.encoding.as_str(), "auto" | "none");
    matches!(
        mode,
        Mode::Summary(Count | PathWithMatch | PathWithoutMatch)
    ) && options.pattern.max_count.is_none()
        && !options.output.stats
        && !is_encoded
}

fn selection(options: &Options) -> anyhow::Result<Selection> {
    let given = &options.selection;
    let current = std::env::current_dir().context("cannot tell the working directory")?;
    let mut globs = OverrideBuilder::new(current);
    for glob in &given.globs {
        globs.add(glob)?;
    }
    globs.case_insensitive(true)?;
    for glob in &given.iglobs {
        globs.add(glob)?;
    }
    Ok(Selection {
        hidden: given.hidden || given.unrestricted > 1,
        ignore_files: !given.no_ignore && given.unrestricted == 0,
        follow: given.follow,
        max_filesize: given.max_filesize,
        globs: globs.build()?,
        // The known types take longer to be prepared than a small tree to be searched.
        types: match given.types.is_empty() && given.types_not.is_empty() {
            true => Types::empty(),
            false => types(&given.types, &given.types_not)?,
        },
    })
}

/// Builds the matcher of file types.
///
/// # Errors
///
/// A type is unknown.
pub(crate) fn types(wanted: &[String], unwanted: &[String]) -> anyhow::Result<Types> {
    let mut types = TypesBuilder::new();
    types.add_defaults();
    for name in wanted {
        types.select(name);
    }
    for name in unwanted {
        types.negate(name);
    }
    types
        .build()
        .context("see uthread search --type-list for the known types")
}

fn print(options: &Options, mode: Mode, to_terminal: bool, is_single: bool) -> Print {
    let output = &options.output;
    let heading = !output.no_heading && (output.heading || to_terminal);
    let has_context = [output.before_context, output.after_context, output.context]
        .iter()
        .any(|lines| lines.is_some_and(|lines| lines > 0));
    Print {
        colors: match output.color {
            Color::Always | Color::Ansi => true,
            Color::Never => false,
            Color::Auto => to_terminal && environment_wants_colors(),
        },
        column: output.column,
        heading,
        with_path: !output.no_filename && (output.with_filename || !is_single),
        path_end: output.null.then_some(NUL),
        only_matching: output.only_matching,
        separator: match mode {
            Mode::Lines if heading => Some(b""),
            Mode::Lines if has_context => Some(b"--"),
            _ => None,
        },
        totals: match output {
            output if output.json && mode != Mode::Path => Totals::Json,
            output if output.stats && mode != Mode::Path => Totals::Text,
            _ => Totals::None,
        },
        quiet: output.quiet,
        messages: !output.no_messages,
        to_terminal,
        line_buffered: output.line_buffered || to_terminal && !output.block_buffered,
        is_single,
    }
}

/// Returns `false` for terminals without colors, and for users without the wish for them (<https://no-color.org>).
fn environment_wants_colors() -> bool {
    let refuses = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refuses && std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb")
}

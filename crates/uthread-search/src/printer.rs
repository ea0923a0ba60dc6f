//! Searching one text and printing its matches: one of ripgrep's printers, chosen by the mode.

use std::io::{self, Read, Write};
use std::path::Path;

use grep_matcher::Matcher;
use grep_printer::{
    JSON, JSONBuilder, PathPrinterBuilder, Standard, StandardBuilder, Stats, Summary,
    SummaryBuilder, SummaryKind,
};
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use crate::output::Output;
use crate::page::Page;
use crate::plan::{Mode, Plan, Print, Totals};

/// Prints the matches of files to a page.
pub(crate) enum Printer<'a> {
    Lines(Standard<Page<'a>>),
    Summary(Summary<Page<'a>>),
    Json(JSON<Page<'a>>),
    /// Prints paths without a search.
    Paths(PathPrinterBuilder, Page<'a>),
}

/// The result of the search of a file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) has_match: bool,
    /// `None` unless totals are printed.
    pub(crate) stats: Option<Stats>,
}

/// A text to search.
pub(crate) enum Text<'a> {
    Whole(&'a [u8]),
    Stream(&'a mut dyn Read),
}

impl<'a> Printer<'a> {
    pub(crate) fn new(plan: &Plan, mut page: Page<'a>) -> Printer<'a> {
        let print = &plan.print;
        let stats = print.totals != Totals::None;
        // The bytes of a path are counted, or changed.
        page.writes_path = !print.has_hyperlinks && !stats && print.path_separator.is_none();
        match plan.mode {
            Mode::Lines => Printer::Lines(lines_printer(print, stats).build(page)),
            Mode::Summary(kind) => Printer::Summary(
                SummaryBuilder::new()
                    .color_specs(print.color_specs.clone())
                    .exclude_zero(!print.include_zero)
                    .hyperlink(print.hyperlinks.clone())
                    .kind(kind)
                    .path(print.with_path)
                    .path_terminator(print.path_end)
                    .separator_path(print.path_separator)
                    .stats(stats)
                    .build(page),
            ),
            Mode::Json => Printer::Json(
                JSONBuilder::new()
                    .replacement(print.replacement.clone())
                    .build(page),
            ),
            Mode::Path => Printer::Paths(path_printer(print, b'\n'), page),
        }
    }

    pub(crate) fn page(&mut self) -> &mut Page<'a> {
        match self {
            Printer::Lines(printer) => printer.get_mut(),
            Printer::Summary(printer) => printer.get_mut(),
            Printer::Json(printer) => printer.get_mut(),
            Printer::Paths(_, page) => page,
        }
    }

    /// Returns what is printed above the lines of a file.
    pub(crate) fn heading(&mut self, print: &Print, path: &Path) -> Vec<u8> {
        if !print.heading || !print.with_path || !matches!(self, Printer::Lines(_)) {
            return Vec::new();
        }
        let mut page = self.page().empty();
        // A page fails only if the search ends.
        let _ = path_printer(print, b'\n').build(&mut page).write(path);
        page.text
    }

    /// Prints a path in the mode that prints nothing else.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if stdout is closed.
    pub(crate) fn print_path(&mut self, path: &Path) -> io::Result<()> {
        match self {
            Printer::Paths(builder, page) => {
                let path = page.stand_in(path);
                builder.build(page).write(path)
            }
            _ => unreachable!("files are searched in this mode"),
        }
    }

    /// Prints a summary of a file of which so many lines match.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if stdout is closed.
    pub(crate) fn print_count(
        &mut self,
        kind: SummaryKind,
        print: &Print,
        path: &Path,
        lines: u64,
    ) -> io::Result<Found> {
        let has_match = (lines > 0) != (kind == SummaryKind::PathWithoutMatch);
        let is_counted = kind == SummaryKind::Count;
        let page = self.page();
        if has_match && (print.with_path || !is_counted) {
            let end = if is_counted { b':' } else { b'\n' };
            let path = page.stand_in(path);
            path_printer(print, end).build(&mut *page).write(path)?;
        }
        if has_match && is_counted {
            writeln!(page, "{lines}")?;
        }
        Ok(Found {
            has_match,
            stats: None,
        })
    }

    /// Searches the text of a file, and prints what the mode wants of it.
    ///
    /// # Errors
    ///
    /// The errors of the stream. What was found before is printed.
    pub(crate) fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: impl Matcher,
        path: &Path,
        text: Text<'_>,
    ) -> io::Result<Found> {
        let output = self.page().output;
        let path = match self {
            Printer::Lines(_) | Printer::Summary(_) => self.page().stand_in(path),
            Printer::Json(_) | Printer::Paths(..) => path,
        };
        match self {
            Printer::Lines(printer) => {
                let mut sink = printer.sink_with_path(&matcher, path);
                search(searcher, &matcher, text, &mut sink, output)?;
                Ok(Found {
                    has_match: sink.has_match(),
                    stats: sink.stats().cloned(),
                })
            }
            Printer::Summary(printer) => {
                let mut sink = printer.sink_with_path(&matcher, path);
                search(searcher, &matcher, text, &mut sink, output)?;
                Ok(Found {
                    has_match: sink.has_match(),
                    stats: sink.stats().cloned(),
                })
            }
            Printer::Paths(..) => unreachable!("files are not searched in this mode"),
            Printer::Json(printer) => {
                let mut sink = printer.sink_with_path(&matcher, path);
                search(searcher, &matcher, text, &mut sink, output)?;
                Ok(Found {
                    has_match: sink.has_match(),
                    stats: Some(sink.stats().clone()),
                })
            }
        }
    }
}

fn lines_printer(print: &Print, stats: bool) -> StandardBuilder {
    let mut builder = StandardBuilder::new();
    builder
        .byte_offset(print.byte_offset)
        .color_specs(print.color_specs.clone())
        .column(print.column)
        .heading(print.heading)
        .hyperlink(print.hyperlinks.clone())
        .max_columns(print.columns_max)
        .max_columns_preview(print.columns_preview)
        .only_matching(print.only_matching)
        .path(print.with_path)
        .path_terminator(print.path_end)
        .per_match(print.per_match)
        .per_match_one_line(true)
        .replacement(print.replacement.clone())
        .separator_context(print.context_separator.clone())
        .separator_field_context(print.field_context_separator.clone())
        .separator_field_match(print.field_match_separator.clone())
        .separator_path(print.path_separator)
        .stats(stats)
        .trim_ascii(print.trim);
    builder
}

/// Returns the printer of paths that end with this byte, or as the options say.
fn path_printer(print: &Print, end: u8) -> PathPrinterBuilder {
    let mut builder = PathPrinterBuilder::new();
    builder
        .color_specs(print.color_specs.clone())
        .hyperlink(print.hyperlinks.clone())
        .separator(print.path_separator)
        .terminator(print.path_end.unwrap_or(end));
    builder
}

fn search<S: Sink<Error = io::Error>>(
    searcher: &mut Searcher,
    matcher: impl Matcher,
    text: Text<'_>,
    sink: S,
    output: &Output,
) -> io::Result<()> {
    let sink = UntilEnd { sink, output };
    match text {
        Text::Whole(text) => searcher.search_slice(matcher, text, sink),
        Text::Stream(stream) => searcher.search_reader(matcher, stream, sink),
    }
}

/// Passes on what is found in a text until the search of all files ends. A line that has begun is
/// printed to its end.
struct UntilEnd<'a, S> {
    sink: S,
    output: &'a Output,
}

impl<S: Sink> Sink for UntilEnd<'_, S> {
    type Error = S::Error;

    #[inline]
    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, S::Error> {
        Ok(self.sink.matched(searcher, found)? && !self.output.is_ending())
    }

    #[inline]
    fn context(&mut self, searcher: &Searcher, line: &SinkContext<'_>) -> Result<bool, S::Error> {
        Ok(self.sink.context(searcher, line)? && !self.output.is_ending())
    }

    fn context_break(&mut self, searcher: &Searcher) -> Result<bool, S::Error> {
        self.sink.context_break(searcher)
    }

    fn binary_data(&mut self, searcher: &Searcher, offset: u64) -> Result<bool, S::Error> {
        self.sink.binary_data(searcher, offset)
    }

    fn begin(&mut self, searcher: &Searcher) -> Result<bool, S::Error> {
        self.sink.begin(searcher)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> Result<(), S::Error> {
        self.sink.finish(searcher, finish)
    }
}

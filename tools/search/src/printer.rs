//! Searching one text and printing its matches: one of ripgrep's printers, chosen by the mode.

use std::io::{self, Read, Write};
use std::path::Path;

use grep_matcher::Matcher;
use grep_printer::{
    ColorSpecs, JSON, JSONBuilder, PathPrinterBuilder, Standard, StandardBuilder, Stats, Summary,
    SummaryBuilder, SummaryKind, default_color_specs,
};
use grep_searcher::{Searcher, Sink};

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
    pub(crate) fn new(plan: &Plan, page: Page<'a>) -> Printer<'a> {
        let print = &plan.print;
        let colors = ColorSpecs::new(&default_color_specs());
        match plan.mode {
            Mode::Lines => Printer::Lines(
                StandardBuilder::new()
                    .color_specs(colors)
                    .column(print.column)
                    .heading(print.heading)
                    .only_matching(print.only_matching)
                    .path(print.with_path)
                    .path_terminator(print.path_end)
                    .per_match_one_line(true)
                    .separator_context(Some(b"--".to_vec()))
                    .stats(print.totals != Totals::None)
                    .build(page),
            ),
            Mode::Summary(kind) => Printer::Summary(
                SummaryBuilder::new()
                    .color_specs(colors)
                    .kind(kind)
                    .path(print.with_path)
                    .path_terminator(print.path_end)
                    .stats(print.totals != Totals::None)
                    .build(page),
            ),
            Mode::Json => Printer::Json(JSONBuilder::new().build(page)),
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
            Printer::Paths(builder, page) => builder.build(page).write(path),
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
        match self {
            Printer::Lines(printer) => {
                let mut sink = printer.sink_with_path(&matcher, path);
                search(searcher, &matcher, text, &mut sink)?;
                Ok(Found {
                    has_match: sink.has_match(),
                    stats: sink.stats().cloned(),
                })
            }
            Printer::Summary(printer) => {
                let mut sink = printer.sink_with_path(&matcher, path);
                search(searcher, &matcher, text, &mut sink)?;
                Ok(Found {
                    has_match: sink.has_match(),
                    stats: sink.stats().cloned(),
                })
            }
            Printer::Paths(..) => unreachable!("files are not searched in this mode"),
            Printer::Json(printer) => {
                let mut sink = printer.sink_with_path(&matcher, path);
                search(searcher, &matcher, text, &mut sink)?;
                Ok(Found {
                    has_match: sink.has_match(),
                    stats: Some(sink.stats().clone()),
                })
            }
        }
    }
}

/// Returns the printer of paths that end with this byte, or as the options say.
fn path_printer(print: &Print, end: u8) -> PathPrinterBuilder {
    let mut builder = PathPrinterBuilder::new();
    builder
        .color_specs(ColorSpecs::new(&default_color_specs()))
        .terminator(print.path_end.unwrap_or(end));
    builder
}

fn search<S: Sink<Error = io::Error>>(
    searcher: &mut Searcher,
    matcher: impl Matcher,
    text: Text<'_>,
    sink: S,
) -> io::Result<()> {
    match text {
        Text::Whole(text) => searcher.search_slice(matcher, text, sink),
        Text::Stream(stream) => searcher.search_reader(matcher, stream, sink),
    }
}

//! The printed results of some files, in memory until they are written to stdout together.

use std::io;

use termcolor::{Ansi, ColorSpec, WriteColor};

use crate::output::{Output, Place};

/// Maximum size of a result that is kept until its file has been searched. A larger one is printed in parts, while others wait.
const KEPT_MAX: usize = 1024 * 1024;

/// Text with or without colors, to be written at once unless it is large.
pub(crate) struct Page<'a> {
    pub(crate) text: Vec<u8>,
    colors: bool,
    output: &'a Output,
    /// Where the result goes that is being printed.
    pub(crate) place: Place,
    /// `true` if a part of it has been printed.
    is_in_parts: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(output: &'a Output, place: Place, colors: bool) -> Page<'a> {
        Page {
            text: Vec::new(),
            colors,
            output,
            place,
            is_in_parts: false,
        }
    }

    /// Prints what the page has. Called only between results.
    pub(crate) fn print(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.output.print(self.place, text);
    }

    /// Ends a result of which a part has been printed. Returns `false` if none has.
    pub(crate) fn end_parts(&mut self) -> bool {
        let is_in_parts = std::mem::take(&mut self.is_in_parts);
        if is_in_parts {
            self.output.print_part(self.place, &self.text);
            self.text.clear();
            self.output.end(self.place);
        }
        is_in_parts
    }
}

impl io::Write for Page<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        if self.text.len() >= KEPT_MAX {
            self.output.print_part(self.place, &self.text);
            self.text.clear();
            self.is_in_parts = true;
        }
        match self.output.is_closed() {
            // Ends the search of the file.
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteColor for Page<'_> {
    fn supports_color(&self) -> bool {
        self.colors
    }

    fn set_color(&mut self, color: &ColorSpec) -> io::Result<()> {
        match self.colors {
            true => Ansi::new(&mut self.text).set_color(color),
            false => Ok(()),
        }
    }

    fn reset(&mut self) -> io::Result<()> {
        match self.colors {
            true => Ansi::new(&mut self.text).reset(),
            false => Ok(()),
        }
    }
}

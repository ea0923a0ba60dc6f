//! The printed results of some files, in memory until they are written to stdout together.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use termcolor::{Ansi, ColorSpec, HyperlinkSpec, WriteColor};

use crate::output::{Destination, Output};

/// Lines of a stream are collected up to this size while more are there.
const STREAM_BYTES: usize = 32 * 1024;
/// Maximum size of a result that is kept until its file has been searched. A larger one is printed
/// in parts, and the others after it.
const KEPT_MAX: usize = 1024 * 1024;

/// Stands for the path of a file in what a printer writes, recognized by its length and address. A
/// printer resolves the links of a path before it prints it, whether or not it prints hyperlinks,
/// which is a system call for each directory on the way. It fails at once for this one. Printers
/// write no constant of this length, so no comparison is left where they write one.
static PATH: [u8; 19] = *b"\0path of the file\0\0";

/// Text with or without colors, to be written at once unless it is large.
pub(crate) struct Page<'a> {
    pub(crate) text: Vec<u8>,
    /// The size of the text at which a part of it is printed: zero while a stream is searched.
    text_max: usize,
    /// Written in the place of [`PATH`].
    path: Vec<u8>,
    /// `true` if the page writes paths that printers write as they are.
    pub(crate) writes_path: bool,
    colors: bool,
    pub(crate) output: &'a Output,
    /// Where the result goes that is being printed.
    pub(crate) destination: Destination,
    /// `true` if a part of it has been printed.
    is_in_parts: bool,
    /// Where the result goes instead while a stream is searched.
    stream: Option<Arc<StreamPage<'a>>>,
}

/// The result of a stream, which is printed as it is found.
pub(crate) struct StreamPage<'a> {
    output: &'a Output,
    destination: Destination,
    /// `true` if others are not to wait for the end of the stream, as it may never come.
    is_endless: bool,
    /// The path, where it is printed above the lines of a file.
    heading: Vec<u8>,
    state: Mutex<StreamState>,
}

#[derive(Default)]
struct StreamState {
    text: Vec<u8>,
    has_printed: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(output: &'a Output, destination: Destination, colors: bool) -> Page<'a> {
        Page {
            text: Vec::new(),
            text_max: KEPT_MAX,
            path: Vec::new(),
            writes_path: false,
            colors,
            output,
            destination,
            is_in_parts: false,
            stream: None,
        }
    }

    /// Returns a page without text.
    pub(crate) fn empty(&self) -> Page<'a> {
        Page::new(self.output, self.destination, self.colors)
    }

    /// Returns the path that a printer is to be given for this one.
    pub(crate) fn stand_in<'p>(&mut self, path: &'p Path) -> &'p Path {
        if !self.writes_path {
            return path;
        }
        self.path.clear();
        self.path.extend_from_slice(path.as_os_str().as_bytes());
        Path::new(OsStr::from_bytes(&PATH))
    }

    /// Prints what the page has. Called only between results.
    pub(crate) fn print(&mut self) {
        self.output.print(self.destination, &mut self.text);
        self.text.clear();
        self.text.shrink_to(2 * KEPT_MAX);
    }

    /// Begins a result that is printed as it is found. The page has no text.
    pub(crate) fn begin_stream(
        &mut self,
        is_endless: bool,
        heading: Vec<u8>,
    ) -> Arc<StreamPage<'a>> {
        let page = StreamPage {
            output: self.output,
            destination: self.destination,
            is_endless,
            heading,
            state: Mutex::default(),
        };
        self.text_max = 0;
        Arc::clone(self.stream.insert(Arc::new(page)))
    }

    /// Ends the stream. What is left of its result goes to the page.
    fn end_stream(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        self.text_max = KEPT_MAX;
        if stream.is_unordered() {
            return stream.print();
        }
        let mut state = stream.lock();
        self.text = std::mem::take(&mut state.text);
        self.is_in_parts = state.has_printed;
    }

    /// Prints a part of the result, or passes the last `length` bytes on to the stream.
    #[cold]
    #[inline(never)]
    fn print_part(&mut self, length: usize) {
        let Some(stream) = &self.stream else {
            self.output.print_part(self.destination, &self.text);
            self.text.clear();
            self.is_in_parts = true;
            return;
        };
        let before = self.text.len() - length;
        stream.write(&self.text[before..]);
        self.text.truncate(before);
    }

    #[inline(never)]
    fn write_path(&mut self) {
        self.text.extend_from_slice(&self.path);
        if self.text.len() >= self.text_max {
            self.print_part(self.path.len());
        }
    }

    fn ansi(&mut self) -> Ansi<&mut Self> {
        Ansi::new(self)
    }

    /// Ends a result of which a part has been printed. Returns `false` if none has.
    pub(crate) fn end_parts(&mut self) -> bool {
        self.end_stream();
        let is_in_parts = std::mem::take(&mut self.is_in_parts);
        if is_in_parts {
            self.output.print_part(self.destination, &self.text);
            self.text.clear();
            self.output.end(self.destination);
        }
        is_in_parts
    }
}

impl io::Write for Page<'_> {
    /// Appends the bytes to the text, or the path if they are its placeholder. Called several times
    /// for each match. As it never fails and does little, it becomes a part of what the printers
    /// do.
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() == PATH.len() && bytes.as_ptr() == PATH.as_ptr() {
            self.write_path();
        } else {
            self.text.extend_from_slice(bytes);
            if self.text.len() >= self.text_max {
                self.print_part(bytes.len());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteColor for Page<'_> {
    fn supports_color(&self) -> bool {
        self.colors
    }

    fn supports_hyperlinks(&self) -> bool {
        self.colors
    }

    fn set_hyperlink(&mut self, link: &HyperlinkSpec) -> io::Result<()> {
        if self.colors {
            self.ansi().set_hyperlink(link)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn set_color(&mut self, color: &ColorSpec) -> io::Result<()> {
        if self.colors {
            self.ansi().set_color(color)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn reset(&mut self) -> io::Result<()> {
        if self.colors {
            self.ansi().reset()
        } else {
            Ok(())
        }
    }
}

impl StreamPage<'_> {
    /// Calls `read`, which may wait for more of the stream, once what was found before has been
    /// printed.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the search ends; the errors of `read`.
    pub(crate) fn print_before<R>(&self, read: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.print();
        self.output.unless_ending()?;
        if !self.is_endless {
            return read();
        }
        self.output.leave();
        let result = read();
        self.output.join();
        result
    }

    fn print(&self) {
        let mut state = self.lock();
        let text = std::mem::take(&mut state.text);
        let is_first = !state.has_printed;
        state.has_printed |= !text.is_empty();
        drop(state);
        match self.destination {
            _ if text.is_empty() => {}
            Destination::Any(reader) if self.is_endless => {
                let heading = if is_first { b"" } else { &self.heading[..] };
                self.output.print_lines(reader, heading, &text);
            }
            destination => self.output.print_part(destination, &text),
        }
    }

    fn write(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.text.extend_from_slice(bytes);
        let is_full = state.text.len() >= STREAM_BYTES && bytes.ends_with(b"\n");
        drop(state);
        if is_full {
            self.print();
        }
    }

    fn is_unordered(&self) -> bool {
        self.is_endless && matches!(self.destination, Destination::Any(_))
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

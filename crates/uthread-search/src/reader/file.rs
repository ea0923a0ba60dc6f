//! How a reader searches a file: read as a whole, as a stream, in parts, or by a program.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::Ordering;

use grep_searcher::BinaryDetection;
use memchr::memchr;
use uthread::fs::{AlignedBuffer, File};
use uthread::sync::SemaphorePermit;

use super::Reader;
use crate::contents::{self, Ahead, CHUNK_BYTES, Start, Watched};
use crate::parts::count_lines;
use crate::plan::{Mode, is_stdin};
use crate::printer::{Found, Text};
use crate::program::Programs;
use crate::task::{Target, Task};

impl<'a> Reader<'a> {
    /// Searches a file, and prints the result to the page.
    pub(super) fn file(&mut self, task: &Task) -> io::Result<Found> {
        let search = self.search;
        search.files.fetch_add(1, Ordering::Relaxed);
        if search.plan.mode == Mode::Path {
            return self.path(&task.target);
        }
        let binary = self.detect_binary(&task.target);
        if let Some(programs) = &search.plan.programs
            && !task.is_endless()
            && let Some(found) = self.program(programs, binary)?
        {
            return Ok(found);
        }
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => AlignedBuffer::of_pages(CHUNK_BYTES)?,
        };
        let result = self.contents(task, binary, &mut buffer);
        self.buffer = Some(buffer);
        result
    }

    /// Reads a file, at first into the buffer, and searches it.
    fn contents(
        &mut self,
        task: &Task,
        binary: &BinaryDetection,
        buffer: &mut [u8],
    ) -> io::Result<Found> {
        let search = self.search;
        let (count, file) = match &task.target {
            Target::Found(entry) => {
                let start = || contents::start(entry, self.since, buffer);
                match search.patiently(start)? {
                    Start::Whole(count) => (count, None),
                    Start::Longer(count, file) => (count, Some(file)),
                }
            }
            Target::Named(root) if is_stdin(&root.path) => {
                return self.stream(&mut uthread::io::stdin().lock(), binary, true);
            }
            Target::Named(root) if root.is_endless => {
                let file = self.open_endless(&root.path)?;
                return self.stream(&mut Ahead::new(file, buffer, 0, true), binary, true);
            }
            Target::Named(root) => (0, Some(search.patiently(|| File::open(&root.path))?)),
        };
        let Some(file) = file else {
            return self.whole(&buffer[..count], binary);
        };
        let _place = self.stream_place();
        if let Mode::Summary(kind) = search.plan.mode
            && search.plan.counts_lines
            && let Some(lines) =
                count_lines(search, &self.matcher, kind, &file, binary_byte(binary))?
        {
            let print = &search.plan.print;
            return self.printer.print_count(kind, print, &self.path, lines);
        }
        self.stream(&mut Ahead::new(file, buffer, count, false), binary, false)
    }

    /// Waits until one of the large files is searched no more. Ordered results wait for each other,
    /// and so must not wait for a place that a later one has.
    fn stream_place(&self) -> Option<SemaphorePermit<'a>> {
        let search = self.search;
        (!search.plan.is_sorted()).then(|| search.streams.acquire().expect("nobody closes it"))
    }

    /// Searches the output of a program in place of the file. Returns `None` if there is no program
    /// for it.
    fn program(
        &mut self,
        programs: &Programs,
        binary: &BinaryDetection,
    ) -> io::Result<Option<Found>> {
        let _place = self.stream_place();
        let started = self.search.patiently(|| programs.start(&self.path))?;
        let Some(mut running) = started else {
            return Ok(None);
        };
        let found = self.stream(&mut running, binary, false);
        let ended = running.end();
        let found = found?;
        ended.map(|()| Some(found))
    }

    /// Opens a pipe, which waits for a process that writes to it.
    fn open_endless(&self, path: &Path) -> io::Result<File> {
        let output = self.search.output;
        output.leave();
        let file = self.search.patiently(|| File::open(path));
        output.join();
        file
    }

    /// Searches a stream. Lines of one that may never end are printed before each wait for the next
    /// ones, as are those of a single file if lines are not collected.
    fn stream(
        &mut self,
        stream: &mut dyn Read,
        binary: &BinaryDetection,
        is_endless: bool,
    ) -> io::Result<Found> {
        let plan = self.search.plan;
        let prints_lines = plan.print.line_buffered && plan.print.is_single;
        let page = (is_endless || prints_lines).then(|| {
            let heading = self.printer.heading(&plan.print, &self.path);
            self.printer.page().begin_stream(is_endless, heading)
        });
        let mut stream = Watched::new(stream, page.as_deref(), self.search);
        let text = Text::Stream(&mut stream);
        let result = self
            .printer
            .search(&mut self.searcher, &*self.matcher, &self.path, text);
        if stream.has_worn_out(*binary != BinaryDetection::none()) {
            self.searcher = plan.searcher.build();
        }
        result
    }

    /// Searches the text of a whole file.
    fn whole(&mut self, text: &[u8], binary: &BinaryDetection) -> io::Result<Found> {
        // The search of a slice looks for NUL bytes only at its beginning and in matching lines, so
        // its result would depend on the size of the file. So would that of a search for the
        // beginning of the text.
        if is_binary(text, binary) || self.search.plan.has_text_anchor {
            return self.stream(&mut &text[..], binary, false);
        }
        let bytes = text.len() as u64;
        self.search.bytes.fetch_add(bytes, Ordering::Relaxed);
        let text = Text::Whole(text);
        self.printer
            .search(&mut self.searcher, &*self.matcher, &self.path, text)
    }

    /// Sets what the searcher does with a binary file, and returns it.
    fn detect_binary(&mut self, target: &Target) -> &'a BinaryDetection {
        let plan = self.search.plan;
        let binary = match target {
            Target::Found(_) => &plan.found_binary,
            Target::Named(_) => &plan.named_binary,
        };
        if self.searcher.binary_detection() != binary {
            self.searcher.set_binary_detection(binary.clone());
        }
        binary
    }
}

fn is_binary(text: &[u8], detection: &BinaryDetection) -> bool {
    binary_byte(detection).is_some_and(|byte| memchr(byte, text).is_some())
}

/// Returns the byte that makes a file binary, if any does.
fn binary_byte(detection: &BinaryDetection) -> Option<u8> {
    detection.quit_byte().or(detection.convert_byte())
}
